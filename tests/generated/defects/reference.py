"""Defects of onnx.reference in onnx 1.23, as far as no port takes its place."""

import numpy as np

from ort_lite.dtypes import from_onnx
from tests.generated.comparison import EPSILON, Mismatch
from tests.generated.known import (
    REFERENCE,
    Applies,
    Defect,
    always,
    attribute,
    backward_slices,
    below,
    both,
    dtype,
    either,
    exceeds,
    exceeds_int64,
    expects_nan,
    form,
    gives_nan,
    has_attribute,
    has_single_size,
    is_integer,
    is_rare,
    is_unsigned,
    like_float32,
    nearly,
    nearly_float32,
    seeks_nan,
    special,
    within,
)
from tests.generated.walk import Site


def _is_text(site: Site, mismatch: Mismatch) -> bool:
    return isinstance(mismatch.got, np.ndarray) and mismatch.got.dtype == object


def _divides_by_zero(site: Site, mismatch: Mismatch) -> bool:
    scale = site.operand(1)
    return isinstance(scale, np.ndarray) and not np.all(scale)


def _has_equal_keys(site: Site, mismatch: Mismatch) -> bool:
    keys = [site.attribute(f"keys_{kind}") for kind in ("int64s", "strings", "floats", "tensor")]
    return any(len(set(np.ravel(one).tolist())) < np.size(one) for one in keys if one is not None)


def _has_nan_on_one_side(site: Site, mismatch: Mismatch) -> bool:
    """Each element that differs is NaN in one of the two results."""
    if mismatch.where is None:
        return False
    got, expected = (np.isnan(one[mismatch.where]) for one in (mismatch.got, mismatch.expected))
    return bool(np.all(got | expected))


def _has_same_elements(site: Site, mismatch: Mismatch) -> bool:
    """The shape differs, or the type, but no element."""
    if mismatch.where is not None or not isinstance(mismatch.expected, np.ndarray):
        return False
    got, expected = ([one or 0 for one in np.ravel(array).tolist()] for array in (mismatch.got, mismatch.expected))
    return got == expected or got == [0 if one == "0" else one for one in expected]  # 0 for an empty text


def _is_dilated(site: Site, mismatch: Mismatch) -> bool:
    return any(one != 1 for one in site.attribute("dilations", ()))


