"""The table of other people's defects, with onnxruntime 1.32 and onnx 1.23. See `known`."""

from typing import Any

import numpy as np

from tests.generated.comparison import Mismatch
from tests.generated.known import (
    ONNXRUNTIME,
    REFERENCE,
    Defect,
    attribute,
    below,
    both,
    dtype,
    either,
    form,
    has_attribute,
    like_float32,
    nearly,
    special,
    within,
)
from tests.generated.walk import Site

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _is_text(site: Site, mismatch: Mismatch) -> bool:
    return isinstance(mismatch.got, np.ndarray) and mismatch.got.dtype == object


def _is_scalar(site: Site, mismatch: Mismatch) -> bool:
    """In a body or function, operands are not known."""
    value = site.operand(0)
    return value.ndim == 0 if isinstance(value, np.ndarray) else mismatch.where is None


def _has_no_intercepts(site: Site, mismatch: Mismatch) -> bool:
    return site.attribute("intercepts") is None


def _has_two_classes(site: Site, mismatch: Mismatch) -> bool:
    labels: Any = site.attribute("classlabels_ints") or site.attribute("classlabels_strings") or ()
    return len(labels) <= 2


def _has_windows(site: Site, mismatch: Mismatch) -> bool:
    return any(int(site.attribute(name, -1)) >= 0 for name in ("left_window_size", "right_window_size"))


def _steps_back(site: Site, mismatch: Mismatch) -> bool:
    steps = site.operand(4)
    return isinstance(steps, np.ndarray) and bool(np.any(steps < 0))


def _has_indices(site: Site, mismatch: Mismatch) -> bool:
    return len(site.node.input) > 4 and bool(site.node.input[4])


def _counts_from_behind(site: Site, mismatch: Mismatch) -> bool:
    return bool((site.attribute("axis", 0) or 0) < 0)


