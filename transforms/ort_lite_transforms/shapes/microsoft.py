"""Operators of the domain com.microsoft: fusions and older forms. Quantised ones are in microsoft_quantized.py.

Sources: onnxruntime's contrib operator documentation, and its results where that is silent.
"""

from ort_lite.dtypes import DType
from ort_lite.inference import Info, Op
from ort_lite.shapes import Dim, Shape, floordiv
from ort_lite_transforms.shapes.conv import conv_shape, conv_transpose_shape
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.fused import also, microsoft_rule
from ort_lite_transforms.shapes.gather import gather_nd
from ort_lite_transforms.shapes.matmul import matmul, product_shape
from ort_lite_transforms.shapes.operands import numbers, replace_dim
from ort_lite_transforms.shapes.pooling import max_pool
from ort_lite_transforms.shapes.quantization import dequantize_linear, quantize_linear
from ort_lite_transforms.shapes.resize import grid_sample
from ort_lite_transforms.shapes.shape_arithmetic import range_
from ort_lite_transforms.shapes.slice import pad


@microsoft_rule(
    "BiasAdd", "BiasGelu", "BiasSoftmax", "BranchwiseRMSNorm", "FastGelu", "GatedAdd", "GatedRMSNorm", "GroupNorm",
    "Inverse", "MoE", "QMoE", "RotaryEmbedding", "SampleOp", "ScaledSiLU", "Trilu",
)  # fmt: skip
def same_shape(op: Op) -> list[Info]:
    """y like x."""
    return [like(op)]


@microsoft_rule("NGramRepeatBlock", types=(1,))
def n_gram_repeat_block(op: Op) -> list[Info]:
    """Scores like the scores."""
    return [like(op, 1)]


@microsoft_rule("BiasDropout", types=(0, "bool"))
def bias_dropout(op: Op) -> list[Info]:
    """y like x, and a mask."""
    return [like(op), op.tensor("bool", op.shape(0))]


@microsoft_rule("BiasSplitGelu")
def bias_split_gelu(op: Op) -> list[Info]:
    """(N, S, D) -> (N, S, D / 2)."""
    shape = op.shape(0)
    return [op.tensor(op.dtype(0), [*shape[:-1], floordiv(shape[-1], 2)])]


@microsoft_rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", types=(0, "float32", "float32", 0))
def skip_layer_normalization(op: Op) -> list[Info]:
    """y like x; mean and deviation (..., 1); the sum that was normalised."""
    statistics = op.tensor("float32", [*op.shape(0)[:-1], 1])
    return [like(op), statistics, statistics, like(op)]


@microsoft_rule("FusedMatMul", "TransposeMatMul", "SparseToDenseMatMul", types=(1,))
def fused_matmul(op: Op) -> list[Info]:
    """Infer a MatMul after `transA`, `transB` and `transBatchA`, `transBatchB`."""
    a, b = _turn(op, op.shape(0), "A"), _turn(op, op.shape(1), "B")
    return [op.tensor(op.dtype(1), product_shape(op, a, b))]


