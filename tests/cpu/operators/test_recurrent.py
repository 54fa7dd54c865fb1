"""LSTM, GRU and RNN against onnxruntime, which knows all their attributes but the layout."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.ort import ort_op

STEPS, BATCH, INPUT, SIZE = 4, 3, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WEIGHTS = [1, 2, 3]
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def weights(op: str, directions: int = 1, bias: bool = True, size: int = SIZE) -> list[Array | None]:
    gates = GATES[op]
    shapes = [(directions, gates * size, INPUT), (directions, gates * size, size), (directions, 2 * gates * size)]
    made: list[Array | None] = [ramp(shape, low=-0.5, high=0.5) for shape in shapes]
    return made if bias else made[:2]


def theirs(op: str, inputs: Sequence[Array | None], attributes: dict[str, Any], outputs: int) -> list[Any]:
    return ort_op(op, inputs, attributes, opset=14, outputs=["float32"] * outputs)


def check(op: str, inputs: Sequence[Array | None], constants: Sequence[int] = (), **attributes: Any) -> None:
    attributes = {"hidden_size": SIZE, **attributes}
    outputs = 3 if op == "LSTM" else 2
    want = theirs(op, inputs, attributes, outputs)
    check_op(op, *inputs, outputs=outputs, opset=14, constants=constants, expected=want, **attributes, **CLOSE)


@pytest.mark.parametrize(("op", "linear"), [("LSTM", 0), ("GRU", 0), ("GRU", 1), ("RNN", 0)])
@pytest.mark.parametrize(("batch", "size"), [(1, 37), (7, 37), (2, 64)])
def test_hidden_units_of_several_blocks(op: str, linear: int, batch: int, size: int) -> None:
    """On any machine: a last block that is filled up, and rows of the batch that leave some over. Parts share the blocks."""
    lengths = np.arange(batch).astype(np.int32) % STEPS + 1
    states = [ramp((2, batch, size)) for _ in range(2 if op == "LSTM" else 1)]
    peepholes = [ramp((2, 3 * size), low=-0.5, high=0.5)] * (op == "LSTM")
    inputs = [ramp((STEPS, batch, INPUT)), *weights(op, 2, size=size), lengths, *states, *peepholes]
    attributes = {"linear_before_reset": 1} if linear else {}
    check(op, inputs, [*WEIGHTS, 7][: 3 + len(peepholes)], direction="bidirectional", hidden_size=size, **attributes)


# Names, those that take alpha and beta in this order. Three to an LSTM: few kernels to compile.
ACTIVATIONS: list[tuple[list[str], list[float], list[float]]] = [
    (["HardSigmoid", "Affine", "LeakyRelu"], [0.3, 0.5, 0.2], [0.4, 0.1]),
    (["ThresholdedRelu", "ScaledTanh", "Softsign"], [0.1, 0.5], [2.0]),
    (["Elu", "Relu", "Softplus"], [0.5], []),
]


@pytest.mark.parametrize(("names", "alpha", "beta"), ACTIVATIONS, ids=[str(case[0]) for case in ACTIVATIONS])
def test_every_activation(names: list[str], alpha: list[float], beta: list[float]) -> None:
    attributes: dict[str, Any] = {"activations": names, "activation_alpha": alpha}
    if beta:
        attributes["activation_beta"] = beta
    check("LSTM", [ramp((STEPS, BATCH, INPUT)), *weights("LSTM")], WEIGHTS, **attributes)


def test_activations_of_each_direction() -> None:
    attributes: dict[str, Any] = {
        "activations": ["Tanh", "HardSigmoid"],
        "activation_alpha": [0.3],
        "direction": "bidirectional",
    }
    check("RNN", [ramp((STEPS, BATCH, INPUT)), *weights("RNN", 2)], WEIGHTS, **attributes)


@pytest.mark.parametrize("op", GATES)
def test_the_batch_may_come_first(op: str) -> None:
    x, state = ramp((STEPS, BATCH, INPUT)), ramp((2, BATCH, SIZE))
    attributes: dict[str, Any] = {"hidden_size": SIZE, "direction": "bidirectional"}
    y, *states = theirs(op, [x, *weights(op, 2), None, state], attributes, 3 if op == "LSTM" else 2)
    inputs = [x.swapaxes(0, 1).copy(), *weights(op, 2), None, state.swapaxes(0, 1).copy()]
    want = [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)]
    check_op(op, *inputs, layout=1, opset=14, outputs=len(want), constants=WEIGHTS, expected=want, **attributes, **CLOSE)


@pytest.mark.parametrize("op", GATES)
def test_a_sequence_without_steps_ends_in_zeros(op: str) -> None:
    """onnxruntime forgets the initial state, of single sequences too. Without any step its GRU ends the process."""
    state, lengths = ramp((1, BATCH, SIZE)), np.array([0, 2, 0], np.int32)
    check(op, [ramp((2, BATCH, INPUT)), *weights(op), lengths, state])
    want = [np.zeros((0, 1, BATCH, SIZE), np.float32), np.zeros_like(state)]
    check_op(op, np.zeros((0, BATCH, INPUT), np.float32), *weights(op), None, state, outputs=2, hidden_size=SIZE, expected=want)


def test_the_size_is_that_of_the_weights_where_it_is_not_given() -> None:
    inputs = [ramp((STEPS, BATCH, INPUT)), *weights("RNN")]
    want = theirs("RNN", inputs, {"hidden_size": SIZE}, 2)
    check_op("RNN", *inputs, outputs=2, constants=WEIGHTS, expected=want, **CLOSE)


@pytest.mark.parametrize(
    ("position", "shape", "message"),
    [
        (1, (1, 18, 4), "W, .* is 4, but I is 5"),
        (2, (1, 18, 5), "R, .* is 5, but hidden_size is 6"),
        (3, (1, 35), r"B, .* is 35, but 6\*hidden_size is 36"),
        (5, (1, 2, 6), "initial_h, .* is 2, but N is 3"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(position: int, shape: tuple[int, ...], message: str) -> None:
    inputs = [ramp((STEPS, BATCH, INPUT)), *weights("GRU"), None, ramp((1, BATCH, SIZE))]
    inputs[position] = ramp(shape)
    program = op_program("GRU", inputs, {"hidden_size": SIZE})
    with pytest.raises(InvalidArgument, match=f"GRU 'node' .*{message}"):
        program([array for array in inputs if array is not None])


@pytest.mark.parametrize("length", [-(2**31), -1, STEPS + 1, 2**31 - 1])
@pytest.mark.parametrize("constants", [[], [4]])
def test_a_length_below_zero_or_beyond_the_steps_is_refused(length: int, constants: list[int]) -> None:
    inputs = [ramp((STEPS, BATCH, INPUT)), *weights("RNN"), np.array([0, length, STEPS], np.int32)]
    message = f"RNN 'node' .* (length|has the element) {length}"
    with pytest.raises(OrtLiteError, match=message):
        run_op("RNN", inputs, {"hidden_size": SIZE}, constants=constants)


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, {"direction": "sideways"}, "direction 'sideways'"),
        ({}, {"activations": ["Sigmoid", "Tanh"]}, "2 activations, expected 3"),
        ({}, {"activations": ["Sigmoid", "Tanh", "Swish"]}, "activation swish"),
    ],
)
def test_what_no_layer_is_made_of_is_refused(changes: dict[int, Array], more: dict[str, Any], message: str) -> None:
    inputs = [changes.get(k, x) for k, x in enumerate([ramp((STEPS, BATCH, INPUT)), *weights("LSTM")])]
    with pytest.raises(NotSupported, match=message):
        run_op("LSTM", inputs, {"hidden_size": SIZE, **more})


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_an_rnn_of_one_direction_may_have_two_activations_as_the_schemas_default_has(direction: str) -> None:
    """onnxruntime writes them into each RNN that has none."""
    text = (
        f"(float[{STEPS},{BATCH},{INPUT}] x, float[1,{SIZE},{INPUT}] w, float[1,{SIZE},{SIZE}] r) => (float[T,1,B,H] y)"
        f'{{ y = RNN<hidden_size = {SIZE}, direction = "{direction}", activations = ["Relu", "Tanh"]>(x, w, r) }}'
    )
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> main {text}')
    feeds = dict(zip("xwr", [ramp((STEPS, BATCH, INPUT)), *weights("RNN", bias=False)], strict=True))
    expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    np.testing.assert_allclose(ort_lite.InferenceSession(model).run(None, feeds)[0], expected[0], **CLOSE)


@pytest.mark.parametrize("op", GATES)
def test_a_size_of_zero_needs_weights_for_none(op: str) -> None:
    with pytest.raises(InvalidArgument, match=r"R, .* is 6, but hidden_size is 0|W, .* is 6, but hidden_size is 0"):
        run_op(op, [ramp((STEPS, BATCH, INPUT)), *weights(op)], {"hidden_size": 0})


def test_default_parameters_of_activations_are_float32() -> None:
    """As attributes are: 0.2 of HardSigmoid is the float32 next to it."""
    x, w, r = np.array([[[0.75]]]), np.array([[[1.5]]]), np.array([[[0.25]]])
    y, _ = run_op("RNN", [x, w, r], {"hidden_size": 1, "activations": ["HardSigmoid"]}, opset=14, outputs=2)
    np.testing.assert_allclose(y.item(), float(np.float32(0.2)) * 1.125 + 0.5, rtol=1e-15)
