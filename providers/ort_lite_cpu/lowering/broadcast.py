"""Operands that are read across a larger shape: what must hold of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_lite.shapes import equal, same, select
from ort_lite.shapes.expr import Dim

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.emitter import Emitter


def is_one_or(dim: Dim, wanted: Dim) -> Dim:
    """1 for a dimension that is 1 or `wanted`, 0 for another; an Expr while that is open."""
    return select(equal(dim, 1), 1, equal(dim, wanted))


def require_broadcast(op: Emitter, shape: Sequence[Dim], out: Sequence[Dim]) -> None:
    """Dimensions that are not known to be 1 or the output's are looked at when a shape is bound: nobody reads beyond an operand."""
    fewer = int(len(shape) <= len(out))
    op.require(fewer, "an input of {0} dimensions does not broadcast to {1}", len(shape), len(out))
    for dim, wanted in zip(shape, out[len(out) - len(shape) :], strict=True):
        if not same(dim, 1) and not same(dim, wanted):
            op.require(
                is_one_or(dim, wanted), "dimension {0} of an input is neither 1 nor {1}, that of the others", dim, wanted
            )
