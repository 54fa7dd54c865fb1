"""Pooling, global and local, and over regions of interest."""

from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Dim, Shape, ceildiv, floordiv, maximum, minimum
from ort_lite_transforms.shapes.conv import is_same, paddings, per_axis


def pool_shape(op: Op, shape: Shape) -> list[Dim]:
    """(N, C, ...) -> (N, C, windows...). Raises ShapeInferenceError where no window fits."""
    kernel = op.attr("kernel_shape")
    rank = len(shape) - 2
    if rank < 1 or kernel is None or len(kernel) != rank:
        raise op.error(f"kernel_shape {kernel} should have a number for each axis but the first two")
    strides, dilations = per_axis(op, "strides", rank, 1), per_axis(op, "dilations", rank, 1)
    pads, ceil = paddings(op, rank), bool(op.attr("ceil_mode", 0))
    lower = op.attr("auto_pad") == "SAME_LOWER"
    dims = [*shape[:2]]
    for dim, size, stride, dilation, (begin, end) in zip(shape[2:], kernel, strides, dilations, pads, strict=True):
        reach = (size - 1) * dilation + 1
        if op.at_load and max(begin, end) >= reach:
            raise op.error(f"pads {begin} and {end} should be smaller than the window of {reach}")
        if is_same(op):
            dims.append(_same(dim, size, reach, stride, ceil, lower))
            continue
        room = dim + (begin + end - reach)
        if isinstance(room, int) and room + (stride - 1 if ceil else 0) < 0:
            raise op.error(f"a window of {reach} does not fit into {dim} + {begin} + {end}")
        count = ceildiv(room, stride) + 1 if ceil else floordiv(room, stride) + 1
        if ceil and end + stride > reach:  # the last window must begin inside the input or the padding before it
            count = minimum(count, ceildiv(dim + begin, stride))
        dims.append(count)
    return dims


def _same(dim: Dim, size: int, reach: int, stride: int, ceil: bool, lower: bool) -> Dim:
    """The windows along an axis with the padding of `auto_pad`.

    It is made for the kernel without its dilation, which then takes windows away (as in onnxruntime).
    """
    count = ceildiv(dim, stride)
    if not ceil or reach == size:
        return count + (size - reach) // stride
    padding = maximum((count - 1) * stride + size - dim, 0)
    front = ceildiv(padding, 2) if lower else floordiv(padding, 2)
    return minimum(count - (reach - size) // stride, ceildiv(dim + front, stride))


@shape_rule("AveragePool", "LpPool")
def pool(op: Op) -> list[Info]:
    """Spec: ONNX AveragePool-22, LpPool-22."""
    return [op.tensor(op.dtype(0), pool_shape(op, op.shape(0)))]


@shape_rule("MaxPool", types=(0, "int64"))
def max_pool(op: Op) -> list[Info]:
    """Infer the maxima and their positions, int64. Spec: ONNX MaxPool-22."""
    shape = pool_shape(op, op.shape(0))
    return [op.tensor(op.dtype(0), shape), op.tensor("int64", shape)]


@shape_rule("MaxUnpool")
def max_unpool(op: Op) -> list[Info]:
    """The inverse of MaxPool's shape; `output_shape` overrides. Spec: ONNX MaxUnpool-22."""
    shape = op.shape(0)
    if op.has(2):
        return [op.tensor(op.dtype(0), op.contents(2))]
    rank = len(shape) - 2
    kernel, strides = per_axis(op, "kernel_shape", rank, 1), per_axis(op, "strides", rank, 1)
    dims = [
        (dim - 1) * stride + size - begin - end
        for dim, size, stride, (begin, end) in zip(shape[2:], kernel, strides, paddings(op, rank), strict=True)
    ]
    return [op.tensor(op.dtype(0), [*shape[:2], *dims])]


@shape_rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def global_pool(op: Op) -> list[Info]:
    """(N, C, ...) -> (N, C, 1, ...). Spec: ONNX GlobalAveragePool-22."""
    shape = op.shape(0)
    return [op.tensor(op.dtype(0), [*shape[:2], *([1] * (len(shape) - 2))])]


@shape_rule("MaxRoiPool")
def max_roi_pool(op: Op) -> list[Info]:
    """(N, C, H, W), rois (R, 5) -> (R, C, *pooled_shape). Spec: ONNX MaxRoiPool-22."""
    pooled = op.attr("pooled_shape")
    if op.at_load and len(pooled) != 2:
        raise op.error(f"pooled_shape {list(pooled)} should be 2 numbers")
    return [op.tensor(op.dtype(0), [op.shape(1)[0], op.shape(0)[1], *pooled])]


@shape_rule("RoiAlign")
def roi_align(op: Op) -> list[Info]:
    """(N, C, H, W), rois (R, 4) -> (R, C, output_height, output_width). Spec: ONNX RoiAlign-22."""
    size = [op.attr("output_height", 1), op.attr("output_width", 1)]
    return [op.tensor(op.dtype(0), [op.shape(1)[0], op.shape(0)[1], *size])]


RULES = [*pool, *max_pool, *max_unpool, *global_pool, *max_roi_pool, *roi_align]
