"""Quantised operators of the domain com.microsoft. Sources as in microsoft.py."""

from ort_lite.inference import Info, Op, broadcast
from ort_lite.shapes import Shape
from ort_lite_transforms.shapes.conv import conv_shape
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.fused import also, microsoft_rule
from ort_lite_transforms.shapes.matmul import gemm_shape, matmul, matmul_integer, product_shape
from ort_lite_transforms.shapes.operands import replace_dim
from ort_lite_transforms.shapes.pooling import pool_shape
from ort_lite_transforms.shapes.recurrent import recurrent_infos
from ort_lite_transforms.shapes.reductions import without
from ort_lite_transforms.shapes.slice import concat_shape


@microsoft_rule("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
def qlinear_unary(op: Op) -> list[Info]:
    """y like x."""
    return [like(op)]


@microsoft_rule("QLinearAdd", "QLinearMul")
def qlinear_binary(op: Op) -> list[Info]:
    """a, scale, zero point, b, scale, zero point: broadcast."""
    return [op.tensor(op.dtype(0), broadcast(op.shape(0), op.shape(3)))]


@microsoft_rule("MulInteger", types=("int32",))
def mul_integer(op: Op) -> list[Info]:
    """a, zero point, b, zero point: broadcast, int32."""
    return [op.tensor("int32", broadcast(op.shape(0), op.shape(2)))]


@microsoft_rule("QLinearWhere", types=(1,))
def qlinear_where(op: Op) -> list[Info]:
    """condition, x, scale, zero point, y, ...: broadcast."""
    return [op.tensor(op.dtype(1), broadcast(op.shape(0), op.shape(1), op.shape(4)))]


@microsoft_rule("QLinearConcat", types=(1,))
def qlinear_concat(op: Op) -> list[Info]:
    """y's scale and zero point, then x, scale, zero point of each."""
    shapes = [op.shape(index) for index in range(2, len(op.inputs), 3)]
    return [op.tensor(op.dtype(1), concat_shape(op, shapes, op.attr("axis")))]


def _channels_first(op: Op, shape: Shape) -> Shape:
    return (shape[0], shape[-1], *shape[1:-1]) if op.attr("channels_last", 0) else shape


def _channels_last(op: Op, dims: Shape) -> Shape:
    return (dims[0], *dims[2:], dims[1]) if op.attr("channels_last", 0) else dims


@microsoft_rule("QLinearConv", types=(7,))
def qlinear_conv(op: Op) -> list[Info]:
    """Infer as the standard one, also with channels in the last place."""
    dims = conv_shape(op, _channels_first(op, op.shape(0)), op.shape(3))
    return [op.tensor(op.dtype(7), _channels_last(op, tuple(dims)))]


@microsoft_rule("QLinearAveragePool")
def qlinear_average_pool(op: Op) -> list[Info]:
    """Infer as AveragePool, also with channels in the last place."""
    dims = pool_shape(op, _channels_first(op, op.shape(0)))
    return [op.tensor(op.dtype(0), _channels_last(op, tuple(dims)))]


@microsoft_rule("NhwcMaxPool")
def nhwc_max_pool(op: Op) -> list[Info]:
    """(N, ..., C): as MaxPool with channels in the last place."""
    x = op.shape(0)
    n, c, *spatial = pool_shape(op, (x[0], x[-1], *x[1:-1]))
    return [op.tensor(op.dtype(0), [n, *spatial, c])]


@microsoft_rule("QLinearGlobalAveragePool")
def qlinear_global_average_pool(op: Op) -> list[Info]:
    """Spatial dims become 1."""
    shape = _channels_first(op, op.shape(0))
    return [op.tensor(op.dtype(0), _channels_last(op, (*shape[:2], *(1,) * (len(shape) - 2))))]


@microsoft_rule("QLinearReduceMean", "ReduceSumInteger", types=(0,))
def qlinear_reduction(op: Op) -> list[Info]:
    """Axes are an attribute. ReduceSumInteger gives int32 or uint32."""
    shape = op.shape(0)
    axes = [op.axis(axis, len(shape)) for axis in op.attr("axes") or range(len(shape))]
    dtype = op.dtype(0)
    if op.node.op_type == "ReduceSumInteger":
        dtype = "uint32" if dtype.startswith("u") else "int32"
    return [op.tensor(dtype, without(shape, axes, bool(op.attr("keepdims", 1))))]


@microsoft_rule("MatMulIntegerToFloat", types=(2,))
def matmul_integer_to_float(op: Op) -> list[Info]:
    """a, b, scales: as MatMul, of the scale's type."""
    return [op.tensor(op.dtype(2), product_shape(op, op.shape(0), op.shape(1)))]


@microsoft_rule("QGemm", types=(lambda op: op.dtype(8) if op.has(8) else "float32",))
def q_gemm(op: Op) -> list[Info]:
    """a, scale, zero point, b, ...: as Gemm; float32 unless y has a zero point."""
    dtype = op.dtype(8) if op.has(8) else "float32"
    return [op.tensor(dtype, gemm_shape(op, op.shape(0), op.shape(3)))]


@microsoft_rule("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(op: Op) -> list[Info]:
    """Infer as LSTM; the weights are (D, I, 4 * H) and (D, H, 4 * H)."""
    return recurrent_infos(op, op.attr("hidden_size", op.shape(2)[1]))


@microsoft_rule("AttnLSTM")
def attn_lstm(op: Op) -> list[Info]:
    """Infer as LSTM."""
    return recurrent_infos(op, op.attr("hidden_size", op.shape(2)[-1]))


@microsoft_rule("GatherBlockQuantized", types=(2,))
def gather_block_quantized(op: Op) -> list[Info]:
    """Infer as Gather, in the scales' type; uint8 holds several elements along the last axis when they are narrower."""
    data, indices = op.shape(0), op.shape(1)
    axis = op.axis(op.attr("gather_axis", 0), len(data))
    if op.dtype(0) == "uint8":
        data = (*data[:-1], data[-1] * (8 // op.attr("bits", 4)))
    return [op.tensor(op.dtype(2), replace_dim(data, axis, *indices))]


RULES = [
    *qlinear_unary,
    *qlinear_binary,
    *mul_integer,
    *qlinear_where,
    *qlinear_concat,
    *qlinear_conv,
    *qlinear_average_pool,
    *nhwc_max_pool,
    *qlinear_global_average_pool,
    *qlinear_reduction,
    *matmul_integer_to_float,
    *q_gemm,
    *dynamic_quantize_lstm,
    *attn_lstm,
    *gather_block_quantized,
    *also(matmul, "DynamicQuantizeMatMul"),
    *also(matmul_integer, "MatMulInteger16"),
]
