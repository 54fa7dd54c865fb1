"""Losses and the steps of optimisers; FlexAttention, whose scores a graph changes."""

from typing import Any

import numpy as np
import onnx.parser

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, Oracle, case
from tests.cpu.check import ramp, reference

SCORES = ramp((3, 5))
IMAGE = ramp((2, 4, 3, 2))
LABELS = np.array([1, 4, 0])
PLACES = np.arange(12).reshape(2, 3, 2) % 4
WEIGHTS = ramp((5,), low=0.5)


def losses(op_type: str, outputs: int = 1) -> list[Case]:
    given: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5, "outputs": outputs, "types": ()}
    return [
        case(op_type, SCORES, LABELS, **{**given, "types": None}),
        case(op_type, SCORES, LABELS.astype(np.int32), WEIGHTS, reduction="sum", **given),
        case(op_type, SCORES, LABELS, WEIGHTS, reduction="none", **given),
        case(op_type, SCORES, LABELS, WEIGHTS, reduction="mean", ignore_index=4, **given),
        case(op_type, IMAGE, PLACES, reduction="none", ignore_index=-3, **given),
        case(op_type, IMAGE, np.where(PLACES == 2, -3, PLACES), reduction="mean", ignore_index=-3, **given),
    ]


TRAINING = "ai.onnx.preview.training"
RATE, STEP = np.array(0.1, np.float32), np.array(3)
RULES: dict[str, tuple[int, dict[str, Any]]] = {  # states of a tensor, attributes
    "Adagrad": (1, {"norm_coefficient": 0.01, "epsilon": 1e-5, "decay_factor": 0.1}),
    "Adam": (2, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.1, "alpha": 0.95, "beta": 0.9, "epsilon": 1e-5}),
    "Momentum": (1, {"norm_coefficient": 0.01, "alpha": 0.95, "beta": 0.85, "mode": "standard"}),
}


def optimised(op_type: str, outputs: int) -> Oracle:
    """The reference mixes the types of rate and tensors: here the results have that of the tensors."""

    def oracle(*inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        found = reference(op_type, inputs, attributes, 1, TRAINING, outputs)
        return tuple(np.asarray(array).astype(inputs[2].dtype) for array in found)

    return oracle


def steps(op_type: str) -> list[Case]:
    """One tensor and two, which come grouped: all tensors, all gradients, all states."""
    states, attributes = RULES[op_type]
    made = []
    for step in (STEP, np.array(0)):
        for shapes in ([(2, 3)], [(2, 3), (4,)]):
            tensors = [ramp(shape, low=0.25, high=2 + k) for k in range(2 + states) for shape in shapes]
            count = len(shapes) * (1 + states)
            given: dict[str, Any] = {"domain": TRAINING, "outputs": count, "oracle": optimised(op_type, count), **attributes}
            made.append(case(op_type, RATE, step, *tensors, **given))
            made.append(case(op_type, RATE, step, *[tensor.astype(np.float64) for tensor in tensors], types=(), **given))
    return made


NESTEROV = case(
    "Momentum",
    RATE,
    STEP,
    *[ramp((5,), low=0.25, high=2 + k) for k in range(3)],
    domain=TRAINING,
    outputs=2,
    oracle=optimised("Momentum", 2),
    **{**RULES["Momentum"][1], "mode": "nesterov"},
)

Q, K, V = ramp((2, 4, 5, 8)), ramp((2, 2, 7, 8)), ramp((2, 2, 7, 3))


def flex_attention(q: Array, k: Array, v: Array, scale: float | None = None, halved: bool = False, **graphs: Any) -> Array:
    """Heads of queries share those of keys; `score_mod` adds one, `prob_mod` halves."""
    shared = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), shared, 1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = np.tanh(scores) if "score_mod" in graphs else scores
    e = np.exp(scores - scores.max(-1, keepdims=True))
    chances = e / e.sum(-1, keepdims=True)
    return np.asarray((chances / 2 if "prob_mod" in graphs else chances) @ v).astype(q.dtype)


BOUND = onnx.parser.parse_graph("s (x) => (y) { y = Tanh(x) }")
HALVE = onnx.parser.parse_graph(
    "p (float[B,H,L,S] x) => (float[B,H,L,S] y) { two = Constant<value_float=2.0>() y = Div(x, two) }"
)
FLEX: dict[str, Any] = {"domain": "ai.onnx.preview", "oracle": flex_attention, "rtol": 2e-5, "atol": 2e-5}
ATTENTION = (
    case("FlexAttention", Q, K, V, **FLEX),
    case("FlexAttention", Q, K, V, **FLEX, types=(), scale=0.3),
    case("FlexAttention", Q, K, V, **FLEX, types=["float64"], score_mod=BOUND),
    case("FlexAttention", Q, K, V, **FLEX, types=(), score_mod=BOUND, prob_mod=HALVE),
)

CASES: tuple[Case, ...] = (
    *losses("NegativeLogLikelihoodLoss"),
    *losses("SoftmaxCrossEntropyLoss", 2),
    *losses("SoftmaxCrossEntropyLoss"),
    *[one for op_type in RULES for one in steps(op_type)],
    NESTEROV,
    *ATTENTION,
)
