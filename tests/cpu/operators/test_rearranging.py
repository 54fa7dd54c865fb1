"""ReverseSequence and BitCast."""

import numpy as np
import pytest

from ort_lite.dtypes import to_onnx
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import ints, ramp, run_op


def test_a_length_beyond_the_sequence_is_named() -> None:
    message = r"ReverseSequence 'node' .*length 3 at position 1 of 'in1' is out of range \[0, 3\)"
    with pytest.raises(RuntimeException, match=message):
        run_op("ReverseSequence", [ramp((2, 3)), ints(2, 3, 1)])


def test_too_few_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"sequence_lens, .* is 2, but B is 3"):
        run_op("ReverseSequence", [ramp((2, 3)), ints(2, 1)], fixed=True)


def test_types_of_another_size_are_declined() -> None:
    with pytest.raises(NotSupported, match=r"BitCast 'node' .*float32 and int64 are not of one size"):
        run_op("BitCast", [np.ones(2, np.float32)], {"to": to_onnx("int64")}, opset=26)


def test_sequences_have_two_axes() -> None:
    with pytest.raises(InvalidArgument, match="has rank 1; it should have 2 or more"):
        run_op("ReverseSequence", [ramp((3,)), ints(1, 2, 3)])
