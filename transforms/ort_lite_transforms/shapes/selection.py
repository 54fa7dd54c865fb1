"""Choosing elements: Where, TopK, ArgMax, OneHot, and those whose number of results depends on the data."""

import numpy as np

from ort_lite.inference import ContentsUnknown, Info, NumbersUnknown, Op, broadcast, shape_rule
from ort_lite.shapes import Dim, product, select
from ort_lite_transforms.shapes.contents import apply_elementwise, within
from ort_lite_transforms.shapes.operands import replace_dim
from ort_lite_transforms.shapes.reductions import without


@shape_rule("Where", types=(1,))
def where(op: Op) -> list[Info]:
    """All three broadcast. Spec: ONNX Where-16."""
    dtype = op.dtype(1)
    contents = within(dtype, apply_elementwise(select, op.contents_or_none(0), op.contents_or_none(1), op.contents_or_none(2)))
    return [op.tensor(dtype, broadcast(op.shape(0), op.shape(1), op.shape(2)), contents)]


@shape_rule("ArgMax", "ArgMin", types=("int64",))
def arg(op: Op) -> list[Info]:
    """Positions along the axis, int64. Spec: ONNX ArgMax-13."""
    shape = op.shape(0)
    axis = op.axis(op.attr("axis", 0), len(shape))
    if op.at_load and shape and shape[axis] == 0 and 0 not in replace_dim(shape, axis):
        raise op.error(f"axis {axis} has 0 elements: none of them is the largest or smallest")
    return [op.tensor("int64", without(shape, [axis], bool(op.attr("keepdims", 1))))]


@shape_rule("TopK", types=(0, "int64"))
def top_k(op: Op) -> list[Info]:
    """Values and positions of the k largest along the axis. Spec: ONNX TopK-24."""
    dtype, shape = op.dtype(0), op.shape(0)
    axis = op.axis(op.attr("axis", -1), len(shape))
    k: Dim | None = op.attr("k")
    if k is None:
        known = op.contents_or_none(1)
        if known is None:
            op.needs(ContentsUnknown(1))
        k = op.fresh() if not known else known[0]
    dim = shape[axis]
    if isinstance(k, int) and (k < 0 or (isinstance(dim, int) and k > dim)):
        raise op.error(f"k is {k}, axis {axis} has {dim} elements")
    dims = replace_dim(shape, axis, k)
    return [op.tensor(dtype, dims), op.tensor("int64", dims)]


@shape_rule("OneHot", types=(2,))
def one_hot(op: Op) -> list[Info]:
    """Puts an axis of `depth` elements in. Spec: ONNX OneHot-11."""
    dtype, shape = op.dtype(2), op.shape(0)
    depth = _depth(op)
    if op.at_load and isinstance(depth, int) and depth < 1:
        raise op.error(f"depth is {depth}, expected 1 or more")
    axis = op.attr("axis", -1)
    at = axis + len(shape) + 1 if axis < 0 else axis
    return [op.tensor(dtype, [*shape[:at], depth, *shape[at:]])]


def _depth(op: Op) -> Dim:
    """A scalar or one element of any numeric type; what is not an integer is known only as a constant."""
    known, array = op.contents_or_none(1), op.constant(1)
    if known is not None:
        return known[0]
    if array is not None:
        return int(array.reshape(-1)[0])
    op.needs(ContentsUnknown(1) if op.dtype(1) in ("int64", "int32") else NumbersUnknown(1))
    return op.fresh()


@shape_rule("NonZero", types=("int64",))
def non_zero(op: Op) -> list[Info]:
    """(r, number of elements that are not 0); a scalar counts as a vector. Spec: ONNX NonZero-13."""
    array, known = op.constant(0), op.contents_or_none(0)
    if array is not None and array.dtype.kind in "iufb":
        count: Dim = int(np.count_nonzero(array))
    elif known is not None and all(isinstance(element, int) for element in known):
        count = sum(1 for element in known if element != 0)
    else:
        count = op.fresh()
    return [op.tensor("int64", (max(op.rank(0), 1), count))]


@shape_rule("Unique", types=(0, "int64"))
def unique(op: Op) -> list[Info]:
    """Values, first positions, positions in the result, counts. Spec: ONNX Unique-11."""
    shape, axis, count = op.shape(0), op.attr("axis"), op.fresh()
    if axis is None:
        values, total = [count], product(shape)
    else:
        axis = op.axis(axis, len(shape))
        values, total = replace_dim(shape, axis, count), shape[axis]
    each = op.tensor("int64", (count,))
    return [op.tensor(op.dtype(0), values), each, op.tensor("int64", (total,)), each]


@shape_rule("Compress")
def compress(op: Op) -> list[Info]:
    """Infer as many slices or elements as the condition has ones. Spec: ONNX Compress-11."""
    shape, condition = op.shape(0), op.contents_or_none(1)
    axis = op.attr("axis")
    known = condition is not None and all(isinstance(element, int) for element in condition)
    count: Dim = sum(1 for element in condition or () if element != 0) if known else op.fresh()
    dims = [count] if axis is None else replace_dim(shape, op.axis(axis, len(shape)), count)
    return [op.tensor(op.dtype(0), dims)]


@shape_rule("NonMaxSuppression", types=("int64",))
def non_max_suppression(op: Op) -> list[Info]:
    """(selected, 3): batch, class, box. Spec: ONNX NonMaxSuppression-11."""
    return [op.tensor("int64", (op.fresh(), 3))]


RULES = [*where, *arg, *top_k, *one_hot, *non_zero, *unique, *compress, *non_max_suppression]
