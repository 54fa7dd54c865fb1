"""ReverseSequence and BitCast."""

import numpy as np
import pytest

from ort_lite.dtypes import Array, to_numpy, to_onnx
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op


def reversed_sequences(x: Array, lengths: Array, time_axis: int, batch_axis: int) -> Array:
    y = x.copy()
    for b, n in enumerate(lengths):
        at = (slice(0, n), b) if time_axis == 0 else (b, slice(0, n))
        y[at] = x[at][::-1]
    return y


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize(
    ("shape", "lengths", "time"),
    [
        ((4, 3), [4, 1, 0], 0),
        ((3, 4), [2, 4, 3], 1),
        ((5, 2, 3, 2), [5, 2], 0),
    ],
    ids=str,
)
def test_reverses_the_first_entries(shape: tuple[int, ...], lengths: list[int], time: int, dtype: str) -> None:
    check_op(
        "ReverseSequence", ramp(shape, dtype), ints(*lengths), time_axis=time, batch_axis=1 - time, expected=reversed_sequences
    )


def test_a_length_beyond_the_sequence_is_named() -> None:
    with pytest.raises(
        RuntimeException, match=r"ReverseSequence 'node' .*length 3 at position 1 of 'in1' is out of range \[0, 3\)"
    ):
        run_op("ReverseSequence", [ramp((2, 3)), ints(2, 3, 1)])


def test_too_few_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"ReverseSequence 'node' .*2 lengths for a batch of 3"):
        run_op("ReverseSequence", [ramp((2, 3)), ints(2, 1)], fixed=True)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("int64", "float64"),
        ("bool", "uint8"),
        ("float16", "bfloat16"),
        ("float8_e5m2", "int8"),
    ],
)
def test_bytes_stay_as_they_are(source: str, target: str) -> None:
    x = ramp((2, 5), "float32").astype(to_numpy(source))
    check_op("BitCast", x, opset=26, to=to_onnx(target), expected=x.view(to_numpy(target)))


def test_types_of_another_size_are_declined() -> None:
    with pytest.raises(NotSupported, match=r"BitCast 'node' .*float32 and int64 are not of one size"):
        run_op("BitCast", [np.ones(2, np.float32)], {"to": to_onnx("int64")}, opset=26)


def test_a_cast_to_its_own_type_is_nothing() -> None:
    x = np.array([1 + 2j, 3])
    check_op("BitCast", x, opset=26, to=to_onnx("complex128"), expected=x)


def test_sequences_have_two_axes() -> None:
    with pytest.raises(NotSupported, match="the input has rank 1, expected 2 or more"):
        run_op("ReverseSequence", [ramp((3,)), ints(1, 2, 3)])
