"""Reductions and running sums."""

from collections.abc import Callable
from functools import reduce

from ort_lite.inference import Info, NumbersUnknown, Op, shape_rule
from ort_lite.shapes import Dim, Shape, maximum, minimum, product
from ort_lite_transforms.shapes.contents import Contents, within
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.operands import axes_of, fresh_shape, length_of

_FOLDS: dict[str, Callable[[Contents], Dim]] = {
    "ReduceMax": lambda contents: reduce(maximum, contents),
    "ReduceMin": lambda contents: reduce(minimum, contents),
    "ReduceProd": product,
    "ReduceSum": lambda contents: sum(contents[1:], contents[0]) if contents else 0,
}


def without(shape: Shape, axes: list[int], keepdims: bool) -> list[Dim]:
    """`shape` with the axes reduced to 1, or gone."""
    if keepdims:
        return [1 if axis in axes else dim for axis, dim in enumerate(shape)]
    return [dim for axis, dim in enumerate(shape) if axis not in axes]


@shape_rule(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
def reduction(op: Op) -> list[Info]:
    """Axes are an attribute in old versions, an input in new ones; none, or an empty list, are all of them.

    A scalar stays one whatever the axes are, as in onnxruntime. Spec: ONNX ReduceSum-13, ReduceMax-20 and others.
    """
    dtype, shape = op.dtype(0), op.shape(0)
    if not shape:
        return [op.tensor(dtype, shape, op.contents_or_none(0) if op.node.op_type in _FOLDS else None)]
    keepdims = bool(op.attr("keepdims", 1))
    try:
        axes = axes_of(op, 1, len(shape))
    except NumbersUnknown as unknown:
        op.needs(unknown)
        return [op.tensor(dtype, _open_shape(op, keepdims))]
    if not axes:
        if op.attr("noop_with_empty_axes", 0):
            return [op.tensor(dtype, shape)]
        axes = list(range(len(shape)))
    fold, contents = _FOLDS.get(op.node.op_type), op.contents_or_none(0)
    folded = None
    if fold is not None and contents and len(axes) == len(shape):
        folded = within(dtype, (fold(contents),))
    return [op.tensor(dtype, without(shape, axes, keepdims), folded)]


def _open_shape(op: Op, keepdims: bool) -> list[Dim] | None:
    """The shape when the axes are not known."""
    count = length_of(op, 1)
    if keepdims:
        return fresh_shape(op, op.rank(0))
    return None if count is None or (count == 0 and op.rank(0)) else fresh_shape(op, op.rank(0) - count)


@shape_rule("CumSum", "CumProd")
def running(op: Op) -> list[Info]:
    """y like x. Spec: ONNX CumSum-14."""
    return [like(op)]


RULES = [*reduction, *running]
