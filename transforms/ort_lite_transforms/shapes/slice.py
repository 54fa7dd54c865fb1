"""Slice, and what else cuts axes or puts them together: Split, Concat, Pad, Tile, Expand."""

from collections.abc import Sequence
from itertools import accumulate, chain
from math import prod

import numpy as np

from ort_lite.inference import CONTENTS_LIMIT, ContentsUnknown, Info, NumbersUnknown, Op, broadcast, shape_rule
from ort_lite.shapes import Dim, Shape, ceildiv, equal, floordiv, least, less, maximum, minimum, same, select
from ort_lite_transforms.shapes.contents import Contents, elements, grid
from ort_lite_transforms.shapes.operands import axes_of, common_dim, fresh_shape, length_of, operand, replace_dim

_FAR = 2**31 - 1  # exporters write this or INT64_MAX for "to the end"


@shape_rule("Slice")
def slice_(op: Op) -> list[Info]:
    """Bounds count from the end when negative and are clamped. Spec: ONNX Slice-13."""
    dtype, shape = op.dtype(0), op.shape(0)
    try:
        axes = axes_of(op, 3, len(shape))
    except NumbersUnknown as unknown:
        op.needs(unknown)
        return [op.tensor(dtype, fresh_shape(op, len(shape)))]
    try:
        starts, ends = operand(op, "starts", 1), operand(op, "ends", 2)
        steps = operand(op, "steps", 4)
    except ContentsUnknown as unknown:
        op.needs(unknown)
        count = length_of(op, unknown.index)
        axes = list(range(len(shape) if count is None else count)) if axes is None else axes
        return [op.tensor(dtype, [op.fresh() if axis in axes else dim for axis, dim in enumerate(shape)])]
    if starts is None or ends is None:
        raise op.error("starts or ends are missing")
    axes = list(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(axes) > len(shape):
        raise op.error(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps do not fit")
    dims = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if isinstance(step, int) and step == 0:
            raise op.error(f"the step along axis {axis} is 0")
        dims[axis] = slice_length(shape[axis], start, end, step)
    contents = op.contents_or_none(0)
    if contents is not None:
        contents = _cut(contents, shape, list(zip(axes, starts, ends, steps, strict=True)))
    return [op.tensor(dtype, dims, contents)]


def slice_length(dim: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    """The length of dim[start:end:step]."""
    low = least(step)
    if low is not None and low > 0:
        return _forwards(dim, start, end, step)
    if isinstance(step, int):
        return _backwards(dim, start, end, step)
    return select(less(step, 0), _backwards(dim, start, end, step), _forwards(dim, start, end, step))


def _forwards(dim: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    first, last = _clamp(start, dim), _clamp(end, dim)
    if isinstance(first, int) and first == 0:
        length = last
    elif isinstance(start, int) and start > 0:  # no need to clamp both: what is below 0 comes to the same
        length = maximum((dim + end if isinstance(end, int) and -_FAR < end < 0 else last) - start, 0)
    elif same(last, dim) and isinstance(start, int):
        length = minimum(-start, dim)  # the last ones
    else:
        length = maximum(last - first, 0)
    return ceildiv(length, step)


def _clamp(bound: Dim, dim: Dim) -> Dim:
    """A bound in [0, dim], for steps forwards."""
    if isinstance(bound, int) and bound >= _FAR:
        return dim
    if isinstance(bound, int) and (bound <= -_FAR or bound == 0):
        return 0
    low, high = least(bound), least(-bound)
    if low is not None and low >= 0:
        return minimum(bound, dim)
    if high is not None and high > 0:
        return maximum(dim + bound, 0)
    return select(less(bound, 0), maximum(dim + bound, 0), minimum(bound, dim))


def _backwards(dim: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    first = _turn(start, dim, 0)
    if isinstance(start, int) and (start >= _FAR or start == -1):
        first = dim - 1
    last = -1 if isinstance(end, int) and end <= -_FAR else _turn(end, dim, -1)
    length = maximum(ceildiv(first - last, -step), 0)
    low = least(dim)
    return length if (low is not None and low > 0) or same(length, dim) else select(equal(dim, 0), 0, length)


def _turn(bound: Dim, dim: Dim, least_: int) -> Dim:
    """A bound in [least_, dim - 1], for steps backwards."""
    low, high = least(bound), least(-bound)
    if low is not None and low >= 0:
        return minimum(bound, dim - 1)
    if high is not None and high > 0:
        return maximum(dim + bound, least_)
    return select(less(bound, 0), maximum(dim + bound, least_), minimum(bound, dim - 1))


def _cut(contents: Contents, shape: Shape, cuts: list[tuple[int, Dim, Dim, Dim]]) -> Contents | None:
    taken = [slice(None)] * len(shape)
    for axis, start, end, step in cuts:
        numbers = _numbers([shape[axis], start, end, step])
        if len(numbers) < 4:
            return None
        dim, first, last, stride = numbers
        # Python clamps as ONNX does, but for a start before the first element, backwards: ONNX begins with that one.
        taken[axis] = slice(max(first, -dim) if stride < 0 else first, last, stride)
    if len(shape) < 2:
        return contents[taken[0]] if shape else contents
    return elements(grid(contents, shape)[tuple(taken)])


@shape_rule("Split")
def split(op: Op) -> list[Info]:
    """Into parts of the given sizes, or equal ones; the last of `num_outputs` may be smaller. Spec: ONNX Split-18."""
    dtype, shape = op.dtype(0), op.shape(0)
    axis = op.axis(op.attr("axis", 0), len(shape))
    count = len(op.node.outputs)
    try:
        sizes = _split_sizes(op)
    except ContentsUnknown as unknown:
        op.needs(unknown)
        sizes = tuple(op.fresh() for _ in range(count))
    if sizes is None:
        sizes = _equal_parts(op, shape[axis], count)
    if len(sizes) != count:
        raise op.error(f"{count} outputs, but {len(sizes)} sizes")
    total = sum(sizes[1:], sizes[0])
    if isinstance(total, int) and isinstance(shape[axis], int) and total != shape[axis]:
        raise op.error(f"parts {list(sizes)} do not make up {shape[axis]}, axis {axis}")
    parts = _parts(op, axis, sizes)
    return [op.tensor(dtype, replace_dim(shape, axis, size), part) for size, part in zip(sizes, parts, strict=True)]


def _split_sizes(op: Op) -> tuple[Dim, ...] | None:
    """Return the sizes; in version 1 an input of sizes has the type of the data. Raises ContentsUnknown."""
    if op.version > 1 or not op.has(1):
        return operand(op, "split", 1)
    sizes = op.constant(1)
    if sizes is None:
        raise NumbersUnknown(1)
    return tuple(int(size) for size in sizes)


def _parts(op: Op, axis: int, sizes: Sequence[Dim]) -> Sequence[Contents | None]:
    contents = op.contents_or_none(0)
    numbers = [size for size in sizes if isinstance(size, int)]
    if contents is None or len(numbers) < len(sizes):
        return [None] * len(sizes)
    places = [*accumulate(numbers)][:-1]
    return [elements(part) for part in np.split(grid(contents, op.shape(0)), places, axis)]


def _equal_parts(op: Op, dim: Dim, count: int) -> tuple[Dim, ...]:
    if "num_outputs" not in op.node.attributes:
        if isinstance(dim, int) and dim % count:
            raise op.error(f"{dim} elements cannot be split into {count} equal parts")
        return (floordiv(dim, count),) * count
    if op.at_load and count != op.attr("num_outputs"):
        raise op.error(f"num_outputs is {op.attr('num_outputs')}, the node has {count}")
    part = ceildiv(dim, count)
    return (*(part,) * (count - 1), dim - part * (count - 1))


@shape_rule("Concat")
def concat(op: Op) -> list[Info]:
    """Joined along `axis`; the other dims are equal. Spec: ONNX Concat-13."""
    dtype, shapes = op.dtype(0), [op.shape(index) for index in range(len(op.inputs))]
    axis = op.attr("axis", 1)
    return [op.tensor(dtype, concat_shape(op, shapes, axis), _together(op, shapes, axis))]


def _together(op: Op, shapes: Sequence[Shape], axis: int) -> Contents | None:
    parts: list[Contents] = []
    for index in range(len(shapes)):
        part = op.contents_or_none(index)
        if part is None:
            return None
        parts.append(part)
    if len(shapes[0]) == 1:
        return tuple(chain.from_iterable(parts))
    return elements(np.concatenate([grid(part, shape) for part, shape in zip(parts, shapes, strict=True)], axis))


def concat_shape(op: Op, shapes: Sequence[Shape], axis: int) -> list[Dim]:
    """The shape of a concatenation. Raises ShapeInferenceError where other dims differ."""
    rank = len(shapes[0])
    if rank == 0 or any(len(shape) != rank for shape in shapes):
        raise op.error("ranks should be equal, and at least 1")
    axis = op.axis(axis, rank)
    dims = []
    for k in range(rank):
        column = [shape[k] for shape in shapes]
        dims.append(sum(column[1:], column[0]) if k == axis else common_dim(op, column))
    return dims


@shape_rule("Pad")
def pad(op: Op) -> list[Info]:
    """Adds begin and end of each axis; negative ones cut. Spec: ONNX Pad-24."""
    dtype, shape = op.dtype(0), op.shape(0)
    try:
        axes = axes_of(op, 3, len(shape))
    except NumbersUnknown as unknown:
        op.needs(unknown)
        return [op.tensor(dtype, fresh_shape(op, len(shape)))]
    axes = list(range(len(shape))) if axes is None else axes
    try:
        pads = operand(op, "pads" if op.version > 1 else "paddings", 1)
    except ContentsUnknown as unknown:
        op.needs(unknown)
        return [op.tensor(dtype, [op.fresh() if axis in axes else dim for axis, dim in enumerate(shape)])]
    if pads is None or len(pads) != 2 * len(axes):
        raise op.error(f"pads {pads} should be {2 * len(axes)} numbers, begin and end of axes {axes}")
    dims, mode = list(shape), op.attr("mode") or "constant"
    for k, axis in enumerate(axes):
        _check_mirror_pads(op, mode, shape[axis], (pads[k], pads[k + len(axes)]))
        dim = dims[axis] = shape[axis] + pads[k] + pads[k + len(axes)]
        if isinstance(dim, int) and dim < 0:
            raise op.error(f"pads {pads[k]} and {pads[k + len(axes)]} cut more than the {shape[axis]} of axis {axis}")
    return [op.tensor(dtype, dims)]


def _check_mirror_pads(op: Op, mode: str, dim: Dim, pads: tuple[Dim, Dim]) -> None:
    """Raises ShapeInferenceError where pads are more than there is to be mirrored, or to be repeated."""
    most = max((pad for pad in pads if isinstance(pad, int)), default=0)
    if not op.at_load or not isinstance(dim, int) or most <= 0:
        return
    if mode in ("edge", "wrap", "reflect") and dim == 0:
        raise op.error(f"mode {mode!r} cannot pad an axis of 0 elements by {most}")
    if mode == "reflect" and most >= dim:
        raise op.error(f"mode 'reflect' cannot pad an axis of {dim} elements by {most}, {dim - 1} at most")


@shape_rule("Tile")
def tile(op: Op) -> list[Info]:
    """Each dim times its repeats; opset 1 has one count and one axis. Spec: ONNX Tile-13."""
    dtype, shape = op.dtype(0), op.shape(0)
    if op.version < 6:
        tiles, along = op.constant(1), op.constant(2)
        if tiles is None or along is None:
            op.needs(NumbersUnknown(1 if tiles is None else 2))
            return [op.tensor(dtype, fresh_shape(op, len(shape)))]
        axis = op.axis(int(along.reshape(-1)[0]), len(shape))
        return [op.tensor(dtype, replace_dim(shape, axis, shape[axis] * int(tiles.reshape(-1)[0])))]
    repeats = op.contents_or_none(1)
    if repeats is None:
        op.needs(ContentsUnknown(1))
        return [op.tensor(dtype, fresh_shape(op, len(shape)))]
    dims = [dim * count for dim, count in zip(shape, repeats, strict=True)]
    contents = op.contents_or_none(0)
    if contents is not None and _are_few(dims):
        return [op.tensor(dtype, dims, elements(np.tile(grid(contents, shape), _numbers(repeats))))]
    return [op.tensor(dtype, dims)]


def _are_few(dims: Sequence[Dim]) -> bool:
    numbers = _numbers(dims)  # all of them: where one is 0, so is the product with what is open
    return len(numbers) == len(dims) and prod(numbers) <= CONTENTS_LIMIT


def _numbers(dims: Sequence[Dim]) -> list[int]:
    return [dim for dim in dims if isinstance(dim, int)]


@shape_rule("Expand")
def expand(op: Op) -> list[Info]:
    """Broadcast with the given shape, which may be the smaller one. Spec: ONNX Expand-13."""
    dtype, shape = op.dtype(0), op.shape(0)
    target = op.contents_or_none(1)
    if target is None:
        op.needs(ContentsUnknown(1))
        count = length_of(op, 1)
        return [op.tensor(dtype, None if count is None else fresh_shape(op, max(len(shape), count)))]
    dims = broadcast(shape, target)
    contents = op.contents_or_none(0)
    if contents is not None and _are_few(dims):
        return [op.tensor(dtype, dims, elements(np.broadcast_to(grid(contents, shape), _numbers(dims))))]
    return [op.tensor(dtype, dims)]


RULES = [*slice_, *split, *concat, *pad, *tile, *expand]
