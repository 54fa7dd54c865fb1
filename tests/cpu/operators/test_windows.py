"""HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix."""

import numpy as np
import pytest

from ort_lite.dtypes import to_onnx
from ort_lite.errors import InvalidArgument, RuntimeException, ShapeInferenceError
from tests.cpu.check import check_op, ints, op_program, run_op


@pytest.mark.parametrize("op", ["HannWindow", "BlackmanWindow"])
def test_the_middle_of_a_window_of_integers_is_one(op: str) -> None:
    wanted = np.zeros(11, np.int16)
    wanted[5] = 1
    check_op(op, np.array(11), periodic=0, output_datatype=to_onnx("int16"), constants=[0], expected=wanted)


def test_a_symmetric_window_of_one_is_defined() -> None:
    [got] = run_op("HammingWindow", [np.array(1)], {"periodic": 0})
    assert np.allclose(got, 25 / 46 - 21 / 46)


@pytest.mark.parametrize(("bins", "length", "rate", "low", "high"), [(8, 16, 8192, 0.0, 4096.0), (3, 64, 16000, 20.0, 7000.0)])
def test_mel_weights_match_the_reference(bins: int, length: int, rate: int, low: float, high: float) -> None:
    edges = [np.array(low, np.float32), np.array(high, np.float32)]
    check_op("MelWeightMatrix", np.array(bins), np.array(length), np.array(rate), *edges, constants=[0, 1])


def test_triangles_beyond_the_spectrum_are_refused() -> None:
    edges = [np.array(0, np.float32), np.array(9000, np.float32)]
    message = r"MelWeightMatrix 'node' .*triangle . reaches beyond the 9 rows of the spectrum"
    with pytest.raises(RuntimeException, match=message):
        run_op("MelWeightMatrix", [np.array(4), np.array(16), np.array(8000), *edges])


@pytest.mark.parametrize(
    ("low", "high", "rate"),
    [
        (3000, -600, 8000),
        (4000, 100, 8000),
        (0, np.nan, 8000),
        (0, np.inf, 8000),
        (-np.inf, 100, 8000),
        (0, 100, 0),
        (100, 3000, -8000),
    ],
    ids=str,
)
def test_edges_of_anything_write_nothing_but_the_spectrum(low: float, high: float, rate: int) -> None:
    edges = [np.array(low, np.float32), np.array(high, np.float32)]
    message = r"MelWeightMatrix 'node' .*triangle .* reaches beyond .* or falls before it rises"
    with pytest.raises(RuntimeException, match=message):
        run_op("MelWeightMatrix", [np.array(4), np.array(16), np.array(rate), *edges], constants=[0, 1])


def test_sizes_that_are_not_one_number_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"HannWindow 'node' .*has 2 elements"):
        op_program("HannWindow", [ints(3, 4)], constants=[0])
    edge = np.array(1, np.float32)
    with pytest.raises(ShapeInferenceError, match=r"MelWeightMatrix 'node'.*input 1 has 2 elements, expected one"):
        op_program("MelWeightMatrix", [np.array(4), ints(16, 16), np.array(8000), edge, edge], constants=[0, 1])
    with pytest.raises(InvalidArgument, match=r"sample_rate, .*has 0 elements"):
        run_op("MelWeightMatrix", [np.array(4), np.array(16), ints(), edge, edge], constants=[0, 1])
