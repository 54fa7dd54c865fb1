"""The accelerator with memory that stays between runs: states, values bound to both ends of an alias, captured calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.program import CardExecutable, CardGraph

import ort_lite
from ort_lite import OrtValue

ROWS = 4
CACHE = """<ir_version: 8, opset_import: ["": 17]> main
    (float[4,2] past, float[4,1] at, float[1,2] row) => (float[4,2] present, float[4,2] y) {
    new = Mul(at, row)  present = Add(past, new)  y = Relu(present)
}"""
ZEROS = np.zeros((ROWS, 2), np.float32)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the members of the compiled partition that were called, in order."""
    found: list[str] = []

    def note(owner: type, name: str, what: str) -> None:
        right: Callable[..., Any] = getattr(owner, name)

        def noted(*given: Any) -> Any:
            found.append(what)
            return right(*given)

        monkeypatch.setattr(owner, name, noted)

    for name in ("into_memory", "call_donating", "capture"):
        note(CardExecutable, name, name)
    note(CardGraph, "__call__", "replay")
    return found


def session(card: AcceleratorExecutionProvider, **more: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(onnx.parser.parse_model(CACHE), providers=[card, "CPUExecutionProvider"], **more)


def step(t: int) -> dict[str, Any]:
    """Return the feed of a step: the row to write, and where."""
    return {"at": np.eye(ROWS, dtype=np.float32)[:, t : t + 1], "row": np.array([[t + 1, -t - 1]], np.float32)}


def written(count: int) -> Any:
    rows = np.arange(1, ROWS + 1, dtype=np.float32)[:, None] * np.array([1, -1], np.float32)
    return np.where(np.arange(ROWS)[:, None] < count, rows, 0)


def test_a_state_is_updated_in_place(calls: list[str]) -> None:
    card = AcceleratorExecutionProvider()
    made = session(card)
    state = made.create_run_state({"past": "present"}, {"past": ZEROS})
    places = []
    for t in range(ROWS):
        [y] = made.run(None, step(t), state=state)
        np.testing.assert_array_equal(y, np.maximum(written(t + 1), 0))
        places.append(id(state._kept.values["past"].value))
        used = card.allocator().bytes_in_use
    assert (calls, len(set(places))) == (["call_donating"] * ROWS, 1)
    other = state.copy()
    assert card.allocator().bytes_in_use == used, "copies share memory until they are written to"
    del other, state
    made.close()
    assert card.allocator().bytes_in_use == 0


def test_beams_that_share_a_prefix(calls: list[str]) -> None:
    made = session(AcceleratorExecutionProvider())
    prefix = made.create_run_state({"past": "present"}, {"past": ZEROS})
    made.run(None, step(0), state=prefix)
    beams = [prefix.copy() for _ in range(3)]
    for t, beam in enumerate(beams, 1):
        made.run(None, step(t), state=beam)
        np.testing.assert_array_equal(beam.values()["past"], written(1) + written(t + 1) - written(t))
    np.testing.assert_array_equal(prefix.values()["past"], written(1))
    assert calls == ["call_donating", *["into_memory"] * 3]


@pytest.mark.parametrize("verify", [None, "first"])
def test_one_value_bound_to_both_is_updated_in_place(calls: list[str], verify: str | None) -> None:
    card = AcceleratorExecutionProvider()
    made = session(card, verify=verify)
    cache, binding = OrtValue.on(card, ZEROS), made.io_binding()
    binding.bind_ortvalue_input("past", cache)
    binding.bind_ortvalue_output("present", cache)
    binding.bind_output("y")
    assert cache.device_tensor is not None
    before = cache.device_tensor.value
    for t in range(ROWS):
        for name, array in step(t).items():
            binding.bind_cpu_input(name, array)
        binding.run()
        np.testing.assert_array_equal(cache.numpy(), written(t + 1))
    assert cache.device_tensor.value is before
    assert calls == ["into_memory" if verify else "call_donating", *["call_donating"] * (ROWS - 1)]


def bound(card: AcceleratorExecutionProvider, made: ort_lite.InferenceSession) -> tuple[Any, dict[str, OrtValue]]:
    """Return a binding in which everything is on the card, and its values."""
    values = {name: OrtValue.on(card, array) for name, array in {"past": ZEROS, "y": ZEROS, **step(0)}.items()}
    binding = made.io_binding()
    for name in ("past", "at", "row"):
        binding.bind_ortvalue_input(name, values[name])
    binding.bind_ortvalue_output("present", values["past"])
    binding.bind_ortvalue_output("y", values["y"])
    return binding, values


def test_bound_runs_are_captured_once_and_replayed(calls: list[str]) -> None:
    card = AcceleratorExecutionProvider()
    made = session(card)
    binding, values = bound(card, made)
    for t in range(ROWS):
        for name, array in step(t).items():
            values[name].update_inplace(array)
        binding.run()
        np.testing.assert_array_equal(values["past"].numpy(), written(t + 1))
        np.testing.assert_array_equal(values["y"].numpy(), np.maximum(written(t + 1), 0))
    assert calls == ["into_memory", "capture", "replay", "replay"]
    del binding, values
    made.close()
    assert card.allocator().bytes_in_use == 0


def test_another_value_is_captured_again(calls: list[str]) -> None:
    card = AcceleratorExecutionProvider()
    binding, values = bound(card, session(card))
    for _ in range(3):
        binding.run()
    other = OrtValue.on(card, ZEROS)
    binding.bind_ortvalue_output("y", other)
    for _ in range(3):
        binding.run()
    np.testing.assert_array_equal(other.numpy(), [[6, 0], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(values["y"].numpy(), [[3, 0], [0, 0], [0, 0], [0, 0]])
    assert calls == ["into_memory", "capture", "replay", "into_memory", "capture", "replay"]


def test_outputs_without_memory_are_new_in_each_run(calls: list[str]) -> None:
    card = AcceleratorExecutionProvider()
    binding, _ = bound(card, session(card))
    binding.bind_output("y", "npu")
    kept = []
    for _ in range(3):
        binding.run()
        kept.append(binding.get_outputs()[1])
    assert [value.numpy()[0, 0] for value in kept] == [1, 2, 3]
    assert calls == ["call_donating"] * 3


def test_a_failed_replay_is_captured_again(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    card = AcceleratorExecutionProvider()
    binding, values = bound(card, session(card))
    for _ in range(3):
        binding.run()
    with monkeypatch.context() as patch:
        patch.setattr(CardGraph, "__call__", lambda *given: 1 / 0)
        with pytest.raises(ort_lite.errors.RuntimeException, match=r"AcceleratorExecutionProvider_0 .*division by zero"):
            binding.run()
    values["past"].update_inplace(ZEROS)
    for _ in range(2):
        binding.run()
    np.testing.assert_array_equal(values["past"].numpy()[0], [2, -2])
    assert calls[-2:] == ["into_memory", "capture"]


def test_a_recorded_run_is_not_replayed(calls: list[str]) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling = True
    card = AcceleratorExecutionProvider()
    made = session(card, sess_options=options)
    binding, values = bound(card, made)
    for _ in range(3):
        binding.run()
    made.discard_profile()
    for _ in range(3):
        binding.run()
    np.testing.assert_array_equal(values["past"].numpy()[0], [6, -6])
    assert calls == [*["into_memory"] * 4, "capture", "replay"]
