"""What a server takes before it says no, and the error by which it does."""

from ort_lite.record import Record


class Refused(Exception):
    """A request that is answered with an error: `status` is HTTP's, the text one sentence for who sent it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Limits(Record):
    """`request_bytes` of one request's body, `elements` of one tensor, `queue` requests that wait for a model, `seconds` from
    a request's arrival to its answer. Beyond: 413, 400, 503 and 504, at once.
    """

    request_bytes: int = 64 * 2**20
    elements: int = 2**26
    queue: int = 256
    seconds: float = 30.0


class Batching(Record):
    """Requests that differ in their first dimension alone are run as one: at most `max_batch` rows, the first of which waits at most
    `max_wait` seconds for others. `workers` batches of a model run at once.
    """

    max_batch: int = 32
    max_wait: float = 0.0
    workers: int = 2
