"""The name of this machine's CPU and its measured peaks."""

import os
import platform
from collections.abc import Iterable, Mapping
from math import log2, prod
from pathlib import Path
from time import perf_counter

import numpy as np

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.dtypes import to_numpy
from ort_lite.record import Record, field
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

PRODUCTS = {
    "float32": ("MatMul", ("float32",), (240, 384, 256)),
    "int8": ("MatMulInteger", ("uint8", "int8"), (128, 1024, 512)),
    "bfloat16": ("MatMul", ("bfloat16",), (128, 1024, 512)),
}
"""A product for each arithmetic: its operator, types, and (m, k, n). Operands stay in the second cache, and sums are long."""
COPIED = 1 << 27
"""Bytes that a copy reads and writes in all: more than the caches of a core."""
CACHED = tuple(1 << k for k in (16, 18, 20, 21, 22, 24))
"""Bytes of copies that caches may hold."""


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
    """The peaks of one core: operations per second in float32, counting a multiply-add as two, and bytes per second that a copy
    reads and writes in memory. `products` has the operations of other arithmetics that were measured, `caches` the bandwidth of
    copies that move fewer bytes, by their number.
    """

    operations: float
    bandwidth: float
    products: Mapping[str, float] = field(default_factory=dict)
    caches: Mapping[int, float] = field(default_factory=dict)

    def shortest_time(
        self, operations: float | None, nbytes: float, threads: int, arithmetic: str = "float32"
    ) -> tuple[float, str]:
        """Return the seconds that the operations or the bytes take at least, whichever is more, and the name of that limit."""
        computed = (operations or 0.0) / (self.products.get(arithmetic, self.operations) * threads)
        moved = nbytes / (self._bandwidth_at(nbytes / threads) * threads)
        return (computed, "arithmetic") if computed > moved else (moved, "memory")

    def _bandwidth_at(self, nbytes: float) -> float:
        """Interpolate the bandwidth of a copy that moves so many bytes."""
        rates = {**self.caches, COPIED: self.bandwidth}
        return float(np.interp(log2(max(nbytes, 1.0)), [log2(size) for size in rates], list(rates.values())))

    def share(
        self, operations: float | None, nbytes: float, seconds: float, threads: int, arithmetic: str = "float32"
    ) -> tuple[float, str]:
        """Return the fraction of the nearer limit that was reached, and the name of that limit.

        It can exceed 1 with Winograd convolutions, and if operands are in a faster cache than those of a copy of their size.
        """
        shortest, limit = self.shortest_time(operations, nbytes, threads, arithmetic)
        return shortest / seconds if seconds else 0.0, limit


def peaks(seconds: float = 0.5, arithmetics: Iterable[str] = ()) -> Peaks:
    """Measure the peaks of copies and of matrix products on the CPU provider, in float32 and in further arithmetics, for equal parts
    of the time. The fastest run of each counts. bfloat16 can be computed in float32, so its peak is not below that one, nor is a
    cache slower than memory.
    """
    measured = sorted({"float32", *arithmetics})
    part = seconds / (2 + len(measured))
    products = {name: 2.0 * prod(PRODUCTS[name][2]) / _shortest(_product(name), part) for name in measured}
    bandwidth = rate = _bandwidth(COPIED, part)
    caches = {size: (rate := max(rate, _bandwidth(size, part / len(CACHED)))) for size in reversed(CACHED)}
    operations = products.pop("float32")
    if "bfloat16" in products:
        products["bfloat16"] = max(operations, products["bfloat16"])
    return Peaks(operations, bandwidth, products, dict(sorted(caches.items())))


def _bandwidth(nbytes: int, seconds: float) -> float:
    source, target = np.ones(nbytes // 2, np.uint8), np.zeros(nbytes // 2, np.uint8)
    return nbytes / _shortest(lambda: np.copyto(target, source), seconds)


def _product(arithmetic: str) -> Run:
    operator, dtypes, (m, k, n) = PRODUCTS[arithmetic]
    options = SessionOptions()
    options.intra_op_num_threads = 1
    model = operator_model(operator, [(m, k), (k, n)], dtypes, constants=[1])
    session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {"i0": np.random.default_rng(1).uniform(0.0, 2.0, (m, k)).astype(to_numpy(dtypes[0]))}
    return lambda: session.run(None, feed)


def _shortest(run: Run, seconds: float) -> float:
    run()
    shortest, end = float("inf"), perf_counter() + seconds
    while shortest == float("inf") or perf_counter() < end:
        start = perf_counter()
        run()
        shortest = min(shortest, perf_counter() - start)
    return shortest
