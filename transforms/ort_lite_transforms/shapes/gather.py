"""Gather and Scatter in their forms."""

from collections.abc import Iterable

import numpy as np

from ort_lite.inference import Info, Op, RankUnknown, shape_rule
from ort_lite.shapes import Dim, Shape
from ort_lite_transforms.shapes.contents import Contents, elements, grid
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.operands import common_dim, replace_dim


@shape_rule("Gather")
def gather(op: Op) -> list[Info]:
    """`indices` takes the place of the axis. Spec: ONNX Gather-13."""
    data, indices = op.shape(0), op.shape(1)
    axis = op.axis(op.attr("axis", 0), len(data))
    return [op.tensor(op.dtype(0), replace_dim(data, axis, *indices), _pick(op, axis))]


def _pick(op: Op, axis: int) -> Contents | None:
    data, known, dim = op.contents_or_none(0), op.contents_or_none(1), op.shape(0)[axis]
    if known is None or not isinstance(dim, int):
        return None
    indices = [index for index in known if isinstance(index, int)]
    _check_indices(op, indices, dim)
    if len(indices) < len(known):
        return None
    if data is None:
        return None
    if op.rank(0) == 1:
        return tuple([data[index] for index in indices])
    return elements(grid(data, op.shape(0)).take(np.array(indices, np.int64), axis))


def _check_indices(op: Op, indices: Iterable[Dim], dim: Dim) -> None:
    """Raises ShapeInferenceError for an index that is known to lie outside of `dim` elements."""
    for index in indices:
        if isinstance(dim, int) and isinstance(index, int) and not -dim <= index < dim:
            raise op.error(f"index {index} is out of range [{-dim}, {dim})")


def _check_along(op: Op) -> None:
    """indices are as many as data has, or fewer, but along the axis."""
    if not op.at_load:
        return
    data, indices = op.shape(0), op.shape(1)
    if len(data) != len(indices):
        raise op.error(f"indices have rank {len(indices)}, data {len(data)}")
    axis = op.axis(op.attr("axis", 0), len(data))
    for k, (there, dim) in enumerate(zip(indices, data, strict=True)):
        if k != axis and isinstance(there, int) and isinstance(dim, int) and there > dim:
            raise op.error(f"indices have {there} in dimension {k}, data {dim}")


@shape_rule("GatherElements")
def gather_elements(op: Op) -> list[Info]:
    """Infer data's type and the shape of indices. Spec: ONNX GatherElements-13."""
    op.shape(1)
    _check_along(op)
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
    if batch + depth > len(data) or (op.at_load and (depth < 1 or batch >= min(len(indices), len(data)))):
        raise op.error(f"batch_dims {batch} and {depth} index columns do not fit rank {len(data)}")
    if op.at_load:
        for one, other in zip(data[:batch], indices[:batch], strict=True):
            common_dim(op, [one, other])
        _check_columns(op, depth, data[batch:])
    return [op.tensor(op.dtype(0), [*indices[:-1], *data[batch + depth :]])]


def _check_columns(op: Op, depth: int, dims: Shape) -> None:
    """Tuples of `depth` indices, each into a dim of its own."""
    for place, index in enumerate(op.contents_or_none(1) or ()):
        _check_indices(op, (index,), dims[place % depth])


@shape_rule("Scatter", "ScatterElements")
def scatter(op: Op) -> list[Info]:
    """y like data. Spec: ONNX ScatterElements-18."""
    found = like(op)
    if op.info(1).shape is not None:
        _check_along(op)
    return [found]


@shape_rule("ScatterND")
def scatter_nd(op: Op) -> list[Info]:
    """y like data; updates (..., rest of data) for indices (..., k). Spec: ONNX ScatterND-18."""
    found, data, indices, updates = like(op), op.shape(0), op.info(1).shape, op.info(2).shape
    if indices is None or not data or not op.at_load:
        return [found]
    depth = indices[-1] if indices else 0
    if not isinstance(depth, int):
        return [found]
    if not 1 <= depth <= len(data):
        raise op.error(f"{depth} index columns do not fit rank {len(data)}")
    _check_columns(op, depth, data)
    wanted = (*indices[:-1], *data[depth:])
    if updates is not None:
        if len(updates) != len(wanted):
            raise op.error(f"updates have rank {len(updates)}, expected {len(wanted)}: [{', '.join(map(str, wanted))}]")
        for one, other in zip(updates, wanted, strict=True):
            common_dim(op, [one, other])
    return [found]


@shape_rule("TensorScatter")
def tensor_scatter(op: Op) -> list[Info]:
    """y like data. Spec: ONNX TensorScatter-24."""
    return [like(op)]


RULES = [*gather, *gather_elements, *gather_nd, *scatter, *scatter_nd, *tensor_scatter]
