"""Defects of onnxruntime 1.32, with optimizations off."""

import numpy as np

from tests.generated.comparison import Mismatch
from tests.generated.known import (
    ONNXRUNTIME,
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
    has_input,
    has_nan,
    has_single_size,
    is_unsigned,
    like_float32,
    nearly,
    nearly_float32,
    seeks_nan,
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


def _expects_bound(site: Site, mismatch: Mismatch) -> bool:
    """The oracle has the smallest or the greatest integer."""
    if mismatch.where is None or mismatch.expected.dtype.kind not in "iu":
        return False
    bounds = np.iinfo(mismatch.expected.dtype)
    return bool(np.all(np.isin(mismatch.expected[mismatch.where], (bounds.min, bounds.max))))


def _expects_empty_text(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.where is not None and mismatch.got.dtype == object and bool(np.all(mismatch.expected[mismatch.where] == ""))


def _is_opposite(site: Site, mismatch: Mismatch) -> bool:
    """All elements differ."""
    return mismatch.where is not None and bool(np.all(mismatch.where))


def _has_empty_text(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return isinstance(value, np.ndarray) and bool(np.any(value == ""))


def _is_empty(site: Site, mismatch: Mismatch) -> bool:
    """The first operand has no elements."""
    value = site.operand(0)
    return isinstance(value, np.ndarray) and value.size == 0


def _has_no_rows(site: Site, mismatch: Mismatch) -> bool:
    """Scan outputs of a node without an iteration, of other shapes."""
    arrays = [one for one in (mismatch.got, mismatch.expected) if isinstance(one, np.ndarray)]
    return mismatch.where is None and len(arrays) == 2 and arrays[0].dtype == arrays[1].dtype and not any(map(np.size, arrays))


def _has_bias_of_beams(site: Site, mismatch: Mismatch) -> bool:
    """Each sequence of a search has a bias of its own."""
    bias = site.operand(4)
    return site.operand(9) is not None and isinstance(bias, np.ndarray) and bias.shape[0] > 1


def _is_padding(site: Site, mismatch: Mismatch) -> bool:
    """Rows behind the last key of a prompt alone differ, and there is a window. NaN of other rows is another defect."""
    lengths = site.operand(5)
    if mismatch.where is None or not isinstance(lengths, np.ndarray) or site.attribute("local_window_size", -1) < 1:
        return False
    rows = np.moveaxis(mismatch.where & ~np.isnan(mismatch.expected.astype(np.float32)), -2, -1)
    return all(not np.any(rows[b, ..., : length + 1]) for b, length in enumerate(lengths.ravel()))


def _is_behind_the_end(site: Site, mismatch: Mismatch) -> bool:
    """Tokens behind the one that ends a sequence alone differ, or are none."""
    if mismatch.path != (0,) or mismatch.where is None:
        return False
    ends = mismatch.got == site.attribute("eos_token_id", -1)
    garbage = mismatch.expected[mismatch.where]  # of a sequence that ended otherwise
    return bool(np.all((np.cumsum(ends, axis=-1) - ends)[mismatch.where]) or np.all((garbage < 0) | (garbage > 1000)))


def _ends_far_behind(site: Site, mismatch: Mismatch) -> bool:
    """The end of a backward slice is the largest integer of 32 or of 64 bits."""
    return any(end >= 2**31 - 1 for _, end, _ in backward_slices(site))


def _resizes_three_axes(site: Site, mismatch: Mismatch) -> bool:
    value, scales = site.operand(0), site.operand(2)
    if mismatch.where is None or not isinstance(value, np.ndarray) or value.ndim != mismatch.where.ndim:
        return False
    if isinstance(scales, np.ndarray) and scales.size:
        return bool(np.count_nonzero(scales != 1) > 2)
    return bool(np.count_nonzero(np.array(value.shape) != mismatch.where.shape) > 2)


def _has_large_integers(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return isinstance(value, np.ndarray) and value.dtype == np.int32 and bool(np.any(np.abs(value.astype(np.float64)) > 2**24))


def _overflows_in_float64(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and bool(np.any(value > 709))


def _has_three_axes(site: Site, mismatch: Mismatch) -> bool:
    image = site.operand(1)
    return isinstance(image, np.ndarray) and image.size == 3


def _has_many_elements(site: Site, mismatch: Mismatch) -> bool:
    value = site.operand(0)
    return isinstance(value, np.ndarray) and value.size > 100_000


def _has_nan_scores(site: Site, mismatch: Mismatch) -> bool:
    scores = site.operand(1)
    return isinstance(scores, np.ndarray) and bool(np.any(np.isnan(scores)))


def _has_no_texts(site: Site, mismatch: Mismatch) -> bool:
    texts = site.operand(0)
    return isinstance(texts, np.ndarray) and not texts.size


def _has_matrices(site: Site, mismatch: Mismatch) -> bool:
    """The right operand has a rank of 3 or more."""
    right = site.operand(1)
    return isinstance(right, np.ndarray) and right.ndim > 2


def _is_not_finite(site: Site, mismatch: Mismatch) -> bool:
    """The first operand holds NaN or infinities."""
    value = site.operand(0)
    return isinstance(value, np.ndarray) and not np.all(np.isfinite(value))


def _has_large_sums(site: Site, mismatch: Mismatch) -> bool:
    """The elements of an operand may add up to more than its type holds, or to more digits than float64 has."""
    operands = [site.operand(k) for k in range(len(site.node.input))]
    integers = [one for one in operands if isinstance(one, np.ndarray) and one.dtype in (np.int32, np.int64)]
    return any(np.abs(one.astype(np.float64)).sum() > (2**31 - 1 if one.dtype == np.int32 else 2**53) for one in integers)


def _lacks_alpha(site: Site, mismatch: Mismatch) -> bool:
    """An activation has the default alpha, which is 1. Alphas belong to activations that have one, in order."""
    names = [name.decode().lower() for name in site.attribute("activations", ())]
    able = [name for name in names if name in ("leakyrelu", "elu", "hardsigmoid", *_OF_ALPHA_1)]
    return any(name in _OF_ALPHA_1 for name in able[len(site.attribute("activation_alpha", ())) :])


def _overflows_in_softplus(site: Site, mismatch: Mismatch) -> bool:
    """An activation is Softplus, and the oracle has infinities or NaN where ort-lite differs."""
    if mismatch.where is None or b"softplus" not in [name.lower() for name in site.attribute("activations", ())]:
        return False
    return not np.any(np.isfinite(mismatch.expected[mismatch.where].astype(np.float32)))


_OF_ALPHA_1 = ("affine", "scaledtanh", "thresholdedrelu")
_same = attribute("auto_pad", "SAME_UPPER", "SAME_LOWER")


def _defect(operators: str, reason: str, applies: Applies = always) -> Defect:
    return Defect(ONNXRUNTIME, operators, reason, applies)


ONNXRUNTIME_DEFECTS: tuple[Defect, ...] = (
    _defect(
        "Resize Upsample",
        "computes coordinates of linear and cubic interpolation in float32: weights are 1e-4 off, integers one",
        both(attribute("mode", "linear", "cubic", default="nearest"), either(nearly(2e-3), within(1))),
    ),
    _defect(
        "Resize",
        "ignores the region, and extrapolation_value, of tf_crop_and_resize",
        attribute("coordinate_transformation_mode", "tf_crop_and_resize"),
    ),
    _defect(
        "Resize", "leaves axes that are counted from behind out of keep_aspect_ratio_policy", both(_has_negative_axes, form)
    ),
    _defect("Resize", "smooths int8 as uint8, which loses negative numbers", both(attribute("antialias", 1), dtype(0, "int8"))),
    _defect("Resize", "smooths no third axis", both(attribute("antialias", 1), _resizes_three_axes)),
    _defect("Resize Upsample", "interpolates int32 in float32, which has fewer digits", _has_large_integers),
    _defect("Resize Upsample", "multiplies infinite pixels by a weight of 0", both(special, expects_nan)),
    _defect("Bernoulli", "draws 1 with probability 1 - p", _is_opposite),
    _defect(
        "ReduceLogSumExp",
        "computes exp(x - max) of integers in integers, so that only the largest ones count",
        dtype(0, "int", "uint"),
    ),
    _defect("ReduceSumSquare", "saturates squares of integers", _expects_bound),
    _defect("ReduceProd", "saturates products of integers", _expects_bound),
    _defect("InstanceNormalization", "computes x * s - mean * s, which cancels, where the variance is small", nearly(1e-3)),
    _defect("com.microsoft.FastGelu", "has constants of six digits where it has no kernel, in float64", dtype(0, "float64")),
    _defect(
        "com.microsoft.MultiHeadAttention",
        "does not mask the keys behind the last query where there are more keys",
        attribute("unidirectional", 1),
    ),
    _defect(
        "com.microsoft.DecoderMaskedMultiHeadAttention",
        "gives a beam the attention bias of the sequence that has the number of its group",
        _has_bias_of_beams,
    ),
    _defect(
        "com.microsoft.GroupQueryAttention",
        "makes NaN with a softcap where a mask of -inf leaves no key, and 0 without",
        both(has_attribute("softcap"), special, expects_nan),
    ),
    _defect("com.microsoft.GroupQueryAttention", "moves the window of rows of padding to the last key", _is_padding),
    _defect("com.microsoft.MatMulNBits", "reads scales and zero points by another group than g_idx says", has_input(4)),
    _defect(
        "com.microsoft.MatMulNBits",
        "ignores scales that are no constants where accuracy_level is 4, and quantizes A to 8 bits for other blocks",
        attribute("accuracy_level", 4),
    ),
    _defect(
        "com.microsoft.GreedySearch com.microsoft.Sampling com.microsoft.BeamSearch",
        "leaves behind the end of a sequence what memory held",
        _is_behind_the_end,
    ),
    _defect(
        "com.microsoft.MatMulIntegerToFloat",
        "multiplies the bias by the right scale where there are several right matrices",
        both(has_input(6), _has_matrices),
    ),
    _defect(
        "com.microsoft.DynamicQuantizeMatMul",
        "multiplies the bias by the right scale where there are several right matrices",
        both(has_input(4), _has_matrices),
    ),
    _defect(
        "com.microsoft.DecoderMaskedMultiHeadAttention",
        "adds -10000 to scores that a mask excludes, which loses their digits where it excludes all",
        both(has_input(3), nearly(2e-3)),
    ),
    _defect("ai.onnx.ml.SVMClassifier", "gives numbers where kernels are inf - inf", both(special, gives_nan)),
    _defect("com.microsoft.BiasGelu com.microsoft.FastGelu", "has an erf and a tanh that are up to 1e-7 off", below(1e-6)),
    _defect("Softplus", "computes exp(x) in float64, which overflows", _overflows_in_float64),
    _defect("Conv", "multiplies padding by infinite weights, where ort-lite leaves their taps out", both(special, expects_nan)),
    _defect("GroupNormalization", "computes float64 in float32, as its attribute stash_type says", nearly_float32),
    _defect("Col2Im", "takes other blocks of three axes with dilations", both(has_attribute("dilations"), _has_three_axes)),
    _defect("com.microsoft.QMoE com.microsoft.MoE", "sorts scores that are NaN by chance", _has_nan_scores),
    _defect("com.microsoft.Tokenizer", "gives no axis of tokens where there are no texts", both(form, _has_no_texts)),
    _defect("com.microsoft.GroupQueryAttention", "gives 0 for scores that are NaN", both(special, gives_nan)),
    _defect("ReduceSumSquare", "adds many numbers in float32, one by one", both(_has_many_elements, nearly(1e-3))),
    _defect("MatMulInteger QLinearMatMul", "leaves what memory held where there are no products to add", _is_empty),
    _defect("com.microsoft.DynamicQuantizeMatMul", "finds another scale for what is not finite", special),
    _defect("HardSwish", "multiplies by 32 bits of 1/6 in float64", like_float32),
    _defect("com.microsoft.CDist", "expands the square of a difference, which makes NaN of infinities", special),
    _defect(
        "ai.onnx.ml.LabelEncoder",
        "finds no NaN among the keys in versions 2 and 3",
        seeks_nan,
    ),
    _defect("ai.onnx.ml.Normalizer", "squares integers in their own type", dtype(0, "int")),
    _defect(
        "ai.onnx.ml.TreeEnsemble", "takes LOGISTIC for SOFTMAX, and SOFTMAX for LOGISTIC", attribute("post_transform", 1, 2)
    ),
    _defect("MeanVarianceNormalization", "divides 0 by 0 where all elements are equal", expects_nan),
    _defect(
        "Attention",
        "counts keys from the end for causality where there is a past",
        both(attribute("is_causal", 1), has_input(4)),
    ),
    _defect("Attention", "multiplies masked values, which may be NaN, by 0", special),
    _defect("Attention", "returns the lowest number for scores that causality masks", _expects_lowest),
    _defect("Attention", "does not know left_window_size and right_window_size", _has_windows),
    _defect("Attention", "loses -inf, by which it masks, in an integer mask", dtype(3, "int", "uint")),
    _defect(
        "Attention",
        "rounds the softmax to the narrower softmax_precision; ort-lite does not",
        attribute("softmax_precision", 10, 16),
    ),
    _defect(
        "Swish Sigmoid com.microsoft.QuickGelu com.microsoft.AttnLSTM", "has a sigmoid that is up to 1e-7 off", below(2e-6)
    ),
    _defect("DFT", "has another inverse of one side", both(attribute("inverse", 1), attribute("onesided", 1))),
    _defect("Loop Scan", "gives 0 for sizes of rows without an iteration that only the run tells", _has_no_rows),
    _defect("Gather", "gives empty texts where an index is repeated", _expects_empty_text),
    _defect("Slice", "takes an end of the largest integer for the beginning where steps are negative", _ends_far_behind),
    _defect("ai.onnx.ml.SVMRegressor", "does not transform scores for PROBIT", attribute("post_transform", "PROBIT")),
    _defect(
        "AffineGrid", "places the only pixel of an axis at 1 for align_corners; ort-lite at 0, as PyTorch", has_single_size
    ),
    _defect(
        "Cast CastLike",
        "casts NaN and what int64 does not hold to unsigned integers as the vectors of the CPU do",
        both(exceeds_int64, is_unsigned),
    ),
    _defect("Clip", "clips infinities to the largest number where there is no bound", _expects_largest),
    _defect("Col2Im", "puts blocks that lie in wide padding into the image", has_attribute("pads")),
    _defect("MaxPool GlobalMaxPool", "leaves NaN out", gives_nan),
    _defect("ReduceMax ReduceMin", "leaves NaN out behind the first element", gives_nan),
    _defect("ArgMax ArgMin", "leaves NaN out behind the first element", has_nan),
    _defect("Hardmax", "leaves NaN out behind the first element", has_nan),
    _defect("Unique", "takes NaN for equal to its neighbours", has_nan),
    _defect("ScatterElements ScatterND", "loses NaN of the data in maxima and minima", gives_nan),
    _defect(
        "ConvTranspose com.microsoft.ConvTransposeWithDynamicPads",
        "skips taps beyond the input, which ort-lite multiplies by 0",
        both(special, gives_nan),
    ),
    _defect(
        "GridSample com.microsoft.GridSample",
        "skips pixels beyond the border, which ort-lite multiplies by 0",
        both(special, gives_nan),
    ),
    _defect("LayerNormalization", "gives statistics of rank 0 where it has no kernel, by its function", form),
    _defect("LRN", "slides its sum of squares, which is NaN behind an infinity", expects_nan),
    _defect(
        "GRU LSTM RNN", "takes 0 for the default alpha of ThresholdedRelu, Affine and ScaledTanh, which is 1", _lacks_alpha
    ),
    _defect("GRU LSTM RNN", "computes Softplus by exp(x), which overflows beyond 88", _overflows_in_softplus),
    _defect(
        "DynamicQuantizeLinear",
        "leaves NaN out of the extremes, and has another zero point for infinities",
        _is_not_finite,
    ),
    _defect("Einsum ReduceSum ReduceL1", "adds integers in float64, and saturates sums", _has_large_sums),
    _defect(
        "com.microsoft.QMoE",
        "quantizes activations to 8 bits for constant weights in blocks",
        both(has_attribute("block_size"), nearly(3e-2)),
    ),
    _defect(
        "GRU LSTM RNN com.microsoft.DynamicQuantizeLSTM com.microsoft.AttnLSTM",
        "does not multiply infinite states by 0",
        special,
    ),
    _defect("Sign", "gives 0 for NaN of float16", gives_nan),
    _defect("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "gives 0 for the mean of nothing", gives_nan),
    _defect("BlackmanWindow HammingWindow HannWindow", "computes float64 in float32", either(like_float32, below(1e-6))),
    _defect(
        "DFT GroupNormalization LayerNormalization Shrink Gelu ai.onnx.ml.TreeEnsemble",
        "computes float64 in float32",
        like_float32,
    ),
    _defect("Shrink", "computes integers in float32", exceeds(24)),
    _defect(
        "GroupNormalization InstanceNormalization LayerNormalization com.microsoft.SkipLayerNormalization BatchNormalization"
        " STFT DFT DeformConv",
        "makes NaN, or garbage, of infinities and huge numbers",
        special,
    ),
    _defect("LayerNormalization", "subtracts the squared mean from the mean of squares, which cancels", nearly(1e-3)),
    _defect("ai.onnx.ml.SVMClassifier", "computes float64 in float32", both(dtype(0, "double", "float64"), nearly(1e-3))),
    _defect(
        "BatchNormalization",
        "computes x * s - mean * s, which cancels, where the variance is small",
        both(attribute("training_mode", 1), nearly(1e-3)),
    ),
    _defect("MaxPool", "gives the lowest number for a window of padding alone", _expects_lowest),
    _defect("MaxPool AveragePool LpPool Conv", "pads negatively, or rounds towards 0, in automatic padding", _same),
    _defect("MaxUnpool", "reads indices in the shape of output_shape", has_input(2)),
    _defect("SplitToSequence", "drops an axis for keepdims 0 although there is a split", both(attribute("keepdims", 0), form)),
    _defect("StringSplit", "finds no substring in an empty text with a delimiter", _has_empty_text),
)
