"""Verified first runs of bindings, in the background, on devices, and of sessions that are copied, changed, saved or prepared."""

import copy
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.errors import Cancelled, RuntimeException, VerificationError
from ort_lite.tools.verify import Verification
from tests.compat.test_device_values import Board
from tests.provider.numpy_provider import OtherDevice
from tests.session.test_context import Saving
from tests.tools.verify.first_runs import NEGATIVE, ONES, WEIGHTED, Negative, X, found, is_verified, session
from tests.tools.verify.providers import CHAIN, FEED, Off, model, shifted
from tests.tools.verify.test_watch import OffBox


def test_bindings_are_verified_and_bound_memory_keeps_its_contents() -> None:
    made = session(Negative(), NEGATIVE)
    target = np.full((1, 3), 7, np.float32)
    binding = made.io_binding()
    binding.bind_ortvalue_output("y", ort_lite.OrtValue.ortvalue_from_numpy(target))
    binding.bind_cpu_input("x", FEED["x"])
    with pytest.raises(VerificationError):
        made.run_with_iobinding(binding)
    np.testing.assert_array_equal(target, [[7, 7, 7]])
    binding.bind_cpu_input("x", ONES["x"])
    made.run_with_iobinding(binding)
    assert not is_verified(made)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -np.tanh(ONES["x"]))


def test_runs_in_the_background_and_with_a_timeout_are_verified() -> None:
    made = session(Negative(), NEGATIVE)
    pending = made.run_async(None, FEED)
    assert pending is not None
    with pytest.raises(VerificationError):
        pending.result(60)
    with pytest.raises(VerificationError):
        made.run(None, FEED, timeout=60)
    with pytest.raises(VerificationError):
        made.run_with_ort_values(None, {"x": ort_lite.OrtValue.ortvalue_from_numpy(FEED["x"])})
    cancelled = ort_lite.RunOptions()
    cancelled.terminate = True
    with pytest.raises(Cancelled):
        made.run(None, ONES, cancelled)
    assert is_verified(made)
    again = made.run_async(None, ONES)
    assert again is not None
    np.testing.assert_array_equal(again.result(60)[0], -np.tanh(ONES["x"]))
    assert not is_verified(made)


class WrongBoard(Board):
    """Wrong in memory of its own."""

    def compile(self, partitions: Sequence[Any]) -> Any:
        compiled = super().compile(partitions)
        return [_Wrong(one) for one in compiled]


class _Wrong:
    def __init__(self, one: Any) -> None:
        self.one = one

    def __call__(self, inputs: Any) -> Any:
        raise AssertionError("the board has an allocator")

    def into_memory(self, inputs: Any, memory: Any) -> Any:
        made = self.one.into_memory(inputs, memory)
        for tensor in made:
            tensor.array()[...] += 1
        return made


@pytest.mark.parametrize("provider", [OffBox(), WrongBoard()])
def test_values_on_devices_are_verified(provider: Any) -> None:
    assert found(session(provider)).provider == provider.name


def test_runs_with_values_on_devices_are_verified() -> None:
    text = model("(float[N] x) => (float[N] y) { y = Neg(x) }")
    for board, wrong in ((WrongBoard(), True), (Board(), False)):
        made = session(board, text)
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", ort_lite.OrtValue.on(board, X))
        binding.bind_output("y", "board")
        if wrong:
            with pytest.raises(VerificationError):
                made.run_with_iobinding(binding)
        else:
            made.run_with_iobinding(binding)
            assert made.verification.ok and made.verification.partitions[0].calls == 1
            report = made.verification
            made.run_with_iobinding(binding)
            made.run(None, {"x": X})
            assert made.verification is report
            assert not is_verified(made)


def test_devices_that_go_on_after_failures_are_verified() -> None:
    text = model("(float[3] x) => (float[3] y) { a = Abs(x)  b = Tanh(a)  y = Neg(b) }")
    first, second = Board(lambda node: node.op_type == "Abs"), Board(lambda node: node.op_type == "Tanh", device_id=1)
    made = ort_lite.InferenceSession(text, providers=[(first, {"on_run_error": "next"}), second], verify="first")
    made.run(None, {"x": X})
    assert [(part.calls, part.skipped) for part in made.verification.partitions] == [(1, ""), (1, "")]


