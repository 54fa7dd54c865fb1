"""Captured calls: a binding whose values stay where they are lets partitions record a call once, and replay it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.errors import ProviderError
from ort_lite.provider import Partition
from tests.execute.burner import Burner, Burning, Fuel, session
from tests.provider.texts import plain

X = np.array([1, -2, 3], np.float32)
CHAIN = "main (float[N] x) => (float[N] y) { a = Neg(x)  b = Abs(a)  y = Neg(b) }"
BRANCHES = "main (float[N] x) => (float[N] y) { a = Neg(x)  b = Abs(x)  c = Tanh(x)  d = Add(a, b)  y = Mul(c, d) }"


class Recorder(Burner):
    """A burner that records calls. `calls` has what was called of each partition, in order."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.calls: list[str] = []

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return [Recording(partition, self) for partition in partitions]

    def taken(self) -> list[str]:
        """Return the calls since the last time."""
        found, self.calls = self.calls, []
        return found


class Recording(Burning):
    def __init__(self, partition: Partition, recorder: Recorder) -> None:
        super().__init__(partition, recorder)
        self._recorder = recorder

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self._recorder.calls.append("call")
        return super().__call__(inputs)

    def call_donating(self, inputs: Sequence[Any], donated: frozenset[int]) -> list[Any]:
        self._recorder.calls.append("donate")
        return super().call_donating(inputs, donated)

    def capture(self, inputs: Sequence[Fuel], outputs: Sequence[Fuel]) -> Any:
        self._replay("capture", inputs, outputs)
        return partial(self._replay, "replay")

    def _replay(self, what: str, inputs: Sequence[Fuel], outputs: Sequence[Fuel]) -> None:
        self._recorder.calls.append(what)
        for y, result in zip(outputs, self._compute(inputs), strict=True):
            y.array()[...] = result.array()


def bound(text: str, recorder: Recorder, options: Any = None) -> tuple[Any, OrtValue, OrtValue]:
    binding = session(text, recorder, options=options).io_binding()
    x, y = OrtValue.on(recorder, X), OrtValue.on(recorder, np.zeros(3, np.float32))
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    return binding, x, y


def check(binding: Any, x: OrtValue, y: OrtValue, expected: Callable[[Any], Any], scale: int) -> None:
    """Run with other contents of the input."""
    x.update_inplace(X * np.float32(scale))
    binding.run()
    np.testing.assert_allclose(y.numpy(), expected(X * np.float32(scale)), rtol=1e-6)


def test_partitions_one_after_another_are_captured_in_the_second_run() -> None:
    recorder = Recorder()
    binding, x, y = bound(CHAIN, recorder)
    for scale, calls in enumerate((["call"] * 3, ["capture"] * 3, ["replay"] * 3, ["replay"] * 3), 1):
        check(binding, x, y, lambda x: -abs(x), scale)
        assert recorder.taken() == calls


@pytest.mark.parametrize("parallel", [False, True])
def test_branches_are_replayed(parallel: bool) -> None:
    options = plain()
    if parallel:
        options.execution_mode = ort_lite.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    recorder = Recorder()
    binding, x, y = bound(BRANCHES, recorder, options)
    for scale in range(1, 6):
        check(binding, x, y, lambda x: np.tanh(x) * (abs(x) - x), scale)
    assert recorder.taken() == [*["call"] * 5, *["capture"] * 5, *["replay"] * 15]


def test_what_reads_a_new_copy_in_each_run_is_not_captured() -> None:
    recorder = Recorder(lambda node: node.op_type != "Tanh")
    binding, x, y = bound(BRANCHES, recorder)
    for scale in range(1, 4):
        check(binding, x, y, lambda x: np.tanh(x) * (abs(x) - x), scale)
    assert sorted(recorder.taken()[8:]) == ["call", "replay", "replay", "replay"], "Mul reads a copy of what the CPU makes"


def test_another_input_is_captured_anew() -> None:
    recorder = Recorder()
    binding, x, y = bound(CHAIN, recorder)
    for _ in range(3):
        binding.run()
    other = OrtValue.on(recorder, X[:2])
    shorter = OrtValue.on(recorder, X[:2])
    binding.bind_ortvalue_input("x", other)
    binding.bind_ortvalue_output("y", shorter)
    recorder.taken()
    for _ in range(3):
        binding.run()
    np.testing.assert_array_equal(shorter.numpy(), -abs(X[:2]))
    np.testing.assert_array_equal(y.numpy(), -abs(X))
    assert recorder.taken() == [*["call"] * 3, *["capture"] * 3, *["replay"] * 3]
    assert x.shape() == [3]


@pytest.mark.parametrize("what", ["an input on the cpu", "an output without memory", "no binding"])
def test_runs_in_which_memory_changes_are_ordinary(what: str) -> None:
    recorder = Recorder()
    binding, x, _ = bound(CHAIN, recorder)
    if what == "an input on the cpu":
        binding.bind_cpu_input("x", X)
    elif what == "an output without memory":
        binding.bind_output("y", "burner")
    made = session(CHAIN, recorder)
    for _ in range(3):
        if what == "no binding":
            made.run_with_ort_values(None, {"x": x})
        else:
            binding.run()
    assert set(recorder.taken()) <= {"call", "donate"}


def test_each_binding_has_a_memory_of_its_own() -> None:
    recorder = Recorder()
    made = session(CHAIN, recorder)
    bindings = []
    for scale in (1, 2):
        binding, y = made.io_binding(), OrtValue.on(recorder, np.zeros(3, np.float32))
        binding.bind_ortvalue_input("x", OrtValue.on(recorder, X * np.float32(scale)))
        binding.bind_ortvalue_output("y", y)
        bindings.append((binding, y))
    for _ in range(4):
        for scale, (binding, y) in enumerate(bindings, 1):
            binding.run()
            np.testing.assert_array_equal(y.numpy(), -abs(X * np.float32(scale)))
    assert recorder.taken()[6:12] == ["capture"] * 6


def test_a_verified_first_run_does_not_count() -> None:
    recorder = Recorder()
    made = session(CHAIN, recorder, verify="first")
    binding, x, y = made.io_binding(), OrtValue.on(recorder, X), OrtValue.on(recorder, X)
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for scale in range(1, 5):
        check(binding, x, y, lambda x: -abs(x), scale)
    assert recorder.taken() == [*["call"] * 6, *["capture"] * 3, *["replay"] * 3]


def test_what_capture_returns_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "capture", lambda self, inputs, outputs: None)
    binding, _, _ = bound(CHAIN, Recorder())
    binding.run()
    with pytest.raises(ProviderError, match=r"BurnerExecutionProvider\): capture returned None; expected a function"):
        binding.run()
