"""Limits of a server, and the error for a request beyond them."""

from ort_lite.record import Record


class Refused(Exception):
    """A request that is answered with an error: `status` is HTTP's, the text one sentence for who sent it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Limits(Record):
    """The limits of a request: `request_bytes` of its body, `json_bytes` of its JSON, `json_memory` bytes that its JSON takes
    as Python's objects, `elements` of a tensor, `texts` of one of strings, `batch` rows of a model whose first dimension
    is free, `seconds` in which all of it arrives, head and body, and in which it is answered. `queue` requests wait for a
    model, and `connections` are open at once, by HTTP and by gRPC each.

    What is beyond is answered at once: bytes with 413, elements and rows with 400, a full queue and too many connections with 503;
    when the time is over, with 408 or the end of the connection where it did not arrive, and 504 where it was not answered.
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
    """Requests that differ in their first dimension alone are run as one: at most `max_batch` rows, the first of which waits at most
    `max_wait` seconds for others. 1: none are joined. `workers` runs of a model go on at once.

    Who sets `max_batch` says that a row's results do not depend on the other rows: no model file does.
    """

    max_batch: int = 1
    max_wait: float = 0.0
    workers: int = 2
