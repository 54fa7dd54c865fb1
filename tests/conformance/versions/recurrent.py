"""RNN, GRU and LSTM."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import NEWEST, Case, case
from tests.cpu.check import ramp
from tests.cpu.ort import ort_op

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTH, BATCH, SIZE, HIDDEN = 3, 2, 4, 3
X = ramp((LENGTH, BATCH, SIZE), low=-1, high=1)
LENGTHS = np.array([3, 2], np.int32)


def with_sequence(op_type: str) -> Any:
    """Version 1 says by `output_sequence` whether Y is made; what it is, version 7 says as well."""

    def oracle(*inputs: Array, output_sequence: int, **attributes: Any) -> tuple[Any, ...]:
        narrow = [value.astype(np.float32) for value in inputs]
        made = ort_op(op_type, narrow, attributes, opset=7, outputs=["float32", "float32"])
        return tuple(value.astype(inputs[0].dtype) for value in made)

    return oracle


def nobody(outputs: int) -> Any:
    """The outputs of a batch of none."""
    shapes = [(LENGTH, 1, 0, HIDDEN), (1, 0, HIDDEN), (1, 0, HIDDEN)][:outputs]
    return lambda *_, **__: tuple(np.zeros(shape, np.float32) for shape in shapes)


def recurrent(op_type: str) -> list[Case]:
    """Through onnxruntime; it has no versions before 7, which say the same."""
    gates = GATES[op_type]

    def weights(directions: int) -> tuple[Array, ...]:
        return (
            ramp((directions, gates * HIDDEN, SIZE), low=-1, high=1),
            ramp((directions, gates * HIDDEN, HIDDEN), low=-0.8, high=1),
            ramp((directions, 2 * gates * HIDDEN), low=-0.5, high=0.5),
        )

    w, r, b = weights(1)
    start = ramp((1, BATCH, HIDDEN), low=-1, high=1)
    states = (start, start[:, ::-1]) if op_type == "LSTM" else (start,)
    last = len(states) + 1
    how: dict[str, Any] = {"types": (), "hidden_size": HIDDEN, "outputs": last, "constants": (1, 2, 3)}
    named = {"since": 7, "oracle": "onnxruntime"}
    made = [
        case(
            op_type,
            X,
            w,
            r,
            until=6,
            types=("float16",),
            hidden_size=HIDDEN,
            outputs=2,
            output_sequence=1,
            oracle=with_sequence(op_type),
        ),
        case(op_type, X, w, r, since=7, hidden_size=HIDDEN, outputs=last, oracle="onnxruntime"),
        *(
            case(op_type, X, w, r, b, LENGTHS, *states, direction=direction, since=since, until=until, oracle=oracle, **how)
            for direction in ("forward", "reverse")
            for since, until, oracle in ((1, 6, "onnxruntime-7"), (7, NEWEST, "onnxruntime"))
        ),
        case(op_type, X, *weights(2), direction="bidirectional", **how, **named),
        case(op_type, X, w, r, b, clip=0.5, **how, **named),
        case(op_type, X, w, r, **(how | {"outputs": (False, True, *(False,) * (last - 2))}), **named),
        case(op_type, X[:, :0], w, r, since=7, oracle=nobody(last), **how),
    ]
    if op_type == "RNN":
        made.append(case(op_type, X, w, r, activations=["Relu"], **how, **named))
    if op_type == "GRU":
        made.append(case(op_type, X, w, r, b, since=3, until=6, linear_before_reset=1, oracle="onnxruntime-7", **how))
        made.append(case(op_type, X, w, r, b, linear_before_reset=1, **how, **named))
        made.append(case(op_type, X, w, r, b, activations=["HardSigmoid", "Tanh"], activation_alpha=[0.3], **how, **named))
    if op_type == "LSTM":
        peepholes = ramp((1, 3 * HIDDEN), low=-1, high=1)
        made.append(case(op_type, X, w, r, b, None, None, None, peepholes, **how, **named))
        made.append(case(op_type, X, w, r, b, input_forget=1, **how, **named))
        made.append(case(op_type, X, w, r, b, activations=["Sigmoid", "Softsign", "Relu"], **how, **named))
    batches_first = [np.swapaxes(value, 0, 1) for value in (X, *states)]
    made.append(
        case(op_type, batches_first[0], w, r, b, None, *batches_first[1:], since=14, layout=1, oracle=turned(op_type), **how)
    )
    return made


def turned(op_type: str) -> Any:
    """The oracle of layout 1, which onnxruntime lacks: batches come first in X, in the states and in the outputs."""

    def oracle(
        x: Array, w: Array, r: Array, b: Array, lengths: None, *states: Array, layout: int, **how: Any
    ) -> tuple[Any, ...]:
        inputs = [np.swapaxes(x, 0, 1), w, r, b, lengths, *(np.swapaxes(state, 0, 1) for state in states)]
        y, *ends = ort_op(op_type, inputs, how, opset=14, outputs=["float32"] * (1 + len(states)))
        return np.transpose(y, (2, 0, 1, 3)), *(np.swapaxes(end, 0, 1) for end in ends)

    return oracle


CASES: tuple[Case, ...] = (*recurrent("RNN"), *recurrent("GRU"), *recurrent("LSTM"))