def _turn(op: Op, shape: Shape, side: str) -> Shape:
    """The last two axes swapped; with transBatch the first axis is one of the two, and the others are the batch."""
    if len(shape) > 2 and op.attr(f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    if len(shape) > 1 and op.attr(f"trans{side}", 0):
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


@microsoft_rule("MatMulNBits", "MatMulBnb4")
def matmul_n_bits(op: Op) -> list[Info]:
    """(..., K) -> (..., N); MatMulBnb4 may be given a weight that is not transposed."""
    columns = op.attr("N" if op.attr("transB", 1) else "K")
    return [op.tensor(op.dtype(0), [*op.shape(0)[:-1], columns])]


@microsoft_rule("CDist")
def c_dist(op: Op) -> list[Info]:
    """(M, N), (K, N) -> (M, K)."""
    return [op.tensor(op.dtype(0), (op.shape(0)[0], op.shape(1)[0]))]


@microsoft_rule("ConvTransposeWithDynamicPads")
def conv_transpose_with_dynamic_pads(op: Op) -> list[Info]:
    """Infer a ConvTranspose whose pads are an input."""
    x = op.shape(0)
    rank = len(x) - 2
    pads = op.contents(2) if op.has(2) else (0,) * (2 * rank)
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    return [op.tensor(op.dtype(0), conv_transpose_shape(op, x, op.shape(1), pairs))]


@microsoft_rule("NhwcConv", "NhwcFusedConv")
def nhwc_conv(op: Op) -> list[Info]:
    """(N, ..., C) and (M, C / group, ...) -> (N, ..., M)."""
    x = op.shape(0)
    n, m, *spatial = conv_shape(op, (x[0], x[-1], *x[1:-1]), op.shape(1))
    return [op.tensor(op.dtype(0), [n, *spatial, m])]


@microsoft_rule("CropAndResize")
def crop_and_resize(op: Op) -> list[Info]:
    """(N, C, H, W), rois (R, 4) -> (R, C, *crop_size)."""
    return [op.tensor(op.dtype(0), [op.shape(1)[0], op.shape(0)[1], *op.contents(3)])]


@microsoft_rule("ExpandDims")
def expand_dims(op: Op) -> list[Info]:
    """A 1 at the axis, counted in the result."""
    shape = op.shape(0)
    axis = op.axis(numbers(op, 1)[0], len(shape) + 1)
    return [op.tensor(op.dtype(0), [*shape[:axis], 1, *shape[axis:]])]


@microsoft_rule("UnfoldTensor")
def unfold_tensor(op: Op) -> list[Info]:
    """(..., n, ...) -> (..., windows, ..., size)."""
    shape, size = op.shape(0), op.attr("size")
    axis = op.axis(op.attr("dim", -1), len(shape))
    windows = floordiv(shape[axis] - size, op.attr("step", 1)) + 1
    return [op.tensor(op.dtype(0), [*replace_dim(shape, axis, windows), size])]


def _hash(op: Op) -> DType:
    return "uint32" if op.attr("positive", 1) else "int32"


@microsoft_rule("MurmurHash3", types=(_hash,))
def murmur_hash(op: Op) -> list[Info]:
    """uint32, int32 when they may be negative; shaped like x."""
    return [op.tensor(_hash(op), op.shape(0))]


@microsoft_rule("Tokenizer")
def tokenizer(op: Op) -> list[Info]:
    """(...) -> (..., most tokens)."""
    return [op.tensor("string", [*op.shape(0), op.fresh()])]


@microsoft_rule("Unique", types=(0, "int64"))
def unique(op: Op) -> list[Info]:
    """A vector's values, their positions in the result, counts."""
    count = op.fresh()
    positions = op.tensor("int64", op.shape(0))
    return [op.tensor(op.dtype(0), (count,)), positions, op.tensor("int64", (count,))]


@microsoft_rule("WordConvEmbedding", types=(1,))
def word_conv_embedding(op: Op) -> list[Info]:
    """(..., characters) -> (..., embedding)."""
    return [op.tensor(op.dtype(1), [*op.shape(0)[:-1], op.attr("embedding_size", op.shape(1)[0])])]


@microsoft_rule("DynamicTimeWarping", types=("int32",))
def dynamic_time_warping(op: Op) -> list[Info]:
    """A path, (2, steps)."""
    return [op.tensor("int32", (2, op.fresh()))]


@microsoft_rule("BifurcationDetector")
def bifurcation_detector(op: Op) -> list[Info]:
    """Tokens, and the position of a match in the shape of the position before."""
    return [op.tensor(op.dtype(0), (op.fresh(),)), op.tensor(op.dtype(0), op.shape(2))]


@microsoft_rule("IsAllFinite", types=("bool",))
def is_all_finite(op: Op) -> list[Info]:
    """A bool scalar."""
    return [op.tensor("bool", ())]


@microsoft_rule("MatMulFpQ4")
def matmul_fp_q4(op: Op) -> list[Info]:
    """Infer a MatMul; the weight is a blob whose shape is an input."""
    columns: Dim = op.contents(2)[-1]
    return [op.tensor(op.dtype(0), [*op.shape(0)[:-1], columns])]


RULES = [
    *same_shape,
    *n_gram_repeat_block,
    *bias_dropout,
    *bias_split_gelu,
    *skip_layer_normalization,
    *fused_matmul,
    *matmul_n_bits,
    *c_dist,
    *conv_transpose_with_dynamic_pads,
    *nhwc_conv,
    *crop_and_resize,
    *expand_dims,
    *unfold_tensor,
    *murmur_hash,
    *tokenizer,
    *unique,
    *word_conv_embedding,
    *dynamic_time_warping,
    *bifurcation_detector,
    *is_all_finite,
    *matmul_fp_q4,
    *also(matmul, "GemmFastGelu"),
    *also(gather_nd),
    *also(range_),
    *also(grid_sample),
    *also(pad),
    *also(quantize_linear),
    *also(dequantize_linear),
    *also(max_pool, "MaxpoolWithMask"),
]
