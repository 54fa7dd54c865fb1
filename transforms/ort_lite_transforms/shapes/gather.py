"""Gather and Scatter in their forms."""

import numpy as np

from ort_lite.inference import Info, Op, RankUnknown, shape_rule
from ort_lite_transforms.shapes.contents import Contents, elements, grid
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.operands import replaced


@shape_rule("Gather")
def gather(op: Op) -> list[Info]:
    """`indices` takes the place of the axis. Spec: ONNX Gather-13."""
    data, indices = op.shape(0), op.shape(1)
    axis = op.axis(op.attr("axis", 0), len(data))
    return [op.tensor(op.dtype(0), replaced(data, axis, *indices), _picked(op, axis))]


def _picked(op: Op, axis: int) -> Contents | None:
    data, known, dim = op.known(0), op.known(1), op.shape(0)[axis]
    if known is None or not isinstance(dim, int):
        return None
    indices = [index for index in known if isinstance(index, int)]
    if len(indices) < len(known):
        return None
    for index in indices:
        if not -dim <= index < dim:
            raise op.error(f"index {index} is out of range [{-dim}, {dim})")
    if data is None:
        return None
    if op.rank(0) == 1:
        return tuple([data[index] for index in indices])
    return elements(grid(data, op.shape(0)).take(np.array(indices, np.int64), axis))


@shape_rule("GatherElements")
def gather_elements(op: Op) -> list[Info]:
    """Of data's type, shaped like indices. Spec: ONNX GatherElements-13."""
    return [op.tensor(op.dtype(0), op.shape(1))]


@shape_rule("GatherND")
def gather_nd(op: Op) -> list[Info]:
    """indices (..., k) pick from data's k axes after the batch ones. Spec: ONNX GatherND-13."""
    data, indices, batch = op.shape(0), op.shape(1), op.attr("batch_dims", 0)
    if not indices:
        raise op.error("indices should have rank 1 or more")
    depth = indices[-1]
    if not isinstance(depth, int):
        op.needs(RankUnknown(1))
        return [op.tensor(op.dtype(0), None)]
    if batch + depth > len(data):
        raise op.error(f"{batch} batch dims and {depth} index columns are more than rank {len(data)}")
    return [op.tensor(op.dtype(0), [*indices[:-1], *data[batch + depth :]])]


@shape_rule("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
def scatter(op: Op) -> list[Info]:
    """y like data. Spec: ONNX ScatterElements-18, ScatterND-18, TensorScatter-24."""
    return [like(op)]


RULES = [*gather, *gather_elements, *gather_nd, *scatter]
