"""Between numbers and their quantised form."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Shape, product
from ort_lite_transforms.shapes.operands import common_dim


def _check_scale(op: Op) -> None:
    """The scale is one element, one an element of the axis, or one a block along it; zero points are as many.

    Raises ShapeInferenceError.
    """
    if not op.at_load:
        return
    x, scale = op.info(0).shape, op.info(1).shape
    zero = op.info(2).shape if op.has(2) else None
    if scale is not None and zero is not None and _count(scale) != _count(zero) and None not in (_count(scale), _count(zero)):
        raise op.error(f"zero_point has {_count(zero)} elements, the scale {_count(scale)}")
    block = op.attr("block_size", 0)
    if x is None or scale is None or (len(scale) <= 1 and _count(scale) in ((1,) if block else (1, None))):
        return  # one element, or as many as the run shows: the default axis, which one does without, is beyond a vector
    axis = op.axis(op.attr("axis", 1), len(x))
    if not block:
        if len(scale) != 1:
            raise op.error(f"the scale has rank {len(scale)}; expected one element, or a vector along axis {axis}")
        common_dim(op, [x[axis], scale[0]])
        return
    if len(scale) != len(x):
        raise op.error(f"the scale has rank {len(scale)}; with block_size {block} it has that of x, {len(x)}")
    for k in range(len(x)):
        if k != axis:
            common_dim(op, [x[k], scale[k]])
    dim, blocks = x[axis], scale[axis]
    if isinstance(dim, int) and isinstance(blocks, int) and blocks != -(-dim // block):
        raise op.error(
            f"{dim} elements of axis {axis} are {-(-dim // block)} blocks of block_size {block}, the scale has {blocks}"
        )


def _count(shape: Shape) -> int | None:
    total = product(shape)
    return total if isinstance(total, int) else None


def _output_dtype(op: Op) -> DType:
    if op.has(2):
        return op.dtype(2)
    return from_onnx(op.attr("output_dtype", 0) or 2)


@shape_rule("QuantizeLinear", types=(_output_dtype,))
def quantize_linear(op: Op) -> list[Info]:
    """Infer the zero point's type, else `output_dtype`, else uint8. Spec: ONNX QuantizeLinear-23."""
    _check_scale(op)
    return [op.tensor(_output_dtype(op), op.shape(0))]


def _dequantize(op: Op) -> DType:
    code = op.attr("output_dtype", 0)
    return from_onnx(code) if code else op.dtype(1)


@shape_rule("DequantizeLinear", types=(_dequantize,))
def dequantize_linear(op: Op) -> list[Info]:
    """Infer the scale's type, unless `output_dtype` says otherwise. Spec: ONNX DequantizeLinear-23."""
    _check_scale(op)
    return [op.tensor(_dequantize(op), op.shape(0))]


@shape_rule("DynamicQuantizeLinear", types=("uint8", "float32", "uint8"))
def dynamic_quantize_linear(op: Op) -> list[Info]:
    """y uint8 like x, scale and zero point scalars. Spec: ONNX DynamicQuantizeLinear-11."""
    return [op.tensor("uint8", op.shape(0)), op.tensor("float32", ()), op.tensor("uint8", ())]


RULES = [*quantize_linear, *dequantize_linear, *dynamic_quantize_linear]
