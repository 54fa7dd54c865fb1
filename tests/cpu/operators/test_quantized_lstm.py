"""DynamicQuantizeLSTM against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import assert_close, ramp, run_op
from tests.cpu.operators.test_integer_matmul import full
from tests.cpu.ort import ort_op

MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
WEIGHTS = [1, 2, 8, 9, 10, 11]
INPUT, H = 5, 7


def inputs(directions: int, batch: int, columns: bool = False) -> list[Array | None]:
    scale = ramp((directions, 4 * H) if columns else (directions,), low=0.001, high=0.01)
    scales, state = [scale, np.zeros(scale.shape, np.int8)], ramp((directions, batch, H))
    weights = [full((directions, INPUT, 4 * H), "int8") // 2, full((directions, H, 4 * H), "int8", 1) // 2]
    states = [ramp((directions, 8 * H)), None, state, state, ramp((directions, 3 * H))]
    return [ramp((6, batch, INPUT)), *weights, *states, *scales, *scales]


def check(given: list[Array | None], constants: list[int] = WEIGHTS, *, threads: int = 1, **attributes: Any) -> None:
    """Against as many threads of onnxruntime, which share the rows of a batch."""
    attributes = {"hidden_size": H, **attributes}
    expected = ort_op("DynamicQuantizeLSTM", given, attributes, outputs=["float32"] * 3, threads=threads, **MICROSOFT)
    found = run_op("DynamicQuantizeLSTM", given, attributes, outputs=3, constants=constants, threads=threads, **MICROSOFT)
    for got, want in zip(found, expected, strict=True):
        assert_close(got, want, 1e-4, 1e-5, str(attributes))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("columns", [False, True], ids=["one scale", "scales of columns"])
def test_all_directions(direction: str, columns: bool) -> None:
    given = inputs(2 if direction == "bidirectional" else 1, 1, columns)
    for constants in (WEIGHTS, [*WEIGHTS, 3, 7]):
        check(given, constants, direction=direction)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[2, 1], [6, 1], [3, 3]], ids=str)
def test_steps_that_no_sequence_reaches_have_no_say_in_the_scale(direction: str, lengths: list[int]) -> None:
    given = inputs(2 if direction == "bidirectional" else 1, 2)
    given[4] = np.array(lengths, np.int32)
    check(given, direction=direction)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [2, 3, 7])
def test_rows_of_a_batch_are_quantised_together_as_onnxruntime_shares_them(batch: int, threads: int) -> None:
    check(inputs(2, batch), threads=threads, direction="bidirectional")


@pytest.mark.parametrize("wanted", [(0, 1, 2), (1, 2)], ids=["all states", "last states"])
def test_rows_that_have_ended_count_where_they_do_in_onnxruntime(wanted: tuple[int, ...]) -> None:
    given = inputs(1, 3)
    given[4] = np.array([6, 2, 4], np.int32)
    kinds = ["float32" if k in wanted else "" for k in range(3)]
    want = ort_op("DynamicQuantizeLSTM", given, {"hidden_size": H}, outputs=kinds, **MICROSOFT)
    got = run_op("DynamicQuantizeLSTM", given, {"hidden_size": H}, outputs=wanted, constants=WEIGHTS, **MICROSOFT)
    for mine, theirs in zip(got, want, strict=True):
        assert_close(mine, theirs, 1e-5, 1e-6, str(wanted))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("columns", [False, True], ids=["one scale", "scales of columns"])
@pytest.mark.parametrize("constants", [(), (1, 2), (8, 9, 10, 11), (1, 9)], ids=str)
def test_weights_may_be_feeds(constants: tuple[int, ...], columns: bool, direction: str) -> None:
    given = inputs(2 if direction == "bidirectional" else 1, 3, columns)
    for dtype in ("int8", "uint8"):
        zeros = 0 if columns else 3 if dtype == "int8" else 130  # onnxruntime takes others of columns as an error
        for index in (1, 2, 9, 11):
            array = given[index]
            assert array is not None
            given[index] = array.astype(dtype) if index < 3 else np.full(array.shape, zeros, dtype)
        check(given, [*constants], direction=direction)


def test_scales_of_a_direction_and_of_columns_go_together() -> None:
    given = inputs(2, 2)
    given[10:12] = inputs(2, 2, columns=True)[10:12]
    for constants in (WEIGHTS, []):
        check(given, constants, direction="bidirectional")


@pytest.mark.parametrize(
    ("index", "given", "error", "message"),
    [
        (1, full((1, INPUT, 4 * H - 1), "int8"), InvalidArgument, r"W, .* is 27, but 4\*hidden_size is 28"),
        (2, full((1, H, 5 * H), "int8"), InvalidArgument, r"R, .* is 35, but 4\*hidden_size is 28"),
        (1, full((2, INPUT, 4 * H), "int8"), InvalidArgument, "W, .* is 2, but directions is 1"),
        (8, ramp((1, 3), low=0.01), InvalidArgument, "input 8 does not fit directions and gates: 3 against 28"),
        (11, np.zeros(4 * H, np.int8), InvalidArgument, "input 11 does not fit directions and gates: 28 against 1"),
    ],
)
def test_weights_and_scales_that_do_not_fit_are_refused(index: int, given: Array, error: type[Exception], message: str) -> None:
    operands = inputs(1, 1)
    operands[index] = given
    with pytest.raises(error, match=message):
        run_op("DynamicQuantizeLSTM", operands, {"hidden_size": H}, constants=WEIGHTS, **MICROSOFT)
