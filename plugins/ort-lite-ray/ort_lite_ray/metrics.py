"""Metrics of a replica. Ray exports them, with the deployment and the replica as tags."""

from collections.abc import Callable

from ort_lite_serve.metrics import BATCHES, SECONDS
from ray.serve.metrics import Counter, Gauge, Histogram


class RayMetrics:
    """Metrics through Ray, with the names that `ort-lite serve` uses."""

    def __init__(self) -> None:
        self._requests = Counter("ort_lite_requests", "Requests that were answered.", ("model", "status"))
        self._waiting = Gauge("ort_lite_waiting", "Requests that wait.", ("model",))
        self._seconds = Histogram("ort_lite_run_seconds", "How long runs take.", [*SECONDS], ("model",))
        self._rows = Histogram("ort_lite_batch_rows", "Rows of a run.", [*BATCHES], ("model",))
        self._joined = Histogram("ort_lite_batch_requests", "Requests of a run.", [*BATCHES], ("model",))
        self._watched: dict[str, Callable[[], int]] = {}

    def count_answer(self, model: str, status: int) -> None:
        """Count an answered request with its status."""
        self._requests.inc(1, {"model": model, "status": str(status)})
        if model in self._watched:
            self._waiting.set(self._watched[model](), {"model": model})

    def watch(self, model: str, waiting: Callable[[], int]) -> None:
        """Report the number of waiting requests of a model. `waiting` is called at each answer, because Ray's gauges are set."""
        self._watched[model] = waiting

    def count_run(self, model: str, rows: int, requests: int, seconds: float) -> None:
        """Count a run: its rows, its requests and its time in seconds."""
        tags = {"model": model}
        self._seconds.observe(seconds, tags)
        self._rows.observe(rows, tags)
        self._joined.observe(requests, tags)

    def text(self) -> bytes:
        """Return a note that Ray exports the metrics."""
        return b"# Ray exports the metrics of this replica\n"
