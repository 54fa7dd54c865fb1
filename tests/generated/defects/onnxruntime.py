"""Defects of onnxruntime 1.32, with optimizations off."""

import numpy as np

from tests.generated.comparison import Mismatch
from tests.generated.known import (
    ONNXRUNTIME,
    Applies,
    Defect,
    always,
    attribute,
    below,
    both,
    dtype,
    either,
    expects_nan,
    form,
    gives_nan,
    has_attribute,
    has_input,
    like_float32,
    nearly,
    special,
    within,
)
from tests.generated.walk import Site


def _has_windows(site: Site, mismatch: Mismatch) -> bool:
    return any(int(site.attribute(name, -1)) >= 0 for name in ("left_window_size", "right_window_size"))


def _has_negative_axes(site: Site, mismatch: Mismatch) -> bool:
    return any(axis < 0 for axis in site.attribute("axes", ()))


def _expects_lowest(site: Site, mismatch: Mismatch) -> bool:
    if mismatch.where is None or mismatch.expected.dtype.kind != "f":
        return False
    return bool(np.all(mismatch.expected[mismatch.where] == np.finfo(mismatch.expected.dtype).min))


def _expects_largest(site: Site, mismatch: Mismatch) -> bool:
    if mismatch.where is None or mismatch.got.dtype.kind not in "fV":
        return False
    return bool(np.all(np.isinf(mismatch.got[mismatch.where])))


def _has_empty_text(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return isinstance(value, np.ndarray) and bool(np.any(value == ""))


_same = has_attribute("auto_pad")


def _defect(operators: str, reason: str, applies: Applies = always) -> Defect:
    return Defect(ONNXRUNTIME, operators, reason, applies)


ONNXRUNTIME_DEFECTS: tuple[Defect, ...] = (
    _defect(
        "Resize Upsample", "computes coordinates of linear and cubic interpolation in float32: weights are 1e-4 off",
        attribute("mode", "linear", "cubic", default="nearest"),
    ),
    _defect(
        "Resize", "ignores the region, and extrapolation_value, of tf_crop_and_resize",
        attribute("coordinate_transformation_mode", "tf_crop_and_resize"),
    ),
    _defect("Resize", "truncates interpolated integers", both(dtype(0, "int", "uint"), within(1))),
    _defect("Resize", "leaves axes that are counted from behind out of keep_aspect_ratio_policy", both(_has_negative_axes, form)),
    _defect("Bernoulli", "draws 1 with probability 1 - p"),
    _defect(
        "ReduceLogSumExp", "computes exp(x - max) of integers in integers, so that only the largest ones count",
        dtype(0, "int", "uint"),
    ),
    _defect("ReduceSum", "saturates sums of integers", dtype(0, "int32", "int64")),
    _defect("com.microsoft.FastGelu", "has constants of six digits where it has no kernel, in float64", dtype(0, "float64")),
    _defect("com.microsoft.QLinearSoftmax", "truncates where it should round", within(1)),
    _defect(
        "com.microsoft.MultiHeadAttention", "does not mask the keys behind the last query where there are more keys",
        attribute("unidirectional", 1),
    ),
    _defect("com.microsoft.MatMulNBits", "reads scales and zero points by another group than g_idx says", has_input(4)),
    _defect("com.microsoft.MatMulNBits", "quantizes A to 8 bits where accuracy_level is 4", attribute("accuracy_level", 4)),
    _defect(
        "com.microsoft.GreedySearch com.microsoft.Sampling com.microsoft.BeamSearch",
        "leaves behind the end of a sequence what memory held",
    ),
    _defect("com.microsoft.CDist", "expands the square of a difference, which makes NaN of infinities", special),
    _defect("ai.onnx.ml.LabelEncoder", "finds no NaN among the keys in versions 2 and 3", has_attribute("keys_floats")),
    _defect("MeanVarianceNormalization", "divides 0 by 0 where all elements are equal", expects_nan),
    _defect("Attention", "does not know left_window_size and right_window_size", _has_windows),
    _defect("Attention", "loses causality by -inf in an integer mask", both(attribute("is_causal", 1), has_input(3))),
    _defect("Attention", "rounds the softmax to float16", attribute("softmax_precision", 10)),
    _defect("Gelu", "computes float64 in float32", like_float32),
    _defect("Clip", "clips infinities to the largest number where there is no bound", _expects_largest),
    _defect("Col2Im", "puts blocks that lie in wide padding into the image", has_attribute("pads")),
    _defect("MaxPool", "leaves NaN out", gives_nan),
    _defect("ConvTranspose", "skips taps beyond the input, which ort-lite multiplies by 0", both(special, gives_nan)),
    _defect("LRN", "overflows in squares of float16", expects_nan),
    _defect("GRU LSTM RNN", "does not multiply infinite states by 0", special),
    _defect("Sign", "gives 0 for NaN of float16", gives_nan),
    _defect("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "gives 0 for the mean of nothing", gives_nan),
    _defect("BlackmanWindow HammingWindow HannWindow", "computes float64 in float32", either(like_float32, below(1e-6))),
    _defect(
        "DFT GroupNormalization LayerNormalization ai.onnx.ml.TreeEnsemble", "computes float64 in float32", like_float32
    ),
    _defect("GroupNormalization STFT DFT DeformConv", "makes NaN, or garbage, of infinities and huge numbers", special),
    _defect(
        "BatchNormalization", "computes x * s - mean * s, which cancels, where the variance is small",
        both(attribute("training_mode", 1), nearly(1e-3)),
    ),
    _defect("LayerNormalization", "gives statistics of rank 0 for axis 0", form),
    _defect("MaxPool", "gives the lowest number for a window of padding alone", _expects_lowest),
    _defect("MaxPool AveragePool LpPool", "pads negatively, or rounds towards 0, in automatic padding", _same),
    _defect("MaxUnpool", "reads indices in the shape of output_shape", has_input(2)),
    _defect("SplitToSequence", "drops an axis for keepdims 0 although there is a split", both(attribute("keepdims", 0), form)),
    _defect("StringSplit", "finds no substring in an empty text with a delimiter", _has_empty_text),
)  # fmt: skip