def _expects_nan(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.where is not None and bool(np.all(np.isnan(mismatch.expected[mismatch.where])))


def _sign_of_nan(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.where is not None and bool(np.all(np.isnan(mismatch.got[mismatch.where])))


def _is_qk_output(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.path[0] == len([name for name in site.node.output if name]) - 1 and len(site.node.output) > 3


DEFECTS: tuple[Defect, ...] = (
    # --- onnxruntime
    Defect(
        ONNXRUNTIME, "Resize Upsample", "computes coordinates of linear interpolation in float32: weights are 1e-4 off",
        attribute("mode", "linear", "cubic", default="nearest"),
    ),
    Defect(ONNXRUNTIME, "Bernoulli", "draws 1 with probability 1 - p"),
    Defect(
        ONNXRUNTIME, "ReduceLogSumExp", "computes exp(x - max) of integers in integers, so that only the largest ones count",
        dtype(0, "int", "uint"),
    ),
    Defect(
        ONNXRUNTIME, "com.microsoft.FastGelu", "has constants of six digits where it has no kernel, in float64",
        dtype(0, "float64"),
    ),
    Defect(ONNXRUNTIME, "com.microsoft.QLinearSoftmax", "truncates where it should round", within(1)),
    Defect(
        ONNXRUNTIME, "com.microsoft.MultiHeadAttention", "does not mask the keys behind the last query where there are more keys",
        attribute("unidirectional", 1),
    ),
    Defect(
        ONNXRUNTIME, "com.microsoft.MatMulNBits", "reads zero points and scales by another group than g_idx says", _has_indices
    ),
    Defect(
        ONNXRUNTIME, "com.microsoft.MatMulNBits", "quantizes A to 8 bits where accuracy_level is 4", attribute("accuracy_level", 4)
    ),
    Defect(
        ONNXRUNTIME, "com.microsoft.GreedySearch com.microsoft.Sampling com.microsoft.BeamSearch",
        "leaves behind the end of a sequence what memory held",
    ),
    Defect(
        ONNXRUNTIME, "ai.onnx.ml.LabelEncoder", "finds no NaN among the keys in versions 2 and 3", has_attribute("keys_floats")
    ),
    Defect(ONNXRUNTIME, "MeanVarianceNormalization", "divides 0 by 0 where all elements are equal", _expects_nan),
    Defect(ONNXRUNTIME, "Attention", "does not know left_window_size and right_window_size", _has_windows),
    Defect(ONNXRUNTIME, "Sign", "gives 0 for NaN of float16", _sign_of_nan),
    Defect(
        ONNXRUNTIME, "com.microsoft.CDist", "expands the square of a difference, which makes NaN of infinities", special
    ),
    Defect(
        ONNXRUNTIME, "BlackmanWindow HammingWindow HannWindow", "computes float64 in float32", either(like_float32, below(1e-6))
    ),
    Defect(REFERENCE, "HannWindow", "computes sin(pi) ** 2 where 0 is due", below(1e-30)),
    Defect(ONNXRUNTIME, "STFT", "makes NaN of the imaginary part of an infinite sum", special),
    Defect(ONNXRUNTIME, "DeformConv", "multiplies pixels beyond the border by 0", special),
    Defect(
        ONNXRUNTIME, "BatchNormalization", "computes x * s - mean * s, which cancels, where the variance is small",
        both(attribute("training_mode", 1), nearly(1e-3)),
    ),
    Defect(ONNXRUNTIME, "DFT GroupNormalization LayerNormalization ai.onnx.ml.TreeEnsemble", "computes float64 in float32", like_float32),
    # --- onnx.reference
    Defect(
        REFERENCE,
        "Erf Gelu HardSwish MeanVarianceNormalization AffineGrid DeformConv GridSample GroupNormalization LayerNormalization"
        " RMSNormalization Resize ImageDecoder MelWeightMatrix STFT DFT Celu",
        "computes float64 in float32, or in float64 what has float32 operands", like_float32,
    ),
    Defect(REFERENCE, "Cast CastLike", "writes floats to text as Python does, 3.0 for 3", _is_text),
    Defect(REFERENCE, "QLinearMatMul", "casts float8 operands to integers", either(dtype(0, "float8"), dtype(3, "float8"))),
    Defect(REFERENCE, "QLinearConv ConvInteger", "pads only the last axis for auto_pad", has_attribute("auto_pad")),
    Defect(
        REFERENCE, "ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor", "adds NaN where there are no intercepts",
        _has_no_intercepts,
    ),
    Defect(REFERENCE, "ai.onnx.ml.LinearClassifier", "gives two scores s and -s for two classes", _has_two_classes),
    Defect(REFERENCE, "ai.onnx.ml.DictVectorizer ai.onnx.ml.LinearRegressor", "gives a vector in place of a row", form),
    Defect(REFERENCE, "ai.onnx.ml.FeatureVectorizer", "takes each element of a vector as a row", form),
    Defect(
        REFERENCE, "ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor ai.onnx.ml.Scaler ai.onnx.ml.LinearRegressor",
        "computes in the integers of its input",
        dtype(0, "int"),
    ),
    Defect(REFERENCE, "ai.onnx.ml.SVMClassifier", "computes scores in another way"),
    Defect(REFERENCE, "ai.onnx.ml.TreeEnsemble", "leaves post_transform out", has_attribute("post_transform")),
    Defect(REFERENCE, "ai.onnx.ml.OneHotEncoder", "compares floats as they are with integers", dtype(0, "float")),
    Defect(
        REFERENCE, "Attention", "rounds the softmax to the narrower softmax_precision", attribute("softmax_precision", 10, 16)
    ),
    Defect(REFERENCE, "ai.onnx.ml.LabelEncoder", "finds no NaN among the keys", has_attribute("keys_floats")),
    Defect(REFERENCE, "Resize Upsample", "drops the imaginary part", dtype(0, "complex")),
    Defect(
        REFERENCE, "Resize Upsample", "rounds the scale before it divides by it, which decides ties of the nearest pixel",
        attribute("mode", "nearest", default="nearest"),
    ),
    Defect(REFERENCE, "RoiAlign", "interpolates maxima in another way", attribute("mode", "max")),
    Defect(REFERENCE, "RoiAlign", "has the coordinates of version 16 before it", lambda site, mismatch: site.opset < 16),
    Defect(
        REFERENCE, "Attention", "returns the products behind the softcap for qk_matmul_output_mode 0",
        both(_is_qk_output, has_attribute("softcap")),
    ),
    Defect(
        REFERENCE, "GridSample", "clips coordinates where it should clip the pixels that cubic interpolation reads",
        attribute("mode", "cubic", "bicubic"),
    ),
    Defect(REFERENCE, "GridSample Trilu Pad CenterCropPad", "gives the number 0 in place of an empty text", _is_text),
    Defect(
        REFERENCE, "StringNormalizer", "compares stop words by case although is_case_sensitive is 0",
        attribute("is_case_sensitive", 0, default=0),
    ),
    Defect(REFERENCE, "NonZero", "has no row for a scalar, as ONNX says; onnxruntime and ort-lite have one", _is_scalar),
    Defect(REFERENCE, "Slice", "clips negative starts of negative steps as NumPy does", _steps_back),
    Defect(REFERENCE, "Unique", "flattens along an axis that is counted from behind", _counts_from_behind),
    Defect(
        REFERENCE, "ai.onnx.ml.TreeEnsemble", "leaves the neutral element where no leaf has a target",
        attribute("aggregate_function", 2, 3),
    ),
)  # fmt: skip
