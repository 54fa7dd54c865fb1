"""LSTM, GRU, RNN."""

import pytest

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import check, floats, infer, tensor, text

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("op_type", GATES)
def test_all_states_and_the_last_ones(op_type: str, layout: int) -> None:
    w, r = floats(1, GATES[op_type] * 5, 4), floats(1, GATES[op_type] * 5, 5)
    x = floats(2, 3, 4)
    sequence, batch = (2, 3) if layout == 0 else (3, 2)
    every = (sequence, 1, batch, 5) if layout == 0 else (batch, sequence, 1, 5)
    last = (1, batch, 5) if layout == 0 else (batch, 1, 5)
    expected = [floats(*every), floats(*last)] + ([floats(*last)] if op_type == "LSTM" else [])
    check(op_type, x, w, r, outputs=len(expected), hidden_size=5, layout=layout, expected=expected)


def test_both_directions() -> None:
    x, w, r = tensor("float32", "T", "B", 4), tensor("float32", 2, 20, 4), tensor("float32", 2, 20, 5)
    found = infer("LSTM", x, w, r, outputs=3, direction="bidirectional")
    assert [text(y) for y in found] == ["float32[T, 2, B, 5]", "float32[2, B, 5]", "float32[2, B, 5]"]


def test_an_input_of_another_rank_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="rank 3"):
        infer("GRU", tensor("float32", "T", 4), tensor("float32", 1, 15, 4), tensor("float32", 1, 15, 5))
