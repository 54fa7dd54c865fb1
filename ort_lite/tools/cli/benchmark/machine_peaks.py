"""The name of this machine's CPU and its measured peaks."""

import os
import platform
from collections.abc import Callable, Mapping
from functools import cache
from math import log2
from pathlib import Path
from time import perf_counter

import numpy as np

from ort_lite.native.cpu import runnable
from ort_lite.native.instructions import runs
from ort_lite.native.llvm import host_cpu_name
from ort_lite.record import Record, field
from ort_lite.tools.view.node_times import NodeTime

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

FACTORS = {"float32": ("f32",), "int8": ("u8s8", "s8s8", "s16s16", "f32"), "bfloat16": ("bf16", "f32")}
"""The factors of the instructions that can compute products, by element type."""
COPIED = 1 << 27
"""Bytes that a copy reads and writes in all: more than the caches of a core."""
CACHED = tuple(1 << k for k in (16, 18, 20, 21, 22, 24))
"""Bytes of copies that caches may hold."""


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu(text: str | None = None, core: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the CPU's name and its vector features, parsed from the text of /proc/cpuinfo.

    A name without a model's number, as many virtual machines have it, has `core` behind it, LLVM's name of the generation.
    """
    if text is None:
        path, core = Path("/proc/cpuinfo"), host_cpu_name()
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name") or platform.processor() or platform.machine()
    if core and not any(map(str.isdigit, name)):
        name = f"{name} ({core.replace('znver', 'Zen ')})"
    return name, tuple(flag for flag in VECTORS if flag in flags)


class Peaks(Record):
    """The peaks of one core: operations per second by instruction, counting a multiply-add as two, and bytes per second that a copy
    reads and writes in memory. `caches` has the bandwidth of copies that move fewer bytes, by their number.
    """

    operations: Mapping[str, float]
    bandwidth: float
    caches: Mapping[int, float] = field(default_factory=dict)

    def shortest_time(
        self, operations: float | None, nbytes: float, threads: int, arithmetic: str = "float32", instruction: str = ""
    ) -> tuple[float, str]:
        """Return the seconds that the operations or the bytes take at least, whichever is more, and the name of that limit.

        That is "memory" or an instruction: the one given, or else the fastest for products of the element type `arithmetic`.
        """
        able = [name for name in self.operations if name.split()[1] in FACTORS[arithmetic]]
        name = instruction if instruction in self.operations else max(able, key=self.operations.__getitem__, default="")
        computed = (operations or 0.0) / (self.operations[name] * threads) if name else 0.0
        moved = nbytes / (self._bandwidth_at(nbytes / threads) * threads)
        return (computed, name) if computed > moved else (moved, "memory")

    def share(self, line: NodeTime, threads: int) -> tuple[float, str]:
        """Return the fraction of the nearer limit that a node reached, and the name of that limit.

        It can exceed 1 with Winograd convolutions, and if operands are in a faster cache than those of a copy of their size.
        """
        shortest, limit = self.shortest_time(line.operations, line.nbytes, threads, line.arithmetic, line.instruction)
        return shortest / line.seconds if line.seconds else 0.0, limit

    def _bandwidth_at(self, nbytes: float) -> float:
        """Interpolate the bandwidth of a copy that moves so many bytes."""
        rates = {**self.caches, COPIED: self.bandwidth}
        return float(np.interp(log2(max(nbytes, 1.0)), [log2(size) for size in rates], list(rates.values())))


@cache
def peaks(seconds: float = 0.3, target: str = "host") -> Peaks:
    """Measure the peaks of copies, and of each instruction that a target has, for half of the time each, once in a process.

    The fastest run counts. A cache is not slower than memory.
    """
    loops = runs(runnable(target))
    operations = {name: made / _shortest(run, seconds / 2 / len(loops)) for name, (run, made) in loops.items()}
    bandwidth = rate = _bandwidth(COPIED, seconds / 4)
    caches = {size: (rate := max(rate, _bandwidth(size, seconds / 4 / len(CACHED)))) for size in reversed(CACHED)}
    return Peaks(operations, bandwidth, dict(sorted(caches.items())))


def _bandwidth(nbytes: int, seconds: float) -> float:
    source, target = np.ones(nbytes // 2, np.uint8), np.zeros(nbytes // 2, np.uint8)
    return nbytes / _shortest(lambda: np.copyto(target, source), seconds)


def _shortest(run: Callable[[], object], seconds: float) -> float:
    run()
    shortest, end = float("inf"), perf_counter() + seconds
    while shortest == float("inf") or perf_counter() < end:
        start = perf_counter()
        run()
        shortest = min(shortest, perf_counter() - start)
    return shortest
