"""Convolutions, and the arithmetic of windows that they share with pooling."""

from collections.abc import Sequence

from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Dim, Shape, ceildiv, floordiv, minimum, product


def per_axis(op: Op, name: str, rank: int, default: int) -> list[int]:
    """An attribute with a number for each spatial axis. Raises ShapeInferenceError for another length."""
    values = op.attr(name) or [default] * rank
    if len(values) != rank:
        raise op.error(f"{name} {list(values)} should be {rank} numbers")
    return list(values)


def paddings(op: Op, rank: int) -> list[tuple[int, int]]:
    """(begin, end) of each spatial axis; none where `auto_pad` decides."""
    given = op.attr("pads") if (op.attr("auto_pad") or "NOTSET") == "NOTSET" else None
    pads = given or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise op.error(f"pads {list(pads)} should be {2 * rank} numbers")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def is_same(op: Op) -> bool:
    """Return True if `auto_pad` is SAME_UPPER or SAME_LOWER."""
    return str(op.attr("auto_pad", "NOTSET")).startswith("SAME")


def extent(kernel: Dim, dilation: int) -> Dim:
    """Elements from the first to the last one that a kernel reads."""
    return (kernel - 1) * dilation + 1


def windows(op: Op, dims: Sequence[Dim], kernel: Sequence[Dim]) -> list[Dim]:
    """Return the number of windows along each spatial axis. Raises ShapeInferenceError if there is none."""
    rank = len(dims)
    if len(kernel) != rank:
        raise op.error(f"kernel_shape {list(kernel)} should be {rank} numbers")
    if op.at_load and [size for size in kernel if isinstance(size, int) and size < 1]:
        raise op.error(f"kernel_shape {list(kernel)} should be 1 or more")
    strides, dilations = per_axis(op, "strides", rank, 1), per_axis(op, "dilations", rank, 1)
    if is_same(op):
        return [ceildiv(dim, stride) for dim, stride in zip(dims, strides, strict=True)]
    found = []
    for dim, size, stride, dilation, (begin, end) in zip(dims, kernel, strides, dilations, paddings(op, rank), strict=True):
        more = begin + end - extent(size, dilation)
        room = dim + more
        if isinstance(room, int) and room < 0:
            raise op.error(f"a window of {extent(size, dilation)} does not fit into {dim} + {begin} + {end}")
        # The former is `dim` itself where pads make up for the kernel: to compare it with that costs nothing then.
        found.append(dim + (more + 1) if stride == 1 else floordiv(room, stride) + 1)
    return found


def conv_shape(op: Op, x: Shape, w: Shape) -> list[Dim]:
    """(N, C, ...) and (M, C / group, ...) -> (N, M, ...)."""
    if len(x) < 3 or len(w) != len(x):
        raise op.error("input and weight should have one rank, 3 or more")
    return [x[0], w[0], *windows(op, x[2:], _kernel(op, w))]


def _kernel(op: Op, w: Shape) -> Sequence[Dim]:
    """The size of the kernel, which the attribute may say once more."""
    given: Sequence[Dim] = op.attr("kernel_shape") or w[2:]
    if op.at_load and (
        len(given) != len(w) - 2
        or [dim for size, dim in zip(given, w[2:], strict=True) if isinstance(dim, int) and size != dim]
    ):
        raise op.error(f"kernel_shape {list(given)} is not that of the weight, {[str(dim) for dim in w[2:]]}")
    return given


@shape_rule("Conv", "DeformConv")
def conv(op: Op) -> list[Info]:
    """Infer the convolution. Offsets of DeformConv move the samples, not the result. Spec: ONNX Conv-22, DeformConv-22."""
    return [op.tensor(op.dtype(0), conv_shape(op, op.shape(0), op.shape(1)))]


@shape_rule("ConvInteger", types=("int32",))
def conv_integer(op: Op) -> list[Info]:
    """Spec: ONNX ConvInteger-10."""
    return [op.tensor("int32", conv_shape(op, op.shape(0), op.shape(1)))]


@shape_rule("QLinearConv", types=(7,))
def qlinear_conv(op: Op) -> list[Info]:
    """Infer the convolution in the type of y's zero point. Spec: ONNX QLinearConv-10."""
    return [op.tensor(op.dtype(7), conv_shape(op, op.shape(0), op.shape(3)))]


