"""Measure the costs of a new length and of a run: `python plugins/ort-lite-xla/benchmarks/shapes.py MODEL.onnx [LENGTH ...]`.

The model's inputs are (batch, length) of token ids or floats. Prints, with buckets, without them and for the CPU provider,
the time of the first run of each length, the median of 20 later runs, and how many programs were compiled.
"""

import sys
from statistics import median
from time import perf_counter

import numpy as np

import ort_lite
from ort_lite.dtypes import Array, from_ort_name

LENGTHS = (7, 8, 12, 20, 24, 50, 60, 64, 100, 128)
RUNS = 20


def feeds(session: ort_lite.InferenceSession, length: int) -> dict[str, Array]:
    """Return ones for all inputs, with 1 for the first dimension of each if it is open, and `length` for other open dimensions."""
    made = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else (1 if axis == 0 else length) for axis, size in enumerate(value.shape)]
        made[value.name] = np.ones(shape, from_ort_name(value.type))
    return made


def seconds(session: ort_lite.InferenceSession, inputs: dict[str, Array]) -> float:
    """Return the seconds of one run."""
    begin = perf_counter()
    session.run(None, inputs)
    return perf_counter() - begin


def main(path: str, *lengths: str) -> None:
    """Measure each length in each session and print the times."""
    sessions = {
        "buckets": ort_lite.InferenceSession(path, providers=["XLAExecutionProvider"]),
        "exact": ort_lite.InferenceSession(path, providers=[("XLAExecutionProvider", {"buckets": 0})]),
        "CPU provider": ort_lite.InferenceSession(path, providers=["CPUExecutionProvider"]),
    }
    for length in map(int, lengths or map(str, LENGTHS)):
        for name, session in sessions.items():
            inputs = feeds(session, length)
            first = seconds(session, inputs)
            again = median(seconds(session, inputs) for _ in range(RUNS))
            print(f"{length:5} {name:13} first {first * 1e3:8.1f} ms, then {again * 1e3:8.2f} ms")
    for name, session in sessions.items():
        made = [facts["compilations"] for facts in session.explain().facts.values() if "compilations" in facts]
        print(f"{name}: {made} programs")


if __name__ == "__main__":
    main(*sys.argv[1:])
