"""Where onnx.reference is wrong about mutants: differences to it that are none of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from tests.fuzz.drafts import Draft

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


class Known(NamedTuple):
    """A difference between onnx.reference and what is right: of which operators, of which of their mutants, and why."""

    operators: str
    applies: Callable[[Draft], bool]
    reason: str


def known_difference(draft: Draft) -> str:
    """Why onnx.reference is not to be believed about a mutant; nothing where it is."""
    found = (one for one in KNOWN if draft.key[1] in one.operators.split())
    return next((one.reason for one in found if one.applies(draft)), "")


def _has_infinite_attribute(draft: Draft) -> bool:
    return any(isinstance(value, float) and not math.isfinite(value) for value in draft.attributes.values())


def _holds_special_floats(draft: Draft) -> bool:
    return any(line.startswith("special_floats") for line in draft.story)


def _has_no_positive_scale(draft: Draft) -> bool:
    scale = draft.attributes.get("scale")
    return isinstance(scale, float) and scale <= 0


def _leaves_the_integers(draft: Draft) -> bool:
    """Whether numbers, some of them divided by a scale, may come out beyond 32 bits."""
    numbers = [array.astype(np.float64) for _, array in draft.arrays() if array.dtype.kind in "fViu"]
    return any(not np.all(abs(array) < 2**24) for array in numbers)


def _axes_out_of_order(draft: Draft) -> bool:
    given = [array.tolist() for (k, _), array in draft.arrays() if k == 1 and array.ndim == 1]
    axes = draft.attributes.get("axes", given[0] if given else [])
    return list(axes) != sorted(axes) or (len(axes) > 1 and min(axes) < 0)


KNOWN = (
    Known(
        "Celu Elu HardSigmoid LeakyRelu PRelu Selu Shrink ThresholdedRelu",
        _has_infinite_attribute,
        "computes both sides of a condition and multiplies by its truth: infinity and NaN spoil the side that does not apply",
    ),
    Known(
        "Cast CastLike QuantizeLinear QLinearConv QLinearMatMul DynamicQuantizeLinear Shrink",
        _leaves_the_integers,
        "casts floats that no integer can hold as the C compiler of NumPy does; here they have a defined result",
    ),
    Known(
        "Ceil Floor Round Sign Equal Cast Hardmax ArgMax ArgMin TopK Unique",
        lambda draft: draft.before in ("Tanh", "Sigmoid"),
        "rounds the operator before in another way, and a step is all it takes to come out elsewhere",
    ),
    Known(
        "Cast",
        lambda draft: draft.attributes.get("to") == TensorProto.STRING,
        "writes floats as Python does; here, as in onnxruntime, they have no more digits than they need: 3 for 3.0",
    ),
    Known("CastLike", lambda draft: any(array.dtype == object for _, array in draft.arrays()), "as Cast"),
    Known(
        "GridSample",
        lambda draft: any(array.dtype.kind in "iu" for _, array in draft.arrays()),
        "interpolates integers in float64 and cuts the fraction off: what float32 makes of 0.99999 is a step away",
    ),
    Known("QuantizeLinear", _holds_special_floats, "as above: dividing by a scale of 0"),
    Known(
        "QuantizeLinear",
        lambda draft: draft.attributes.get("precision", 1) not in FLOATS,
        "computes in integers where `precision` names some; here in float32",
    ),
    Known(
        "Attention",
        lambda draft: draft.attributes.get("softmax_precision", 1) not in FLOATS,
        "computes the softmax in integers where `softmax_precision` names some; here in float32",
    ),
    Known("Attention", _has_infinite_attribute, "subtracts infinity from infinity in its softmax"),
    Known("Attention", _has_no_positive_scale, "takes the square root of a negative scale, and a scale of 0 for none"),
    Known(
        "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss",
        _holds_special_floats,
        "takes the logarithm of what softmax has rounded to 0",
    ),
    Known(
        "Dropout",
        lambda draft: draft.key[2] < 10 and len(draft.outputs) > 1,
        "makes a mask of bools in versions whose mask has the type of the data",
    ),
    Known("LinearAttention", lambda draft: abs(draft.attributes.get("scale", 1.0)) > 1e30, "multiplies by the scale later"),
    Known("LinearAttention", _holds_special_floats, "sums in another order: infinity comes earlier or later"),
    Known("CausalConvWithState", _holds_special_floats, "multiplies the padding too, and NaN by 0 is NaN"),
    Known("AveragePool", _holds_special_floats, "leaves NaN out of the mean"),
    Known(
        "Det", lambda draft: any(array.dtype.name == "bfloat16" for _, array in draft.arrays()), "returns bfloat16 as float64"
    ),
    Known(
        "TfIdfVectorizer",
        lambda draft: {"pool_int64s", "pool_strings"} <= draft.attributes.keys(),
        "reads the pool of integers where both are given, whatever the input holds",
    ),
    Known(
        "QLinearMatMul",
        lambda draft: any(array.ndim > 4 for _, array in draft.arrays()),
        "gives the result the rank of a scale of one element",
    ),
    Known(
        "DequantizeLinear",
        lambda draft: any("float8" in array.dtype.name for _, array in draft.arrays()),
        "leaves a zero point of float8 out",
    ),
    Known(
        "StringNormalizer",
        lambda draft: not draft.attributes.get("is_case_sensitive", 0),
        "compares stop words by case although is_case_sensitive is 0, and leaves repeated texts out",
    ),
    Known("Unsqueeze", _axes_out_of_order, "inserts axes one after the other as they are listed; their order does not matter"),
    Known(
        "Shape",
        lambda draft: draft.attributes.get("end", 0) < 0,
        "counts an end that is before the first axis from the last again",
    ),
    Known(
        "CastLike",
        lambda draft: any("e8m0" in array.dtype.name for _, array in draft.arrays()),
        "makes 0 the smallest float8_e8m0",
    ),
    Known("Mod", lambda draft: draft.attributes.get("fmod", 0) not in (0, 1), "takes an fmod that is neither 0 nor 1 for 0"),
)
