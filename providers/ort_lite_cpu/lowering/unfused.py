"""Replacements of fused kernels that are missing and may not be compiled. Results are bit-identical.

A fused loop rounds what each operation makes, and fuses no product with the sum of another one, so that a loop for each gives what it
gives. An activation does in memory what the epilogue of a product does there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ort_lite.dtypes import DType
from ort_lite.graph import Node
from ort_lite.native.extents import contract
from ort_lite.native.spec import Spec
from ort_lite.shapes.dims import Shape
from ort_lite_cpu.kernels.gemm.activation import activate_rows
from ort_lite_cpu.lowering.emitter import Emitter
from ort_lite_cpu.lowering.fuse import FusedLoop, fuse, generic, generic_specs, leaves_in_memory, read_before, spread_strides
from ort_lite_cpu.lowering.lowered import Kernel, LoweringResult, ResultRegion
from ort_lite_cpu.lowering.operand_check import native_types
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, same_shape
from ort_lite_cpu.run.kernels import Kernels


class Computing(Protocol):
    """The members of a `Builder` that are needed here."""

    kernels: Kernels
    result: LoweringResult

    def new(self, dtype: DType, shape: Shape, perm: tuple[int, ...] | None = ...) -> Tensor:
        """Return a new tensor in memory."""

    def compute(self, tensor: Tensor, node: Node, *order: tuple[int, ...] | None) -> None:
        """Emit the loops that compute a pending tensor."""

    def materialize(self, tensor: Tensor) -> Tensor:
        """Return the tensor, computed if it was pending."""

    def store(self, tensor: Tensor, perm: tuple[int, ...] | None = ...) -> Tensor:
        """Return the tensor in memory, its axes in the order of `perm`."""

    def on_behalf(self, node: Node) -> Emitter:
        """Return an emitter for a node."""


# --- Loops
def unfuse(
    builder: Computing, node: Node, tensor: Tensor, loop: FusedLoop, stored: list[Tensor], out: Tensor
) -> tuple[FusedLoop, list[Tensor]]:
    """Return the loop of the last operation of a pending tensor, and its operands, in the place of `loop`, whose kernel is missing.

    What it reads is computed first, operation by operation. `loop` and `stored` as they are where that would need missing ones too.
    """
    if not builder.kernels.hold(generic_specs(tensor)):
        return loop, stored
    pending, wanted = tensor.pending, [*builder.result.wanted, loop.spec]
    assert pending is not None
    for operand in pending.operands:
        if operand.pending is not None:
            order = (out.perm,) if same_shape(operand.shape, tensor.shape) else ()
            builder.compute(operand, operand.pending.node or node, *order)
    builder.result.wanted = wanted  # and not what would compute a part of it
    leaves = leaves_in_memory(tensor)
    stored = [builder.store(leaf, out.perm if same_shape(leaf.shape, tensor.shape) else None) for leaf in leaves]
    loop = fuse(tensor, leaves, stored, out)
    if builder.kernels.has_kernel(loop.spec):
        return loop, stored
    before = read_before(pending.operands)
    spread = [
        builder.materialize(operand) if k in before else _spread(builder, node, operand, out)
        for k, operand in enumerate(pending.operands)
    ]
    return generic(tensor, spread, out), spread


def _spread(builder: Computing, node: Node, tensor: Tensor, out: Tensor) -> Tensor:
    """Return an operand written out to the shape and the storage order of `out`."""
    same = same_shape(tensor.shape, out.shape)
    tensor = builder.store(tensor, out.perm) if same else builder.materialize(tensor)
    strides = spread_strides(tensor, out)
    if strides is None:
        return tensor
    made = builder.new(tensor.dtype, out.shape, out.perm)
    dims = made.storage_shape
    emit_strided_copy(builder.on_behalf(node), tensor, made, dims, strides, contiguous(dims))
    return made


# --- Epilogues
def activates_apart(
    builder: Computing, kernel: Kernel, operands: Sequence[Tensor | None], named: Mapping[str, Any], result: ResultRegion
) -> bool:
    """Return True if a kernel with an activation is missing, but the one without and the activation alone are available."""
    statics = contract(kernel).arrange(named)[1]
    types, kind = native_types(operands), {"kind": named["kind"]}
    spec = Spec(kernel, types, statics)
    if builder.kernels.has_kernel(spec):
        return False
    apart = [Spec(kernel, types, {**dict(statics), "kind": ""}), Spec(activate_rows, [result.tensor.native], kind)]
    if not builder.kernels.hold(apart):
        return False
    builder.result.wanted.append(spec)
    return True


def activate(op: Emitter, result: ResultRegion, named: Mapping[str, Any]) -> None:
    """Apply the activation, in place."""
    given: dict[str, Any] = {"rows": result.rows, "columns": result.columns, "at": result.at, "ld": result.ld}
    given |= {"alpha": named["act"].alpha, "beta": named["act"].beta, "kind": named["kind"]}
    op.emit(activate_rows, [result.tensor], **given, work=result.rows * result.columns)
