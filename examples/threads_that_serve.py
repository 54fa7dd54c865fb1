"""Many threads over one session, as a server has them: how many requests a second, how long they take, and one that takes too long.

    python examples/threads_that_serve.py

`session.run` may be called from any number of threads at once: native code runs without the GIL, and each run has memory of its own.
Callers share the cores, so the session itself gets one thread a run (`intra_op_num_threads`). A run with a `timeout` ends soon
after it by DeadlineExceeded, even inside of one large convolution, and the session goes on.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import ort_lite
from ort_lite.errors import DeadlineExceeded

FOLDER = Path(__file__).parent / "digits"

Images = NDArray[np.uint8]


class Server:
    """One session that answers many."""

    def __init__(self) -> None:
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort_lite.InferenceSession(FOLDER / "digits_cnn.onnx", options, ["CPUExecutionProvider"])

    def answer(self, images: Images, timeout: float | None = None) -> list[int]:
        """(n, 1, 8, 8) pixels -> n digits. Raises DeadlineExceeded where that takes longer than `timeout` seconds."""
        (probabilities,) = self._session.run(["probabilities"], {"images": images}, timeout=timeout)
        digits: list[int] = probabilities.argmax(1).tolist()
        return digits

    def timed(self, images: Images) -> tuple[list[int], float]:
        """The digits, and the seconds from question to answer."""
        start = perf_counter()
        return self.answer(images), perf_counter() - start


def serve(server: Server, requests: Sequence[Images], threads: int) -> tuple[list[list[int]], list[float], float]:
    """All requests by so many threads: the answers, how long each took, and how long all did, in seconds."""
    with ThreadPoolExecutor(threads) as pool:
        start = perf_counter()
        answered = list(pool.map(server.timed, requests))
        return [digits for digits, _ in answered], [seconds for _, seconds in answered], perf_counter() - start


def too_long(server: Server, image: Images, timeout: float = 0.005) -> tuple[str, float]:
    """What a request of 20,000 images is told, and after how many seconds."""
    many = np.repeat(image, 20_000, axis=0)
    start = perf_counter()
    try:
        server.answer(many, timeout)
    except DeadlineExceeded as late:
        return str(late), perf_counter() - start
    return "it was quick enough", perf_counter() - start


def main() -> None:
    server = Server()
    with np.load(FOLDER / "test_images.npz") as data:
        images, labels = data["images"], data["labels"]
    server.answer(images[:1])
    requests = np.split(images, 3) * 150
    print(f"{len(requests)} requests of {len(requests[0])} images")
    print("threads  requests a second  median, ms  99 of 100 within, ms")
    for threads in (1, 2, 4, 8):
        answers, seconds, total = serve(server, requests, threads)
        p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
        print(f"{threads:>7}  {len(requests) / total:>17,.0f}  {p50:>10.3f}  {p99:>20.3f}")
    right = np.ravel(answers) == np.tile(labels, 150)
    print(f"{right.mean():.1%} of the digits were read right\n")
    said, after = too_long(server, images[:1])
    print(f"20,000 images in 5 ms: {said} ({after * 1e3:.1f} ms)")
    print(f"the next request: {server.answer(images[:1])}, expected [{labels[0]}]")


if __name__ == "__main__":
    main()
