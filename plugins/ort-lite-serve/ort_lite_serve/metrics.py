"""Metrics for Prometheus."""

from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics(Protocol):
    """The metrics that a server reports."""

    def count_answer(self, model: str, status: int) -> None:
        """Count an answered request with its status."""

    def watch(self, model: str, waiting: Callable[[], int]) -> None:
        """Report the number of waiting requests of a model. `waiting` may be called at any time."""

    def count_run(self, model: str, rows: int, requests: int, seconds: float) -> None:
        """Count a run: its rows, its requests and its time in seconds."""

    def text(self) -> bytes:
        """Return the text of /metrics."""


class PrometheusMetrics:
    """The metrics of one server. Its counters are not shared with other servers of the process."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self._requests = Counter("ort_lite_requests", "Requests that were answered.", ["model", "status"], registry=own)
        self._waiting = Gauge("ort_lite_waiting", "Requests that wait.", ["model"], registry=own)
        self._seconds = Histogram("ort_lite_run_seconds", "How long runs take.", ["model"], buckets=SECONDS, registry=own)
        self._rows = Histogram("ort_lite_batch_rows", "Rows of a run.", ["model"], buckets=BATCHES, registry=own)
        self._joined = Histogram("ort_lite_batch_requests", "Requests of a run.", ["model"], buckets=BATCHES, registry=own)

    def count_answer(self, model: str, status: int) -> None:
        """Count an answered request with its status."""
        self._requests.labels(model, str(status)).inc()

    def watch(self, model: str, waiting: Callable[[], int]) -> None:
        """Report the number of waiting requests. `waiting` is called whenever the metrics are read."""
        self._waiting.labels(model).set_function(waiting)

    def count_run(self, model: str, rows: int, requests: int, seconds: float) -> None:
        """Count a run: its rows, its requests and its time in seconds."""
        self._seconds.labels(model).observe(seconds)
        self._rows.labels(model).observe(rows)
        self._joined.labels(model).observe(requests)

    def text(self) -> bytes:
        """Return the text of /metrics."""
        found: bytes = generate_latest(self.registry)
        return found
