"""LSTM, GRU, RNN."""

import pytest

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import infer, tensor


def test_an_input_of_another_rank_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="rank 3"):
        infer("GRU", tensor("float32", "T", 4), tensor("float32", 1, 15, 4), tensor("float32", 1, 15, 5))