def conv_transpose_shape(op: Op, x: Shape, w: Shape, pads: Sequence[tuple[Dim, Dim]]) -> list[Dim]:
    """(N, C, ...) and (C, M / group, ...) -> (N, M, ...); `output_shape` overrides."""
    rank = len(x) - 2
    if rank < 1 or len(w) != len(x):
        raise op.error("input and weight should have one rank, 3 or more")
    front = [x[0], w[1] * op.attr("group", 1)]
    _check_output_padding(op, rank)
    wanted = op.attr("output_shape")
    if wanted:
        if op.at_load and len(wanted) not in (rank, rank + 2):
            raise op.error(f"output_shape {list(wanted)} should be {rank} numbers")
        return [*front, *wanted[-rank:]]
    kernel = _kernel(op, w)
    strides, dilations = per_axis(op, "strides", rank, 1), per_axis(op, "dilations", rank, 1)
    extra = per_axis(op, "output_padding", rank, 0)
    dims: list[Dim] = []
    for dim, size, stride, dilation, more, (begin, end) in zip(x[2:], kernel, strides, dilations, extra, pads, strict=True):
        full = extent(size, dilation) + more
        # "Same" is stride times the input, but padding is never negative (as in onnxruntime).
        dims.append(dim * stride + (minimum(full - stride, 0) if is_same(op) else full - stride - begin - end))
    return [*front, *dims]


def _check_output_padding(op: Op, rank: int) -> None:
    """It tells apart which of several inputs of a strided convolution had this output: there are fewer than a stride."""
    strides, dilations = per_axis(op, "strides", rank, 1), per_axis(op, "dilations", rank, 1)
    for more, stride, dilation in zip(per_axis(op, "output_padding", rank, 0), strides, dilations, strict=True):
        if op.at_load and more >= max(stride, dilation):
            raise op.error(
                f"output_padding {more} should be less than {max(stride, dilation)}, the larger of stride and dilation"
            )


@shape_rule("ConvTranspose")
def conv_transpose(op: Op) -> list[Info]:
    """stride * (dim - 1) + output_padding + kernel extent - pads. Spec: ONNX ConvTranspose-22."""
    x = op.shape(0)
    return [op.tensor(op.dtype(0), conv_transpose_shape(op, x, op.shape(1), paddings(op, len(x) - 2)))]


_PLAIN_LAYOUT = {
    "ndim": 1,
    "state_window": 0,
    "state_channels_last": -1,
    "state_length": 0,
    "state_update_capacity": 0,
    "input_channels": 0,
    "input_channel_offset": 0,
}


@shape_rule("CausalConvWithState")
def causal_conv(op: Op) -> list[Info]:
    """(B, C, L), (C, 1, k) -> (B, C, L) and the state (B, C, k - 1), longer if dilated. Spec: ONNX CausalConvWithState-27.

    In com.microsoft, channels may come last. Attributes select other layouts, whose shapes are left open, and a third output.
    """
    if any(op.attr(name, plain) != plain for name, plain in _PLAIN_LAYOUT.items()):
        return [op.tensor(op.dtype(0), None)] * 3
    x, before = op.shape(0), (op.shape(1)[2] - 1) * op.attr("dilation", 1)
    state = [x[0], before, x[-1]] if op.attr("channels_last", 0) else [x[0], x[1], before]
    return [op.tensor(op.dtype(0), x), op.tensor(op.dtype(0), state), op.tensor(op.dtype(0), None)]


def _check_blocks(op: Op, channels: Dim, image: Sequence[Dim], block: Sequence[Dim]) -> None:
    for name in ("strides", "dilations"):
        per_axis(op, name, len(image), 1)
    if len(image) != len(block) or any(isinstance(size, int) and size < 1 for size in (*image, *block)):
        raise op.error(f"image {list(image)} and block {list(block)} should be as many numbers, of 1 or more")
    total = product(block)
    if isinstance(channels, int) and isinstance(total, int) and channels % total:
        raise op.error(f"{channels} channels are no multiple of {total}, the block {list(block)}")


@shape_rule("Col2Im")
def col2im(op: Op) -> list[Info]:
    """(N, C * block, L) -> (N, C, *image). Spec: ONNX Col2Im-18."""
    x, image, block = op.shape(0), op.contents(1), op.contents(2)
    channels = x[1]
    if op.at_load:
        _check_blocks(op, channels, image, block)
    for size in block:
        channels = floordiv(channels, size)
    return [op.tensor(op.dtype(0), [x[0], channels, *image])]


RULES = [
    *conv,
    *conv_integer,
    *qlinear_conv,
    *conv_transpose,
    *causal_conv,
    *col2im,
]
