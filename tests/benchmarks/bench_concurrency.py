"""Runs at once: two Python threads on one session, and two sessions of two threads each.

    python tests/benchmarks/bench_concurrency.py MODEL.onnx

First line: throughput of two threads on one single-threaded session over that of one thread. Second: two sessions of two
threads, both at work, over two single-threaded sessions, both at work. Third: CPU seconds of the process in an idle second.
"""

import sys
import time
from collections.abc import Sequence
from statistics import median
from threading import Thread

import numpy as np

import ort_lite

SECONDS, ROUNDS = 1.0, 7


def session(path: str, threads: int) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_lite.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def throughput(sessions: Sequence[ort_lite.InferenceSession]) -> float:
    """Runs a second of one Python thread for each session given, all at once."""
    counts = [0] * len(sessions)
    end = time.perf_counter() + SECONDS

    def work(index: int) -> None:
        own = sessions[index]
        feed = feeds(own)
        while time.perf_counter() < end:
            own.run(None, feed)
            counts[index] += 1

    threads = [Thread(target=work, args=(k,)) for k in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def feeds(own: ort_lite.InferenceSession) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    rng = np.random.default_rng(0)
    shapes = {a.name: [d if isinstance(d, int) else 1 for d in a.shape] for a in own.get_inputs()}
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def main() -> None:
    path = sys.argv[1]
    ones, twos = [session(path, 1), session(path, 1)], [session(path, 2), session(path, 2)]
    throughput([*ones, *twos])
    scaling, sharing = [], []
    for _ in range(ROUNDS):
        scaling.append(throughput([ones[0], ones[0]]) / throughput([ones[0]]))
        sharing.append(throughput(twos) / throughput(ones))
    before = time.process_time()
    time.sleep(1)
    idle = (time.process_time() - before) * 1e3
    print(f"two threads on one session over one thread: {median(scaling):.2f}")
    print(f"two sessions of two threads over two of one: {median(sharing):.2f}")
    print(f"CPU in an idle second: {idle:.2f} ms")


if __name__ == "__main__":
    main()
