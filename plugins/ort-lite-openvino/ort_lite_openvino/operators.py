"""Operators that OpenVINO computes as ONNX specifies, the element types of their operands, and the restrictions of each."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ort_lite.graph import Node
from ort_lite_openvino import limits
from ort_lite_openvino.bounds import Bounds, fits

Why = tuple[str, str]
"""The code and the detail of a Rejection."""

FLOATS = frozenset({"float32", "float16"})
INTEGERS = frozenset({"int32", "int64"})
NUMBERS = FLOATS | INTEGERS
BYTES = frozenset({"int8", "uint8"})
BOOL = frozenset({"bool"})
DATA = NUMBERS | BYTES | BOOL
"""The types that OpenVINO stores unchanged. It computes float64 and int16 as float32 and int32, int64 as int32."""

OLDEST, NEWEST = 7, 28
"""Opset versions of ai.onnx whose operators were compared with the specification's results."""


class SupportedOperator(NamedTuple):
    """A supported operator. `beside`: operands that may have other types of DATA; `fixed`: operands that must be constants."""

    types: frozenset[str]
    beside: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    check: Callable[[Node], Why | None] | None = None
    since: int = OLDEST


def misfit(node: Node, bounds: Bounds) -> Why | None:
    """Return the reason why OpenVINO does not run a node, or None if it does."""
    operator = OPERATORS.get((node.domain, node.op_type))
    if operator is None:
        body = ": its bodies have partitions of their own" if node.subgraphs() else ""
        return "operator", f"{node.op_type} is none of its operators{body}"
    if not node.domain and not operator.since <= node.version <= NEWEST:
        return "opset", f"{node.op_type} of opset {node.version}, takes {operator.since} to {NEWEST}"
    return _check_types(node, operator) or (operator.check and operator.check(node)) or _wide(node, bounds)


def _check_types(node: Node, operator: SupportedOperator) -> Why | None:
    for k, value in enumerate(node.inputs):
        if value is None:
            continue
        beside = k in operator.beside or k in operator.fixed
        types = DATA if beside else operator.types
        if not beside and 0 in (value.shape or ()):
            return "shape", f"{value.name!r} is empty"
        if value.dtype not in types:
            return "type", f"{value.name!r} is {value.dtype or 'of unknown type'}, takes {', '.join(sorted(types))}"
        if k in operator.fixed and value.constant is None:
            return "constant", f"{value.name!r} is computed, takes a constant"
    for value in node.outputs:
        if value is not None and value.dtype not in DATA:
            return "type", f"{value.name!r} is {value.dtype or 'of unknown type'}, makes {', '.join(sorted(DATA))}"
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.shape is None:
            return "shape", f"the rank of {value.name!r} is not known"
    return None


_GROWING = frozenset(
    {
        "Add",
        "CumSum",
        "Mul",
        "Pow",
        "ReduceL1",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Sub",
        "Sum",
    }
)


def _wide(node: Node, bounds: Bounds) -> Why | None:
    """Reject int64 values that may need more than 32 bits."""
    made = next((value.dtype for value in node.outputs if value is not None), None)
    for value in node.inputs:
        if value is None:
            continue
        if value.dtype == "int64" and value.constant is not None and node.op_type != "Slice" and not fits(value):
            return "type", f"{value.name!r} has numbers beyond 32 bits, in which OpenVINO computes int64"
        grows = node.op_type in _GROWING or (node.op_type == "Cast" and value.dtype in FLOATS)
        if made == "int64" and grows and not bounds.is_small(value):
            return "type", f"{value.name!r} may be large; OpenVINO computes int64 in 32 bits"
    return None


def _all(names: str, operator: SupportedOperator, domain: str = "") -> Iterable[tuple[tuple[str, str], SupportedOperator]]:
    return (((domain, name), operator) for name in names.split())


