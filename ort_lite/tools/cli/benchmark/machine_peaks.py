"""The name of this machine's CPU and its measured peaks."""

import os
import platform
from pathlib import Path
from time import perf_counter

import numpy as np

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.interleaved_runs import Run
from ort_lite.tools.cli.benchmark.operator import operator_model

VECTORS = (
    "avx2",
    "fma",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimddp",
    "bf16",
    "i8mm",
    "sve",
    "sve2",
)
"""Features that say how wide and how fast vectors are, as /proc/cpuinfo spells them."""

ROWS, DEPTH, COLUMNS = 240, 384, 256
"""A product whose operands stay in the second cache, and of which one piece of depth is the whole."""
COPIED = 1 << 26
"""Bytes that are copied: more than the caches of a core."""


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu(text: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the CPU's name and its vector features, parsed from the text of /proc/cpuinfo."""
    if text is None:
        path = Path("/proc/cpuinfo")
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name") or platform.processor() or platform.machine()
    return name, tuple(flag for flag in VECTORS if flag in flags)


class Peaks(Record):
    """The peaks of one core: operations per second, counting a multiply-add as two, and bytes per second that a copy reads and
    writes.
    """

    operations: float
    bandwidth: float

    def share(self, operations: float | None, nbytes: float, seconds: float, threads: int) -> tuple[float, str]:
        """Return the fraction of the nearer limit that was reached, and the name of that limit.

        It can exceed 1 if operands are in a cache, with Winograd convolutions, and with products of small integers.
        """
        computed = (operations or 0.0) / (self.operations * threads * seconds) if seconds else 0.0
        moved = nbytes / (self.bandwidth * threads * seconds) if seconds else 0.0
        return (computed, "arithmetic") if computed > moved else (moved, "memory")


def peaks(seconds: float = 0.5) -> Peaks:
    """Measure the peaks. Half of the time goes to matrix products on the CPU provider, half to copies; the fastest of each counts."""
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    product = _shortest(_product(), seconds / 2)
    copied = _shortest(lambda: np.copyto(target, source), seconds / 2)
    return Peaks(2.0 * ROWS * DEPTH * COLUMNS / product, 2.0 * COPIED / copied)


def _product() -> Run:
    options = SessionOptions()
    options.intra_op_num_threads = 1
    model = operator_model("MatMul", [(ROWS, DEPTH), (DEPTH, COLUMNS)], constants=[1])
    session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {"i0": np.random.default_rng(1).standard_normal((ROWS, DEPTH)).astype(np.float32)}
    return lambda: session.run(None, feed)


def _shortest(run: Run, seconds: float) -> float:
    run()
    shortest, end = float("inf"), perf_counter() + seconds
    while shortest == float("inf") or perf_counter() < end:
        start = perf_counter()
        run()
        shortest = min(shortest, perf_counter() - start)
    return shortest
