"""Operands that are read across a larger shape: what must hold of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_lite.shapes import equal, same, select
from ort_lite.shapes.expr import Dim

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.emitter import Emitter


def broadcasts(dim: Dim, full: Dim) -> Dim:
    """Return 1 where a dimension is 1 or `full`, 0 where it is neither."""
    return select(equal(dim, 1), 1, equal(dim, full))


def broadcast_step(dim: Dim, full: Dim, step: Dim) -> Dim:
    """Return the step of an operand along a dimension of `full` elements: 0 where its own dimension is 1."""
    return 0 if same(dim, 1) else step if same(dim, full) else select(equal(dim, 1), 0, step)


def joint_dim(a: Dim, b: Dim) -> Dim:
    """Return the dimension that two broadcast to."""
    return b if same(a, 1) else a if same(b, 1) or same(a, b) else select(equal(a, 1), b, a)


def require_broadcast(op: Emitter, shape: Sequence[Dim], out: Sequence[Dim]) -> None:
    """Require each dimension to be 1 or the output's, checked when a shape is bound: nothing reads beyond an operand."""
    fewer = int(len(shape) <= len(out))
    op.require(fewer, "an input of {0} dimensions does not broadcast to {1}", len(shape), len(out))
    for dim, wanted in zip(shape, out[len(out) - len(shape) :], strict=True):
        if not same(dim, 1) and not same(dim, wanted):
            op.require(
                broadcasts(dim, wanted), "dimension {0} of an input is neither 1 nor {1}, that of the others", dim, wanted
            )