OPERATORS: dict[tuple[str, str], SupportedOperator] = dict(
    [
        # elementwise
        *_all(
            "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSwish IsInf IsNaN LeakyRelu "
            "Log Mish Reciprocal Relu Round Shrink Sigmoid Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
            "ThresholdedRelu",
            SupportedOperator(FLOATS),
        ),
        *_all("HardSigmoid", SupportedOperator(FLOATS, check=limits.hard_sigmoid)),
        *_all("Selu", SupportedOperator(FLOATS, check=limits.selu)),
        *_all("Celu", SupportedOperator(frozenset({"float32"}))),
        *_all("PRelu", SupportedOperator(FLOATS, check=limits.slope)),
        *_all("Abs Add Max Mean Min Mul Neg Sign Sub Sum", SupportedOperator(NUMBERS)),
        *_all("Clip", SupportedOperator(NUMBERS)),
        *_all("Div Pow", SupportedOperator(FLOATS)),  # OpenVINO divides integers in float32
        *_all("And Not Or Xor", SupportedOperator(BOOL)),
        *_all("Equal", SupportedOperator(DATA)),
        *_all("Greater GreaterOrEqual Less LessOrEqual", SupportedOperator(NUMBERS | BYTES)),
        *_all("BitwiseAnd BitwiseNot BitwiseOr BitwiseXor", SupportedOperator(frozenset({"int32"}))),
        *_all("Where", SupportedOperator(DATA)),
        *_all("Cast CastLike", SupportedOperator(DATA)),
        *_all("Dropout", SupportedOperator(FLOATS, fixed=(1, 2), check=limits.dropout)),
        # along axes
        *_all(
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare",
            SupportedOperator(NUMBERS, fixed=(1,)),
        ),
        *_all("ReduceMax ReduceMin", SupportedOperator(INTEGERS, fixed=(1,))),  # of infinities alone, floats differ
        *_all("ArgMax ArgMin", SupportedOperator(FLOATS | {"int32"}, check=limits.not_scalar)),
        *_all("LogSoftmax", SupportedOperator(FLOATS)),
        *_all("Softmax", SupportedOperator(FLOATS, check=limits.softmax)),
        *_all("CumSum", SupportedOperator(NUMBERS, fixed=(1,))),
        *_all("TopK", SupportedOperator(NUMBERS, beside=(1,), check=limits.top_k)),
        # layers
        *_all("Conv ConvTranspose", SupportedOperator(FLOATS, check=limits.weights)),
        *_all("Gemm MatMul", SupportedOperator(FLOATS)),
        *_all("GlobalAveragePool", SupportedOperator(FLOATS)),
        *_all("GlobalMaxPool", SupportedOperator(FLOATS, check=limits.global_max_pool)),
        *_all("AveragePool LpPool", SupportedOperator(FLOATS, check=limits.pool)),
        *_all("MaxPool", SupportedOperator(FLOATS, check=limits.pool)),
        *_all("BatchNormalization", SupportedOperator(FLOATS, check=limits.batch_norm)),
        *_all(
            "GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization MeanVarianceNormalization "
            "RMSNormalization",
            SupportedOperator(FLOATS, check=limits.one_output),
        ),
        *_all("LSTM RNN", SupportedOperator(FLOATS, beside=(4,), check=limits.recurrent)),
        *_all("GRU", SupportedOperator(frozenset({"float32"}), beside=(4,), check=limits.recurrent)),
        *_all("Attention", SupportedOperator(FLOATS, beside=(3, 6), check=limits.attention)),
        *_all("RotaryEmbedding", SupportedOperator(FLOATS, beside=(3,))),
        *_all("Einsum", SupportedOperator(FLOATS)),
        *_all("GridSample", SupportedOperator(FLOATS, check=limits.grid_sample)),
        *_all("Resize", SupportedOperator(FLOATS, beside=(1, 3), fixed=(1, 2), check=limits.resize, since=11)),
        *_all("RoiAlign", SupportedOperator(FLOATS, beside=(2,), check=limits.roi_align)),
        # data movement
        *_all("Concat DepthToSpace Flatten Identity Transpose", SupportedOperator(DATA)),
        *_all("Expand Gather GatherND ReverseSequence", SupportedOperator(DATA, beside=(1,))),
        *_all("GatherElements", SupportedOperator(DATA, beside=(1,), check=limits.gather_elements)),
        *_all("Compress", SupportedOperator(DATA)),
        *_all("Reshape", SupportedOperator(DATA, beside=(1,))),
        *_all("Split", SupportedOperator(DATA, fixed=(1,), check=limits.split)),
        *_all("Squeeze Unsqueeze", SupportedOperator(DATA, fixed=(1,))),
        *_all("Tile", SupportedOperator(DATA, fixed=(1,), check=limits.not_scalar)),
        *_all("Slice", SupportedOperator(DATA, beside=(1, 2), fixed=(3, 4), check=limits.not_scalar)),
        *_all("Pad", SupportedOperator(DATA, beside=(1, 2), fixed=(3,), check=limits.pad)),
        *_all("ScatterElements ScatterND", SupportedOperator(DATA, beside=(1,))),
        *_all("SpaceToDepth", SupportedOperator(DATA, check=limits.space_to_depth)),
        *_all("Trilu", SupportedOperator(DATA, fixed=(1,))),
        # new tensors
        *_all("ConstantOfShape EyeLike NonZero Range Shape Size", SupportedOperator(DATA)),
        *_all("OneHot", SupportedOperator(DATA, check=limits.one_hot)),
        # quantization
        *_all("DequantizeLinear", SupportedOperator(FLOATS | BYTES | {"int32"}, fixed=(1, 2), check=limits.dequantize)),
        *_all("QuantizeLinear", SupportedOperator(FLOATS | BYTES | {"int32"}, fixed=(1, 2), check=limits.quantize)),
        *_all("DynamicQuantizeLinear", SupportedOperator(FLOATS, check=limits.dynamic_quantize)),
        *_all("ConvInteger", SupportedOperator(BYTES, check=limits.conv_integer)),
        *_all("MatMulInteger", SupportedOperator(BYTES, check=limits.matmul_integer)),
        *_all("QLinearConv QLinearMatMul", SupportedOperator(FLOATS | BYTES | {"int32"}, fixed=(1, 2, 4, 5, 6, 7))),
        *_all("Gelu QuickGelu", SupportedOperator(FLOATS), "com.microsoft"),
    ]
)
