"""Normalisations and softmax: y like x, some with statistics besides."""

from ort_lite.dtypes import from_onnx
from ort_lite.inference import Info, Op, shape_rule
from ort_lite_transforms.shapes.elementwise import like


@shape_rule("GroupNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization")
def normalization(op: Op) -> list[Info]:
    """y like x. Spec: ONNX LRN-13 and others."""
    return [like(op)]


@shape_rule("Hardmax", "LogSoftmax", "Softmax")
def along_axis(op: Op) -> list[Info]:
    """y like x. The default axis is 1 before version 13, which a vector does not have. Spec: ONNX Softmax-11, -13."""
    if op.version < 13 and op.attr("axis") is None:
        op.axis(1, len(op.shape(0)))
    return [like(op)]


@shape_rule("RMSNormalization", types=(1,))
def rms_normalization(op: Op) -> list[Info]:
    """y like x, of the type of the scale. Spec: ONNX RMSNormalization-23."""
    return [op.tensor(op.dtype(1), op.shape(0))]


@shape_rule("BatchNormalization", types=(0, 3))
def batch_normalization(op: Op) -> list[Info]:
    """(N, C, ...) with the means and variances, (C,), when training. Spec: ONNX BatchNormalization-15."""
    statistics = like(op, 3)
    return [like(op), statistics, statistics, statistics, statistics]


def _scale_type(op: Op) -> str:
    """Return the type of LayerNormalization's result: in onnxruntime's own form, which opset 17 adopted, that of the scale."""
    return op.dtype(0 if op.node.op_type == "LayerNormalization" and op.version >= 17 else 1)


def _statistics_type(op: Op) -> str:
    return from_onnx(op.attr("stash_type", 1))


@shape_rule("LayerNormalization", "SimplifiedLayerNormalization", types=(_scale_type, _statistics_type))
def layer_normalization(op: Op) -> list[Info]:
    """y like x; mean and inverse deviation with 1 from `axis` on. Spec: ONNX LayerNormalization-17."""
    shape = op.shape(0)
    axis = op.axis(op.attr("axis", -1), len(shape))
    statistics = op.tensor(_statistics_type(op), [*shape[:axis], *[1] * (len(shape) - axis)])
    return [op.tensor(_scale_type(op), shape), statistics, statistics]


RULES = [*normalization, *along_axis, *rms_normalization, *batch_normalization, *layer_normalization]
