"""Constants of a size that is known when a shape is bound: Constant, ConstantOfShape, Range, EyeLike."""

import numpy as np

from ort_lite.dtypes import INTEGERS, itemsize, to_numpy
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, span
from ort_lite.shapes import equal
from ort_lite_cpu.costs import BYTE, linear_work
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, bits
from ort_lite_cpu.registry import ANY, NATIVE, REAL, operator


def emit_fill(op: NodeLowering, y: Tensor, value: object) -> None:
    """Set every element of y to `value`, a number or a tensor of y's type with one element."""
    one = value if isinstance(value, Tensor) else op.array(np.array([value], to_numpy(y.dtype)))
    op.emit(primitives.fill, [bits(one), bits(y)], count=y.size, work=linear_work(y.size, itemsize(y.dtype) * BYTE))


@operator("Constant", types=ANY)
def constant(op: NodeLowering) -> None:
    """Emit Constant with any form of its attribute; most models have it folded before. Spec: ONNX Constant-25."""
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"):
        if name in op.node.attributes:
            dtype = op.info().dtype
            assert dtype is not None
            op.set(0, op.array(np.asarray(op.attr(name), to_numpy(dtype))))
            return
    raise op.reject(f"it has {', '.join(op.node.attributes) or 'no attribute'}, and no value")


@operator("ConstantOfShape", since=9, types=INTEGERS)
def constant_of_shape(op: NodeLowering) -> None:
    """Emit ConstantOfShape; the value is float 0 by default."""
    value = op.attr("value")
    if value is not None and value.size != 1:
        raise op.reject(f"value has {value.size} elements, expected 1")
    emit_fill(op, op.output(0), 0 if value is None else value.reshape(-1)[0])


@native
@extents(start="1", delta="1", y="count")
def arange(start: Ptr, delta: Ptr, y: Ptr, count: int, part: int, parts: int) -> int:
    """y[i] = start + i * delta."""
    first, step = start[0], delta[0]
    for i in span(count, part, parts):
        y[i] = first + like(y, i) * step
    return OK


@operator("Range", since=11, types=REAL | INTEGERS)
@operator("Range", domain="com.microsoft", types=REAL | INTEGERS)
def range_(op: NodeLowering) -> None:
    """Emit Range; com.microsoft's step is optional, 1 by default. Spec: ONNX Range-11."""
    start, y = op.input(0), op.output(0)
    delta = op.input(2) if op.has(2) else op.array(np.ones(1, to_numpy(y.dtype)))
    if op.has(2) and delta.dtype in ("int64", "int32", "int16"):  # of which the contents are known
        op.require(1 - equal(op.scalar(2), 0), "delta is 0")
    op.emit(arange, [start, delta, y], count=y.size)


@native
@extents(one="1", y="rows * columns")
def eye(one: Ptr, y: Ptr, rows: int, columns: int, k: int, part: int, parts: int) -> int:
    """y (rows, columns) = one[0] where column - row == k, else 0."""
    for row in span(rows, part, parts):
        for column in range(columns):
            y[row * columns + column] = one[0] if column - row == k else like(y, 0)
    return OK


@operator("EyeLike", since=9, types=NATIVE)
def eye_like(op: NodeLowering) -> None:
    """Write ones on one diagonal and zeros elsewhere, as bits of any element type. Spec: ONNX EyeLike-22."""
    y = op.output(0)
    rows, columns = y.shape
    one = op.array(np.ones(1, to_numpy(y.dtype)))
    op.emit(eye, [bits(one), bits(y)], rows=rows, columns=columns, k=op.attr("k", 0))