class Frail(OtherDevice):
    """Fails in each run."""

    def compile(self, partitions: Sequence[Any]) -> Any:
        def fail(inputs: Any) -> Any:
            raise ValueError("out of luck")

        return [fail for _ in partitions]


def test_what_the_next_provider_ran_is_not_compared() -> None:
    made = ort_lite.InferenceSession(CHAIN, providers=[(Frail(), {"on_run_error": "next"})], verify="first")
    np.testing.assert_array_equal(made.run(None, FEED)[0], made.run(None, FEED)[0])
    assert made.verification.partitions[0].skipped == "the next provider ran it"


class Mine(Off):
    """Can be made again without arguments."""

    def __init__(self, **options: Any) -> None:
        super().__init__(shifted("Tanh"))


@pytest.mark.parametrize("move", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_is_verified_with_the_same_tolerances(move: Callable[[Any], Any], tmp_path: Path) -> None:
    onnx.save(CHAIN, tmp_path / "model.onnx")
    made = session(Mine(), tmp_path / "model.onnx")
    assert found(move(made)).node == "Tanh_0"
    wide = session(Mine(), tmp_path / "model.onnx", Verification(atol=1))
    wide.run(None, FEED)
    again = move(wide)
    assert is_verified(again)
    again.run(None, FEED)
    assert again.verification.ok


def test_other_parameters_and_providers_are_verified_again(tmp_path: Path) -> None:
    text = model("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w)  y = Tanh(a) }")
    onnx.save(text, tmp_path / "model.onnx")
    made = session(Negative(), tmp_path / "model.onnx")
    made.run(None, {"x": np.abs(X)})
    made.set_providers([Mine()])
    assert found(made, {"x": X}).node == "Tanh_0"
    made.set_providers([Negative()])
    made.load_params({"w": np.array([1, 2, -3], np.float32)})
    assert found(made, {"x": np.abs(X)}).node == "Tanh_0"


def test_overridden_initializers_are_verified_on_their_own() -> None:
    text = model("(float[3] x, float[3] w) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w)  y = Tanh(a) }")
    made = session(Negative(), text)
    made.run(None, {"x": np.abs(X)})
    assert found(made, {"x": np.abs(X), "w": -X}).node == "Tanh_0"
    made.run(None, {"x": np.abs(X), "w": np.abs(X)})
    made.run(None, {"x": np.abs(X), "w": -X})


def test_saved_contexts_run_and_the_warning_names_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = session(Saving(), WEIGHTED)
    first.save_compiled(tmp_path / "compiled.onnx")
    np.testing.assert_array_equal(first.run(None, {"x": X})[0], X * [1, 2, 3])
    assert first.verification.ok and not first.verification.omissions
    made = session(Saving(), tmp_path / "compiled.onnx")
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X * [1, 2, 3])
    (message,) = caplog.messages
    assert "SavingExecutionProvider_0 (it was compiled before, its nodes are not known)" in message
    assert not is_verified(made)


def test_prepared_programs_are_read_as_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ort_lite.session.created.WORTH_SECONDS", 0.0)
    onnx.save(CHAIN, tmp_path / "model.onnx")
    entry = {"ort_lite.creation_trace": "1"}
    session("CPUExecutionProvider", str(tmp_path / "model.onnx"), None, entry)
    made = session("CPUExecutionProvider", str(tmp_path / "model.onnx"), entries=entry)
    assert "found yes" in str(made.creation_trace)
    np.testing.assert_array_equal(made.run(None, ONES)[0], np.tanh(ONES["x"]) ** 2 - 1)


def test_parallel_and_profiled_runs_are_verified(tmp_path: Path) -> None:
    text = model("(float[3] x) => (float[3] y) { a = Abs(x)  b = Tanh(x)  y = Add(a, b) }")
    options = ort_lite.SessionOptions()
    options.execution_mode, options.inter_op_num_threads = ort_lite.ExecutionMode.ORT_PARALLEL, 2
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    provider = Off(shifted("Tanh"), takes=lambda node: node.op_type != "Add")
    made = ort_lite.InferenceSession(text, options, providers=[provider], verify="first")
    assert found(made, {"x": X}).node == "Tanh_0"
    provider.change = lambda node, y: y
    made.run(None, {"x": X})
    assert made.verification.ok
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.abs(X) + np.tanh(X))
    made.discard_profile()


def test_a_closed_session_says_so() -> None:
    made = session(Off(shifted("Tanh")))
    made.close()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run(None, FEED)
