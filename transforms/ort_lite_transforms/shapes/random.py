"""Random numbers."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule


def _asked(op: Op) -> DType:
    return from_onnx(op.attr("dtype", 1))


def _asked_or_same(op: Op) -> DType:
    code = op.attr("dtype")
    return op.dtype(0) if code is None else from_onnx(code)


@shape_rule("RandomNormal", "RandomUniform", types=(_asked,))
def random_(op: Op) -> list[Info]:
    """Infer the shape of the attribute `shape`. Spec: ONNX RandomNormal-22, RandomUniform-22."""
    low, high = op.attr("low", 0.0), op.attr("high", 1.0)
    if op.node.op_type == "RandomUniform" and not low <= high:
        raise op.error(f"low {low} should not be above high {high}")
    return [op.tensor(_asked(op), op.attr("shape", []))]


@shape_rule("RandomNormalLike", "RandomUniformLike", "Bernoulli", types=(_asked_or_same,))
def random_like(op: Op) -> list[Info]:
    """Shaped like x, of type `dtype` or x's. Spec: ONNX RandomNormalLike-22, Bernoulli-22."""
    return [op.tensor(_asked_or_same(op), op.shape(0))]


def _asked_index(op: Op) -> DType:
    return from_onnx(op.attr("dtype", 6))


@shape_rule("Multinomial", types=(_asked_index,))
def multinomial(op: Op) -> list[Info]:
    """(N, classes) -> (N, sample_size). Spec: ONNX Multinomial-22."""
    return [op.tensor(_asked_index(op), (op.shape(0)[0], op.attr("sample_size", 1)))]


RULES = [*random_, *random_like, *multinomial]
