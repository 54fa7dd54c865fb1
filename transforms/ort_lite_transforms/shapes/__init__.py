"""Shape rules, one operator family a file; what a rule is, `ort_lite.inference` says."""

from ort_lite.inference import ShapeRule
from ort_lite_transforms.shapes import (
    attention,
    control_flow,
    conv,
    elementwise,
    gather,
    matmul,
    microsoft,
    microsoft_attention,
    microsoft_quantized,
    ml,
    normalization,
    pooling,
    quantization,
    random,
    recurrent,
    reductions,
    reshape,
    resize,
    selection,
    sequences,
    shape_arithmetic,
    signal,
    slice,
    text,
    training,
)

RULES: list[ShapeRule] = [
    *elementwise.RULES, *reductions.RULES, *reshape.RULES, *slice.RULES, *gather.RULES, *shape_arithmetic.RULES,
    *matmul.RULES, *conv.RULES, *pooling.RULES, *resize.RULES, *normalization.RULES, *recurrent.RULES, *attention.RULES,
    *quantization.RULES, *selection.RULES, *control_flow.RULES, *sequences.RULES, *random.RULES, *text.RULES, *signal.RULES,
    *training.RULES, *ml.RULES, *microsoft.RULES, *microsoft_quantized.RULES, *microsoft_attention.RULES,
]  # fmt: skip
