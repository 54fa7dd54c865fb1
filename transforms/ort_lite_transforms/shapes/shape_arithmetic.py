"""Operators that make integers from shapes, and tensors from integers."""

from math import ceil, isfinite

import numpy as np

from ort_lite.dtypes import DType, from_numpy, from_onnx
from ort_lite.inference import CONTENTS_LIMIT, ContentsUnknown, Info, NumbersUnknown, Op, constant_info, shape_rule
from ort_lite.shapes import Dim, ceildiv, maximum, product
from ort_lite_transforms.shapes.operands import fresh_shape, length_of


@shape_rule("Shape", types=("int64",))
def shape_(op: Op) -> list[Info]:
    """The dims from `start` to `end` as int64. Spec: ONNX Shape-21."""
    shape = op.shape(0)
    taken = shape[op.attr("start", 0) : op.attr("end", len(shape))]
    return [op.tensor("int64", (len(taken),), taken)]


@shape_rule("Size", types=("int64",))
def size(op: Op) -> list[Info]:
    """The number of elements, an int64 scalar. Spec: ONNX Size-21."""
    return [op.tensor("int64", (), (product(op.shape(0)),))]


def _fill(op: Op) -> DType:
    value = op.attr("value")
    return "float32" if value is None else from_numpy(value.dtype)


@shape_rule("ConstantOfShape", types=(_fill,))
def constant_of_shape(op: Op) -> list[Info]:
    """The input is the shape; `value` has one element. Spec: ONNX ConstantOfShape-21."""
    dtype, dims = _fill(op), op.contents_or_none(0)
    if dims is None:
        op.needs(ContentsUnknown(0))
        count = length_of(op, 0)
        return [op.tensor(dtype, None if count is None else fresh_shape(op, count))]
    if [dim for dim in dims if isinstance(dim, int) and dim < 0]:
        raise op.error(f"dimensions {list(dims)} are negative")
    value, total = op.attr("value"), product(dims)
    if op.at_load and value is not None and value.size != 1:
        raise op.error(f"value has {value.size} elements, expected 1")
    contents = None
    if value is not None and value.dtype.kind in "iub" and isinstance(total, int) and total <= CONTENTS_LIMIT:
        contents = (int(value.reshape(-1)[0]),) * total
    return [op.tensor(dtype, dims, contents)]


@shape_rule("Range")
def range_(op: Op) -> list[Info]:
    """start, limit, delta -> (ceil((limit - start) / delta),). Spec: ONNX Range-11."""
    dtype = op.dtype(0)
    operands = 3 if op.has(2) else 2
    if dtype not in ("int64", "int32", "int16"):
        return [op.tensor(dtype, (_float_count(op, operands),))]
    missing = next((index for index in range(operands) if op.contents_or_none(index) is None), None)
    if missing is not None:
        op.needs(ContentsUnknown(missing))
        return [op.tensor(dtype, (op.fresh(),))]
    start, limit = op.scalar(0), op.scalar(1)
    delta: Dim = op.scalar(2) if operands == 3 else 1
    if isinstance(delta, int) and delta == 0:
        raise op.error("delta is 0")
    count = maximum(ceildiv(limit - start, delta), 0)
    contents = None
    if isinstance(count, int) and count <= CONTENTS_LIMIT:
        contents = [start + delta * index for index in range(count)]
    return [op.tensor(dtype, (count,), contents)]


def _float_count(op: Op, operands: int) -> Dim:
    """Floating-point bounds are known only as constants."""
    values: list[float] = []
    for index in range(operands):
        array = op.constant(index)
        if array is None:
            op.needs(NumbersUnknown(index))
            return op.fresh()
        values.append(float(array.reshape(-1)[0]))
    start, limit, delta = (*values, 1.0)[:3]
    if delta == 0 or not all(map(isfinite, values)):
        raise op.error(f"from {start} to {limit} in steps of {delta} is no range")
    return max(ceil((limit - start) / delta), 0)


def dtype_of_attribute_or_input(op: Op) -> DType:
    """Return the element type that `dtype` names, else that of the input."""
    code = op.attr("dtype")
    return op.dtype(0) if code is None else from_onnx(code)


@shape_rule("EyeLike", types=(dtype_of_attribute_or_input,))
def eye_like(op: Op) -> list[Info]:
    """Shaped like x, of type `dtype` or x's. Spec: ONNX EyeLike-22."""
    return [op.tensor(dtype_of_attribute_or_input(op), op.shape(0))]


_CONSTANTS = {
    "value": None,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}
"""Attributes that hold what a Constant gives, with element types; None: an array has its own."""


@shape_rule("Constant")
def constant(op: Op) -> list[Info]:
    """The attribute's array. Spec: ONNX Constant-21."""
    given = [name for name in op.node.attributes if name in _CONSTANTS]
    if len(given) > 1:
        raise op.error(f"it has the values {', '.join(given)}; one is expected")
    for name, dtype in _CONSTANTS.items():
        value = op.attr(name)
        if value is not None:
            return [constant_info(np.asarray(value, dtype))]
    raise op.error("it has no value")


RULES = [*shape_, *size, *constant_of_shape, *range_, *eye_like, *constant]
