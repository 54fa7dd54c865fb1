"""AttnLSTM of com.microsoft against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

STEPS, BATCH, WIDTH, SIZE, ENTRIES, DEPTH, KEY = 5, 3, 4, 6, 7, 5, 3
OUTPUTS = ("float32",) * 3


def small(*shape: int) -> Any:
    return ramp(shape, low=-0.6, high=0.7)


def operands(directions: int = 1, layer: int = 0, **given: Array | None) -> list[Array | None]:
    """layer: numbers that a layer makes of hidden state and context, 0 for none."""
    attention = layer or DEPTH
    named: dict[str, Array | None] = {
        "X": small(STEPS, BATCH, WIDTH),
        "W": small(directions, 4 * SIZE, WIDTH + attention),
        "R": small(directions, 4 * SIZE, SIZE),
        "B": None,
        "sequence_lens": None,
        "initial_h": None,
        "initial_c": None,
        "P": None,
        "QW": small(directions, SIZE, KEY),
        "MW": small(directions, DEPTH, KEY),
        "V": small(directions, KEY),
        "M": small(BATCH, ENTRIES, DEPTH),
        "memory_seq_lens": None,
        "AW": small(directions, SIZE + DEPTH, layer) if layer else None,
    }
    return [given.get(name, array) for name, array in named.items()]


def check(inputs: list[Array | None], outputs: tuple[str, ...] = OUTPUTS, **attributes: Any) -> None:
    attributes = {"hidden_size": SIZE, **attributes}
    want = ort_op("AttnLSTM", inputs, attributes, outputs=outputs, **HOW)
    numbers = [k for k, dtype in enumerate(outputs) if dtype]
    constants = [k for k in (1, 2, 3, 7, 8, 9, 10, 13) if inputs[k] is not None]
    check_op("AttnLSTM", *inputs, expected=want, outputs=numbers, constants=constants, atol=1e-5, **attributes, **HOW)


@pytest.mark.parametrize("layer", [0, 4])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions(direction: str, layer: int) -> None:
    check(operands(2 if direction == "bidirectional" else 1, layer), direction=direction)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_all_inputs(direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    given = {
        "B": small(count, 8 * SIZE),
        "sequence_lens": np.array([5, 2, 3], np.int32),
        "initial_h": small(count, BATCH, SIZE),
        "initial_c": small(count, BATCH, SIZE),
        "P": small(count, 3 * SIZE),
        "memory_seq_lens": np.array([7, 1, 4], np.int32),
    }
    check(operands(count, 4, **given), direction=direction)
    check(operands(count, 0, **given), direction=direction, clip=0.4)
    check(operands(count, 4, **given), direction=direction, input_forget=1)


@pytest.mark.parametrize("outputs", [("float32",), ("", "float32"), ("", "", "float32")], ids=str)
def test_outputs_may_be_left_out(outputs: tuple[str, ...]) -> None:
    check(operands(layer=4, sequence_lens=np.array([5, 2, 3], np.int32)), outputs)


def test_activations() -> None:
    check(operands(layer=4), activations=["HardSigmoid", "Relu", "Tanh"], activation_alpha=[0.3], activation_beta=[0.4])


def test_batches_of_nothing() -> None:
    inputs = operands(X=small(STEPS, 0, WIDTH), M=small(0, ENTRIES, DEPTH))
    want = [np.zeros(shape, np.float32) for shape in ((STEPS, 1, 0, SIZE), (1, 0, SIZE), (1, 0, SIZE))]
    check_op("AttnLSTM", *inputs, expected=want, outputs=3, hidden_size=SIZE, **HOW)


def test_memories_have_an_entry_and_weights_fit() -> None:
    for length in (0, 8):
        lengths = np.array([1, length, 2], np.int32)
        with pytest.raises(InvalidArgument, match=rf"the length {length} at position 1 of 'in12' is out of range \[1, 8\)"):
            run_op("AttnLSTM", operands(memory_seq_lens=lengths), {"hidden_size": SIZE}, **HOW)
    for name, wrong, message in (
        ("W", small(1, 4 * SIZE, WIDTH + 3), "W differs from what inputs and attention have together: 8 against 7"),
        ("AW", small(1, SIZE + 2, 4), "AW differs from hidden state and memory together: 11 against 8"),
    ):
        with pytest.raises(OrtLiteError, match=message):
            run_op("AttnLSTM", operands(layer=4, **{name: wrong}), {"hidden_size": SIZE}, **HOW)
