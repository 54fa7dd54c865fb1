"""Measure what a call of one fused node costs, compared with onnxruntime's CPU provider: alternating runs, medians.

The node is Sum of 1, 2 or 8 inputs of 16 floats. "bare" is a provider whose partitions return a constant, so its time is what
onnxruntime and the plugin take; "ort-lite" is ort-lite's CPU provider.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-ep/benchmarks/bench_call.py [ROUNDS]
"""

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnxruntime

from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition
from tests.inside_onnxruntime import OWN, model, register, registered, session

INPUTS = (1, 2, 8)
RUNS = 200
NUMBERS = np.zeros(16, np.float32)


class BareExecutionProvider(ExecutionProvider):
    """Returns the same array from each run."""

    name: ClassVar[str] = "BareExecutionProvider"
    exact: ClassVar[bool] = True

    def get_capability(self, graph: GraphView) -> list[Capability]:
        return [Capability(list(graph))]

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        return [lambda inputs: [NUMBERS]]


def seconds(made: onnxruntime.InferenceSession, feeds: Any) -> float:
    """Return the seconds of one of RUNS runs."""
    run, names = made._sess.run, ["y"]
    begin = time.perf_counter()
    for _ in range(RUNS):
        run(names, feeds, None)
    return (time.perf_counter() - begin) / RUNS


def main() -> None:
    """Print a row per number of inputs: microseconds of a run, and what a call costs more than onnxruntime's own."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"onnxruntime {onnxruntime.__version__}, microseconds of a run")
    print("inputs  onnxruntime  bare  ort-lite  bare - onnxruntime")
    with registered(BareExecutionProvider):
        for count in INPUTS:
            names = [f"x{k}" for k in range(count)]
            text = ", ".join(f"float[N] {name}" for name in names)
            source = model(f"({text}) => (float[N] y) {{ y = Sum({', '.join(names)}) }}")
            feeds = dict.fromkeys(names, NUMBERS)
            sessions = [session(source), session(source, BareExecutionProvider.name), session(source, register(OWN))]
            found = [[seconds(made, feeds) for made in sessions] for _ in range(rounds)]
            alone, bare, own = (statistics.median(times) * 1e6 for times in zip(*found, strict=True))
            print(f"{count:6}  {alone:11.1f}  {bare:4.1f}  {own:8.1f}  {bare - alone:18.1f}")
            del sessions


if __name__ == "__main__":
    main()
