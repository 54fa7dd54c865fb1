"""Limits of a server, and the error for a request that exceeds them."""

from ort_lite.record import Record


class Refused(Exception):
    """An error to answer a request with. `status` is an HTTP status; the text is one sentence for the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Limits(Record):
    """The limits of a server. Requests that exceed one are answered with an error at once.

    request_bytes: bytes of a request's body (413).
    json_bytes: bytes of a request's JSON (413).
    json_memory: bytes that the JSON needs as Python objects (413).
    elements: elements of a tensor (400).
    texts: elements of a tensor of strings (400).
    batch: rows of a request to a model whose first dimension is free (400).
    queue: requests that wait for a model (503).
    connections: open connections, for HTTP and for gRPC each (503).
    seconds: time in which a request must arrive, head and body (408, or the connection is closed), and be answered (504).
    """

    request_bytes: int = 64 * 2**20
    json_bytes: int = 8 * 2**20
    json_memory: int = 64 * 2**20
    elements: int = 2**26
    texts: int = 2**20
    batch: int = 4096
    queue: int = 256
    connections: int = 1000
    seconds: float = 30.0


class Batching(Record):
    """The settings of dynamic batching: requests that differ only in their first dimension run as one.

    max_batch: rows of a run; 1 turns batching off. Set it only if a row's results do not depend on other rows, which no
    model file states.
    max_wait: seconds that the first request of a batch waits for others.
    workers: concurrent runs of a model.
    """

    max_batch: int = 1
    max_wait: float = 0.0
    workers: int = 2
