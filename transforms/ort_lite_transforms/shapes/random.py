"""Random numbers."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule
from ort_lite_transforms.shapes.shape_arithmetic import dtype_of_attribute_or_input


def _dtype_of_attribute(op: Op) -> DType:
    return from_onnx(op.attr("dtype", 1))


@shape_rule("RandomNormal", "RandomUniform", types=(_dtype_of_attribute,))
def random_(op: Op) -> list[Info]:
    """Infer the shape of the attribute `shape`. Spec: ONNX RandomNormal-22, RandomUniform-22."""
    low, high = op.attr("low", 0.0), op.attr("high", 1.0)
    if op.node.op_type == "RandomUniform" and not low <= high:
        raise op.error(f"low {low} should not be above high {high}")
    return [op.tensor(_dtype_of_attribute(op), op.attr("shape", []))]


@shape_rule("RandomNormalLike", "RandomUniformLike", "Bernoulli", types=(dtype_of_attribute_or_input,))
def random_like(op: Op) -> list[Info]:
    """Shaped like x, of type `dtype` or x's. Spec: ONNX RandomNormalLike-22, Bernoulli-22."""
    return [op.tensor(dtype_of_attribute_or_input(op), op.shape(0))]


def _index_dtype(op: Op) -> DType:
    return from_onnx(op.attr("dtype", 6))


@shape_rule("Multinomial", types=(_index_dtype,))
def multinomial(op: Op) -> list[Info]:
    """(N, classes) -> (N, sample_size). Spec: ONNX Multinomial-22."""
    return [op.tensor(_index_dtype(op), (op.shape(0)[0], op.attr("sample_size", 1)))]


RULES = [*random_, *random_like, *multinomial]