def _expects_infinity(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.where is not None and bool(np.all(np.isinf(mismatch.expected[mismatch.where])))


def _has_single_pixel(site: Site, mismatch: Mismatch) -> bool:
    """The result has one pixel along an axis."""
    return mismatch.where is not None and 1 in mismatch.where.shape


def _keeps_sizes(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return mismatch.where is not None and isinstance(value, np.ndarray) and value.shape == mismatch.where.shape


def _is_old(site: Site, mismatch: Mismatch) -> bool:
    return site.opset < 16


def _masks_all_queries_alike(site: Site, mismatch: Mismatch) -> bool:
    """The mask has one row for all queries."""
    queries, mask = site.operand(0), site.operand(3)
    if not isinstance(queries, np.ndarray) or not isinstance(mask, np.ndarray):
        return False
    return queries.shape[-2] > 1 and (mask.ndim < 2 or mask.shape[-2] == 1)


def _is_qk_output(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.path[0] == len([name for name in site.node.output if name]) - 1 and len(site.node.output) > 3


def _has_scales_of_channels(site: Site, mismatch: Mismatch) -> bool:
    scale = site.operand(4)
    return isinstance(scale, np.ndarray) and scale.size > 1


def _has_narrower_softmax(site: Site, mismatch: Mismatch) -> bool:
    """Differences are no larger than those of exponentials in that type."""
    code = site.attribute("softmax_precision")
    if code is None or site.dtype(0) not in EPSILON:
        return False
    unit = EPSILON[from_onnx(code)]
    return unit > EPSILON[site.dtype(0)] and nearly(16 * unit)(site, mismatch)


def _starts_in_front(site: Site, mismatch: Mismatch) -> bool:
    """A backward slice starts in front of the first element."""
    return any(start < -size for start, _, size in backward_slices(site))


def _defect(operators: str, reason: str, applies: Applies = always) -> Defect:
    return Defect(REFERENCE, operators, reason, applies)


_whole_sizes = either(
    attribute("coordinate_transformation_mode", "align_corners", "tf_crop_and_resize", "half_pixel_symmetric"),
    attribute("antialias", 1),
    both(attribute("coordinate_transformation_mode", "pytorch_half_pixel"), _has_single_pixel),
)

REFERENCE_DEFECTS: tuple[Defect, ...] = (
    # --- ai.onnx
    _defect(
        "Erf Gelu HardSwish MeanVarianceNormalization AffineGrid DeformConv GridSample GroupNormalization LayerNormalization"
        " RMSNormalization Resize ImageDecoder MelWeightMatrix STFT DFT Celu",
        "computes float64 in float32, or in float64 what has float32 operands",
        like_float32,
    ),
    _defect(
        "ai.onnx.preview.FlexAttention ai.onnx.ml.SVMRegressor ai.onnx.ml.SVMClassifier",
        "multiplies in float64 what overflows in float32",
        both(special, gives_nan),
    ),
    _defect("ai.onnx.preview.FlexAttention", "rounds the root of the scale to float32 in float64", like_float32),
    _defect("GroupNormalization", "makes NaN of huge numbers in float32", special),
    _defect(
        "LayerNormalization RMSNormalization InstanceNormalization MeanVarianceNormalization LpNormalization ReduceL2 LpPool",
        "squares in float64 what overflows in float32",
        special,
    ),
    _defect("ai.onnx.preview.training.Adam", "squares gradients in float64 that overflow in float32", special),
    _defect("ai.onnx.preview.training.Adagrad", "squares gradients in float64 that overflow in float32", special),
    _defect(
        "DFT STFT",
        "multiplies infinities by other zeros among the parts of roots of unity",
        both(special, _has_nan_on_one_side),
    ),
    _defect("Gemm", "multiplies 64-bit integers by alpha in float64", dtype(0, "int64", "uint64")),
    _defect("NegativeLogLikelihoodLoss", "counts ignored labels in the mean if they are -1", attribute("ignore_index", -1)),
    _defect(
        "Gemm",
        "casts what leaves the range of integers from float64",
        both(dtype(0, "int32", "uint32"), has_attribute("alpha", "beta")),
    ),
    _defect("HannWindow", "computes sin(pi) ** 2 where 0 is due", below(1e-14)),
    _defect("Cast CastLike", "writes floats to text as Python does, 3.0 for 3", _is_text),
    _defect(
        "Cast CastLike",
        "casts NaN and what int64 does not hold to unsigned integers as the vectors of the CPU do",
        both(exceeds_int64, is_unsigned),
    ),
    _defect("QLinearMatMul", "casts float8 operands to integers", either(dtype(0, "float8"), dtype(3, "float8"))),
    _defect(
        "QLinearConv ConvInteger", "takes automatic padding and strides of some axes only", has_attribute("auto_pad", "strides")
    ),
    _defect("QLinearConv", "gives 4 axes where each channel has a scale", both(form, _has_scales_of_channels)),
    _defect("Conv", "multiplies the zeros between the elements of dilated kernels", both(special, _is_dilated)),
    _defect("Resize Upsample", "drops the imaginary part", dtype(0, "complex")),
    _defect(
        "Resize Upsample",
        "rounds the scale before it divides by it, which decides ties of the nearest pixel",
        attribute("mode", "nearest", default="nearest"),
    ),
    _defect("Resize", "multiplies infinite pixels by a weight of 0", both(special, expects_nan)),
    _defect("QuantizeLinear", "casts infinities to integers before it saturates", either(special, _divides_by_zero)),
    _defect(
        "Resize Upsample",
        "rounds weights, which decides between two integers where an interpolated value is halfway",
        both(attribute("mode", "linear", "cubic"), within(1), is_rare),
    ),
    _defect("Resize", "takes sizes before they are rounded", _whole_sizes),
    _defect("Resize", "interpolates where no size changes, which is a copy in onnxruntime and ort-lite", _keeps_sizes),
    _defect(
        "Resize",
        "places the only pixel of an axis at -0.5 for pytorch_half_pixel; it is at 0 by the standard",
        both(attribute("coordinate_transformation_mode", "pytorch_half_pixel"), attribute("mode", "cubic"), _has_single_pixel),
    ),
    _defect("RoiAlign", "interpolates maxima in another way", attribute("mode", "max")),
    _defect("RoiAlign", "has the coordinates of version 16 before it", _is_old),
    _defect(
        "Attention",
        "returns the products behind the softcap for qk_matmul_output_mode 0",
        both(_is_qk_output, has_attribute("softcap")),
    ),
    _defect(
        "Attention",
        "takes the one row of a mask for the only query, by which causality counts",
        both(attribute("is_causal", 1), _masks_all_queries_alike),
    ),
    _defect("Attention", "multiplies masked values, which may be NaN, by 0", special),
    _defect("Attention", "pads integer masks with 0 in place of -inf", dtype(3, "int", "uint")),
    _defect(
        "ai.onnx.preview.FlexAttention",
        "rounds the softmax to the narrower softmax_precision; ort-lite does not",
        _has_narrower_softmax,
    ),
    _defect(
        "GridSample",
        "clips coordinates where it should clip the pixels that cubic interpolation reads",
        attribute("mode", "cubic", "bicubic"),
    ),
    _defect("GridSample Trilu Pad CenterCropPad Col2Im", "gives the number 0 in place of an empty text", _is_text),
    _defect("Slice", "clips negative starts of negative steps as NumPy does", _starts_in_front),
    _defect("TfIdfVectorizer", "takes weights by the place of the result, not of the n-gram", has_attribute("weights")),
    _defect("Clip", "broadcasts bounds of one element", form),
    _defect("MaxPool", "gives the place of the first NaN", both(special, is_integer)),
    _defect("ScatterElements", "loses NaN of the updates in maxima and minima", gives_nan),
    _defect("ConvTranspose", "skips taps beyond the input, which ort-lite multiplies by 0", both(special, gives_nan)),
    _defect(
        "AffineGrid", "places the only pixel of an axis at -1 for align_corners; ort-lite at 0, as PyTorch", has_single_size
    ),
    _defect("SoftmaxCrossEntropyLoss", "takes the logarithm of what softmax has rounded to 0", _expects_infinity),
    _defect("ImageDecoder", "returns no axis of channels for a grey image", form),
    # --- com.microsoft
    _defect(
        "com.microsoft.MatMulNBits",
        "does not quantize A for accuracy_level 4, as ort-lite does",
        both(attribute("accuracy_level", 4), nearly(2e-2)),
    ),
    _defect(
        "com.microsoft.MoE com.microsoft.QMoE",
        "adds products in float64 that overflow in float32, to inf - inf or to inf",
        special,
    ),
    # --- ai.onnx.ml
    _defect("ai.onnx.ml.DictVectorizer", "gives a vector in place of a row", _has_same_elements),
    _defect("ai.onnx.ml.FeatureVectorizer", "takes each element of a vector as a row", form),
    _defect("ai.onnx.ml.OneHotEncoder", "compares floats as they are with integers", dtype(0, "float")),
    _defect("BatchNormalization", "subtracts the mean before it multiplies, which is no inf - inf", both(special, gives_nan)),
    _defect("Shrink", "computes integers in float64", exceeds(53)),
    _defect(
        "GlobalAveragePool AveragePool ReduceMean ReduceProd ReduceSum",
        "adds and multiplies in float64 what overflows in float32",
        special,
    ),
    _defect("Conv", "multiplies padding by infinite weights, where ort-lite leaves their taps out", both(special, expects_nan)),
    _defect("GroupNormalization", "computes float64 in float32, as its attribute stash_type says", nearly_float32),
    _defect(
        "ai.onnx.ml.SVMClassifier ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor",
        "keeps what 1 - v cancels in the logistic function of negative scores, as onnxruntime and ort-lite compute it",
        both(attribute("post_transform", "LOGISTIC"), below(1e-7)),
    ),
    _defect(
        "ai.onnx.ml.SVMClassifier",
        "rounds no probability to float32 before PROBIT",
        both(attribute("post_transform", "PROBIT"), nearly(1e-4)),
    ),
    _defect("ai.onnx.ml.LabelEncoder", "takes the last of equal keys", _has_equal_keys),
    _defect("ai.onnx.ml.LabelEncoder", "finds no NaN among the keys", seeks_nan),
    _defect(
        "ai.onnx.ml.Normalizer",
        "divides by the greatest number, not by the greatest magnitude",
        attribute("norm", "MAX", default="MAX"),
    ),
    _defect("ai.onnx.ml.TreeEnsemble", "leaves post_transform out", has_attribute("post_transform")),
    _defect(
        "ai.onnx.ml.TreeEnsemble",
        "leaves the neutral element where no leaf has a target",
        attribute("aggregate_function", 2, 3, "MIN", "MAX"),
    ),
)
