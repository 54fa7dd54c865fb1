"""Operators of com.microsoft on quantized values, compared with the CPU provider."""

from pathlib import Path

import numpy as np
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.lower import lower_model

from ort_lite.dtypes import Array
from tests.single_node import CPU, MICROSOFT, Single, close, compare, ramp

XLA = XLAExecutionProvider.name
STEPS, INPUT, H = 6, 5, 7
WEIGHTS = [1, 2, 8, 9, 10, 11]


def levels(shape: tuple[int, ...], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(shape).integers(info.min, info.max + 1, shape).astype(dtype)


# --- QLinearSoftmax
def scores(shape: tuple[int, ...], dtype: str, scale: float = 1 / 256, zero: bool = True) -> list[Array | None]:
    own = [np.array(0.03, np.float32), np.array(10, dtype) if zero else None]
    return [levels(shape, dtype), *own, np.array(scale, np.float32), np.array(3, dtype)]


def assert_one_step(single: Single) -> None:
    (got,), (want,) = single.run(XLA), single.run(CPU)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= 1


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 12), (-2, 12)])
@pytest.mark.parametrize("shape", [(2, 3, 14), (2, 0, 4)], ids=str)
def test_softmax_is_off_by_one_step_at_most(shape: tuple[int, ...], axis: int, opset: int, dtype: str) -> None:
    for scale, zero, constants in ((1 / 256, True, []), (0.0059, True, [3, 4]), (0.6, False, [3, 4])):
        given, rules = scores(shape, dtype, scale, zero), {"axis": axis, "opset": opset}
        assert_one_step(Single(f"{MICROSOFT}.QLinearSoftmax", given, rules, constants=constants))


@pytest.mark.parametrize(("axis", "programs"), [(-1, 1), (0, 2)])
def test_rows_of_a_softmax_share_a_program(axis: int, programs: int) -> None:
    def case(rows: int) -> Single:
        rules = {"axis": axis, "opset": 13}
        return Single(f"{MICROSOFT}.QLinearSoftmax", scores((rows, 14), "uint8"), rules, dims={0: ("rows", 14)})

    session = case(5).session(XLA)
    for rows in (5, 6):
        (got,), (want,) = session.run(None, case(rows).feeds), case(rows).run(CPU)
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == programs


# --- DynamicQuantizeLSTM
def lstm(ways: int, batch: int, columns: bool = False, dtype: str = "int8") -> list[Array | None]:
    scale = np.abs(ramp((ways, 4 * H) if columns else (ways,))) * np.float32(0.01) + np.float32(0.001)
    zero = np.full(scale.shape, 3 if dtype == "int8" else 130, dtype)
    weights = [levels((ways, INPUT, 4 * H), dtype), levels((ways, H, 4 * H), dtype)]
    state = ramp((ways, batch, H))
    states = [ramp((ways, 8 * H)), None, state, state * np.float32(0.5), ramp((ways, 3 * H))]
    return [ramp((STEPS, batch, INPUT)), *weights, *states, scale, zero, scale[::-1], zero]


def compare_lstm(given: list[Array | None], direction: str, wanted: tuple[bool, ...] = (True,) * 3, **rules: float) -> None:
    """The steps of the quantization are the same, so the results are. One thread of the CPU provider quantizes all rows together."""
    attributes = {"hidden_size": H, "direction": direction, **rules}
    single = Single(f"{MICROSOFT}.DynamicQuantizeLSTM", given, attributes, outputs=wanted, constants=WEIGHTS)
    for got, want in zip(single.run(XLA), single.run(CPU, threads=1), strict=True):
        close(got, want)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("lengths", [False, True], ids=["full", "lengths"])
def test_lstm(lengths: bool, batch: int, direction: str) -> None:
    """Rows that have ended count in the scale of a step only if Y is left out."""
    for columns, dtype in ((False, "int8"), (True, "uint8")):
        given = lstm(2 if direction == "bidirectional" else 1, batch, columns, dtype)
        given[4] = np.array([4, 1, 5][:batch], np.int32) if lengths else None
        for wanted in ((True, True, True), (False, True, True), (True, False, False)):
            compare_lstm(given, direction, wanted)


def test_attributes_and_omitted_operands_of_an_lstm() -> None:
    given = lstm(1, 2)
    compare_lstm(given, "forward", clip=0.4, input_forget=1)
    given[3] = given[5] = given[6] = given[7] = None
    compare_lstm(given, "reverse")


def test_weights_of_an_lstm_may_be_inputs() -> None:
    compare(XLA, f"{MICROSOFT}.DynamicQuantizeLSTM", lstm(1, 1), {"hidden_size": H}, outputs=(True, True, True))


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_they_are_lowered_for_devices(platform: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for single in (
        Single(f"{MICROSOFT}.QLinearSoftmax", scores((2, 14), "uint8"), {"axis": -1, "opset": 13}),
        Single(f"{MICROSOFT}.DynamicQuantizeLSTM", lstm(1, 1), {"hidden_size": H}),
    ):
        path.write_bytes(single.model)
        found = lower_model(path, platform, {}, 8)
        assert (found.nodes, found.partitions) == (1, 1)
