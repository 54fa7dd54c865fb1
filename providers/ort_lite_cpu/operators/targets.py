"""Outputs that kernels compute in another element type than the one that they have."""

from collections.abc import Mapping

from ort_lite.dtypes import DType
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.types import HALVES


def target_of(op: NodeLowering, index: int, dtype: DType, perm: tuple[int, ...] | None = None) -> Tensor:
    """Return memory for an output, in the element type in which it is computed. `perm`: the order in which the output is stored."""
    info = op.info(index)
    assert info.shape is not None
    return op.output(index, perm) if info.dtype == dtype else op.temporary(dtype, info.shape)


def wide_target_of(op: NodeLowering, index: int) -> Tensor:
    """Return memory for an output, which is computed as float32 if it has 16-bit floats."""
    dtype = op.info(index).dtype
    assert dtype is not None
    return target_of(op, index, "float32" if dtype in HALVES else dtype)


def round_targets(op: NodeLowering, targets: Mapping[int, Tensor | None]) -> None:
    """Set outputs to memory of `target_of`, in the element types that they have."""
    for index, tensor in targets.items():
        if tensor is not None:
            op.set(index, op.cast(tensor, op.info(index).dtype or tensor.dtype))
