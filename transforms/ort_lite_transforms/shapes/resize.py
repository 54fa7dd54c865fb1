"""Images of another size, and grids to sample them by."""

from collections.abc import Sequence

from ort_lite.dtypes import Array
from ort_lite.inference import ContentsUnknown, Info, NumbersUnknown, Op, shape_rule
from ort_lite.shapes import Dim, Shape, floordiv, maximum, minimum, scale_dim
from ort_lite_transforms.shapes.operands import axes_of, common_dim, fresh_shape, replace_dim


def _scale(op: Op, shape: Shape, axes: Sequence[int], scales: Sequence[float]) -> list[Dim]:
    if len(scales) != len(axes):
        raise op.error(f"{len(scales)} scales, but {len(axes)} axes to scale")
    dims = list(shape)
    for axis, scale in zip(axes, scales, strict=True):
        if not 0 < scale < float("inf"):
            raise op.error(f"scale {scale} of axis {axis} should be a positive number")
        dims[axis] = scale_dim(shape[axis], scale)
    return dims


def _numbers(array: Array) -> list[float]:
    return [float(value) for value in array.reshape(-1).tolist()]


@shape_rule("Resize", beyond_onnx=True)
def resize(op: Op) -> list[Info]:
    """floor(dim * scale), or `sizes`, of which ONNX's own inference reads all or none. Spec: ONNX Resize-19."""
    dtype, shape = op.dtype(0), op.shape(0)
    scales, sizes = (1, 3) if op.version < 11 else (2, 3)
    axes = axes_of(op, None, len(shape))
    axes = list(range(len(shape))) if axes is None else axes
    if op.has(sizes):
        if op.at_load and _is_given(op, scales) and op.version >= 11:
            raise op.error("both scales and sizes are given")
        target = op.contents_or_none(sizes)
        if target is None or (op.like_onnx and not all(isinstance(size, int) for size in target)):
            op.needs(ContentsUnknown(sizes))
            return [op.tensor(dtype, [op.fresh() if axis in axes else dim for axis, dim in enumerate(shape)])]
        if len(target) != len(axes):
            raise op.error(f"{len(target)} sizes, but {len(axes)} axes to resize")
        if op.at_load and any(isinstance(size, int) and size < 0 for size in target):
            raise op.error(f"a size of {list(target)} is negative")
        return [op.tensor(dtype, _fit_target(op, shape, axes, target))]
    if not op.has(scales):
        raise op.error("neither scales nor sizes are given")
    array = op.constant(scales)
    if array is None:
        op.needs(NumbersUnknown(scales))
        return [op.tensor(dtype, fresh_shape(op, len(shape)))]
    return [op.tensor(dtype, _scale(op, shape, axes, _numbers(array)))]


def _is_given(op: Op, index: int) -> bool:
    """Return True if an input has elements: an empty one counts as absent."""
    shape = op.info(index).shape if op.has(index) else (0,)
    return shape is not None and all(isinstance(dim, int) and dim > 0 for dim in shape)


def _fit_target(op: Op, shape: Shape, axes: Sequence[int], target: Sequence[Dim]) -> list[Dim]:
    """`target`, or the nearest size of the same proportions that is not larger (smaller)."""
    policy = op.attr("keep_aspect_ratio_policy", "stretch")
    dims = list(shape)
    for axis, size in zip(axes, target, strict=True):
        dims[axis] = size
    if policy == "stretch":
        return dims
    choose = minimum if policy == "not_larger" else maximum
    for axis in axes:
        rounded = [  # of dim * size / dim along each axis
            floordiv(2 * shape[axis] * size + shape[other], 2 * shape[other]) for other, size in zip(axes, target, strict=True)
        ]
        best = rounded[0]
        for length in rounded[1:]:
            best = choose(best, length)
        dims[axis] = best
    return dims


@shape_rule("Upsample")
def upsample(op: Op) -> list[Info]:
    """floor(dim * scale); scales are attributes before opset 9. Spec: ONNX Upsample-9."""
    dtype, shape = op.dtype(0), op.shape(0)
    if op.version < 7:
        pair = [op.attr("height_scale", 1.0), op.attr("width_scale", 1.0)]
        return [op.tensor(dtype, _scale(op, shape, [2, 3], pair))]
    array = op.constant(1)
    scales = op.attr("scales") or (None if array is None else _numbers(array))
    if scales is None and not op.has(1):
        raise op.error("no scales are given")
    if scales is None:
        op.needs(NumbersUnknown(1))
        return [op.tensor(dtype, fresh_shape(op, len(shape)))]
    return [op.tensor(dtype, _scale(op, shape, range(len(shape)), scales))]


@shape_rule("GridSample")
def grid_sample(op: Op) -> list[Info]:
    """(N, C, ...), grid (N, D..., r) -> (N, C, D...). Spec: ONNX GridSample-22."""
    shape, grid = op.shape(0), op.shape(1)
    if op.at_load and len(grid) != len(shape):
        raise op.error(f"the grid has rank {len(grid)}, the image {len(shape)}")
    return [op.tensor(op.dtype(0), [*shape[:2], *grid[1:-1]])]


@shape_rule("AffineGrid")
def affine_grid(op: Op) -> list[Info]:
    """theta (N, r, r + 1), size (N, C, D...) -> (N, D..., r). Spec: ONNX AffineGrid-20."""
    size, theta = op.contents(1), op.info(0).shape
    if op.at_load and len(size) not in (4, 5):
        raise op.error(f"size {list(size)} should be 4 numbers, or 5")
    if op.at_load and theta is not None:
        common_dim(op, [theta[0], size[0]])
    return [op.tensor(op.dtype(0), [size[0], *size[2:], len(size) - 2])]


@shape_rule("CenterCropPad")
def center_crop_pad(op: Op) -> list[Info]:
    """The axes take the given lengths. Spec: ONNX CenterCropPad-18."""
    dims, rank = op.shape(0), op.rank(0)
    axes = axes_of(op, None, rank)
    axes = list(range(rank)) if axes is None else axes
    lengths = op.contents_or_none(1)
    if lengths is None:
        op.needs(ContentsUnknown(1))
        lengths = tuple(op.fresh() for _ in axes)
    if len(lengths) != len(axes):
        raise op.error(f"{len(lengths)} lengths, but {len(axes)} axes to cut or pad")
    for axis, length in zip(axes, lengths, strict=True):
        dims = tuple(replace_dim(dims, axis, length))
    return [op.tensor(op.dtype(0), dims)]


RULES = [*resize, *upsample, *grid_sample, *affine_grid, *center_crop_pad]
