"""What happens, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Of one server: counters are not shared with others in the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by_model = {"labelnames": ["model"], "registry": self.registry}
        self._requests = Counter(
            "ort_lite_requests", "Requests that were answered.", ["model", "status"], registry=self.registry
        )
        self._refused = Counter("ort_lite_refused", "Requests for which the queue had no room.", **by_model)  # type: ignore[arg-type]
        self._waiting = Gauge("ort_lite_waiting", "Requests that wait.", **by_model)  # type: ignore[arg-type]
        self._seconds = Histogram("ort_lite_run_seconds", "How long runs take.", **by_model)  # type: ignore[arg-type]
        self._rows = Histogram("ort_lite_batch_rows", "Rows of a run.", ["model"], buckets=_BATCHES, registry=self.registry)
        self._joined = Histogram(
            "ort_lite_batch_requests", "Requests of a run.", ["model"], buckets=_BATCHES, registry=self.registry
        )

    def answered(self, model: str, status: int) -> None:
        self._requests.labels(model, str(status)).inc()

    def refused(self, model: str) -> None:
        self._refused.labels(model).inc()

    def waiting(self, model: str, count: int) -> None:
        self._waiting.labels(model).set(count)

    def ran(self, model: str, rows: int, requests: int, seconds: float) -> None:
        self._seconds.labels(model).observe(seconds)
        self._rows.labels(model).observe(rows)
        self._joined.labels(model).observe(requests)

    def text(self) -> bytes:
        return generate_latest(self.registry)
