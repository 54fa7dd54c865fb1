"""Predicted costs of kernels: nanoseconds of one thread, from the work that lowering states and constants of the target.

Lowering states the work of each instruction in nanoseconds of a reference CPU, for the number of parts as well. The file `costs.txt`
says by what factor each kernel differs from that, for classes of targets. `ort-lite bench --calibrate` measures the factors of this
machine. A session reads them and never measures.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from ort_lite.dtypes import DType, itemsize
from ort_lite.native.calibration import read_factors
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, evaluate, symbols
from ort_lite.shapes.expr import Dim

RATE = 52
"""The products of float32 that the reference CPU adds up in a nanosecond, in whole register tiles."""
BYTE = 0.017
"""The nanoseconds in which a byte comes from the caches, or goes to them, in a kernel that does little else."""
ROW = 5.0
"""The nanoseconds in which a kernel finds a row, besides what it does with its elements."""
FRACTION = 1024
"""The parts of a nanosecond in which work is counted for one element, row or byte."""
NOMINAL = 256
"""The size that an open dimension counts as."""


class Costs(Record, eq=False):
    """Constants of a target by name of kernel, or of candidate. Names that are not there have the factor 1."""

    factors: Mapping[str, float]

    def predict(self, name: str, work: float) -> float:
        """Return the nanoseconds that a kernel needs for an amount of work."""
        return self.factors.get(name, 1.0) * work


def linear_work(count: Dim, each: float) -> Dim:
    """Return the work of `count` elements, rows or bytes that take `each` nanoseconds, 1 at least if there are any."""
    return ceildiv(count * max(1, round(each * FRACTION)), FRACTION)


def work_of_copy(dtype: DType, size: Dim) -> Dim:
    """Return the work of a copy of `size` elements."""
    return linear_work(size, 2 * itemsize(dtype) * BYTE)


def nominal(dim: Dim, sizes: Mapping[str, int] = {}) -> int:
    """Return a dimension as a number, with NOMINAL for each open one that is not in `sizes`."""
    if isinstance(dim, int):
        return dim
    return evaluate(dim, {one.name: sizes.get(one.name, NOMINAL) for one in symbols([dim])})


def kernel_family(spec: Spec) -> str:
    """Return the name by which the constants know a kernel: without its module, types and statics, and a generated one's digest."""
    name = spec.name.partition("<")[0].rpartition(".")[2]
    return "elementwise" if name.startswith("elementwise_") else name


def calibrated_costs(target: Target) -> Costs:
    """Return the shipped constants, times the factors that were measured on this machine."""
    shipped, measured = shipped_costs(target), read_factors(target)
    if not measured:
        return shipped
    return Costs({name: shipped.predict(name, measured.get(name, 1.0)) for name in {**shipped.factors, **measured}})


@cache
def shipped_costs(target: Target) -> Costs:
    """Return the constants that are shipped for a target: those of the last class that it belongs to."""
    with open(os.path.join(os.path.dirname(__file__), "costs.txt"), encoding="ascii") as file:
        return Costs(parse_costs(file.read(), target))


def parse_costs(text: str, target: Target) -> dict[str, float]:
    """Read a table: a heading with classes of targets, each a feature that they have, then a name and the factors of a kernel.

    The last class whose feature the target has is taken, the first where it has none of them.
    """
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    classes = rows[0][1:]
    column = max((k for k, feature in enumerate(classes, 1) if target.has(feature)), default=1)
    return {row[0]: float(row[column]) for row in rows[1:]}
