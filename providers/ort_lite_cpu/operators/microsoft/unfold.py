"""UnfoldTensor of com.microsoft: windows along an axis become an axis of their own."""

from ort_lite.shapes import less, product
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.registry import MOVABLE, operator


@operator("UnfoldTensor", domain="com.microsoft", types=MOVABLE, moves=True)
def unfold_tensor(op: NodeLowering) -> None:
    """Emit a copy of overlapping windows: (..., n, ...) -> (..., windows, ..., size). Spec: onnxruntime UnfoldTensor-1."""
    size, step = op.attr("size"), op.attr("step", 1)
    if size < 0 or step < 1:
        raise op.reject(f"size {size} and step {step}; they should be 0 and 1 or more")
    x, y = op.input(0), op.output(0)
    axis = axis_of(op, op.attr("dim", -1), len(x.shape))
    op.require(1 - less(x.shape[axis], size), "a window of {1} does not fit into {0}", x.shape[axis], size)
    outer, inner = product(x.shape[:axis]), product(x.shape[axis + 1 :])
    dims = (outer, y.shape[axis], inner, size)
    emit_strided_copy(op, x, y, dims, (x.shape[axis] * inner, step * inner, 1, inner), contiguous(dims))
