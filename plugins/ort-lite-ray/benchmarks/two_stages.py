"""Compare the throughput of two single-threaded actors with that of one, with 8 runs in flight: alternating rounds, medians.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-ray/benchmarks/two_stages.py [RUNS [ROUNDS]]
"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from ort_lite_ray.testing import cluster

import ort_lite
from tests.models.light_models import image, randomised

FLIGHT = 8


def main() -> None:
    """Check the results, measure both and print the rates."""
    runs, rounds = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 200), (2, 5)))
    model = randomised("resnet50")
    with cluster():
        sessions = {count: on_actors(model, count) for count in (1, 2)}
        feeds = {sessions[1].get_inputs()[0].name: image()}
        expected = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
        for session in sessions.values():
            for found, wanted in zip(session.run(None, feeds), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for count, session in sessions.items():
                rates[count].append(throughput(session, feeds, runs))
        one, two = (statistics.median(found) for found in rates.values())
    print(f"{processor()}: light_resnet50, {FLIGHT} runs in flight, {rounds} alternating rounds of {runs} runs, medians:")
    print(f"one actor {one:.1f} runs/s, two {two:.1f} runs/s: {two / one:.2f} times")


def on_actors(model: bytes, actors: int) -> ort_lite.InferenceSession:
    """Create a session whose provider runs on a number of actors."""
    return ort_lite.InferenceSession(model, providers=[("RayExecutionProvider", {"actors": actors}), "CPUExecutionProvider"])


def throughput(session: ort_lite.InferenceSession, feeds: dict[str, np.ndarray], runs: int) -> float:
    """Return the runs per second."""
    with ThreadPoolExecutor(FLIGHT) as pool:
        list(pool.map(lambda _: session.run(None, feeds), range(FLIGHT)))
        begin = time.perf_counter()
        list(pool.map(lambda _: session.run(None, feeds), range(runs)))
        return runs / (time.perf_counter() - begin)


def processor() -> str:
    """Return the name of this host's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")


if __name__ == "__main__":
    main()
