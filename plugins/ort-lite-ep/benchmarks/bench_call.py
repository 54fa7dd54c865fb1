"""Measure the cost of a call of one fused node, compared with onnxruntime's CPU provider: alternating runs, medians.

The node is a Sum of 1, 2 or 8 inputs of 16 floats. "bare" is a provider whose partitions return a constant, so its time is that of
onnxruntime and the plugin. "ort-lite" is ort-lite's CPU provider. With "again", each run gets the same arrays. With "new", each gets
others. Times are those of the processor, in microseconds.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-ep/benchmarks/bench_call.py [ROUNDS]
"""

import statistics
import sys
import time
from collections.abc import Sequence
from itertools import product
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
        """Claim the whole graph."""
        return [Capability(list(graph))]

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        """Return functions that compute nothing."""
        return [lambda inputs: [NUMBERS]]


def seconds(made: onnxruntime.InferenceSession, feeds: Sequence[dict[str, Any]]) -> float:
    """Return the time of a run."""
    run, names = made._sess.run, ["y"]
    begin = time.process_time()
    for feed in feeds:
        run(names, feed, None)
    return (time.process_time() - begin) / len(feeds)


def main() -> None:
    """Print two rows for each number of inputs: the times, and the cost of the call, which is bare less onnxruntime."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"onnxruntime {onnxruntime.__version__}")
    print("inputs  arrays  onnxruntime  bare  ort-lite  cost of the call")
    with registered(BareExecutionProvider):
        for count, kind in product(INPUTS, ("again", "new")):
            names = [f"x{k}" for k in range(count)]
            text = ", ".join(f"float[N] {name}" for name in names)
            source = model(f"({text}) => (float[N] y) {{ y = Sum({', '.join(names)}) }}")
            sessions = [session(source), session(source, BareExecutionProvider.name), session(source, register(OWN))]
            given = [{name: NUMBERS.copy() for name in names} for _ in range(RUNS)]
            feeds = given if kind == "new" else given[:1] * RUNS
            found = [[seconds(made, feeds) for made in sessions] for _ in range(rounds)]
            alone, bare, own = (statistics.median(times) * 1e6 for times in zip(*found, strict=True))
            print(f"{count:6}  {kind:6}  {alone:11.1f}  {bare:4.1f}  {own:8.1f}  {bare - alone:16.1f}")
            del sessions


if __name__ == "__main__":
    main()
