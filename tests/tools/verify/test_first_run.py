"""`InferenceSession(..., verify="first")`: runs are compared with the CPU provider until one passes."""

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.graph import Node
from ort_lite.options.config_keys import KEEP_CONSTANTS, VERIFY
from ort_lite.tools.verify import Tolerance, Verification
from tests.provider.numpy_provider import NumpyProvider
from tests.threads import run_together
from tests.tools.verify.first_runs import NEGATIVE, ONES, WEIGHTED, Negative, X, found, is_verified, ready_of, session
from tests.tools.verify.providers import CHAIN, FEED, LOOP, Off, model, shifted
from tests.tools.verify.test_offline import Absorbing


class Counting(Off):
    """Wrong by `change`, and counts its runs."""

    def __init__(self, change: Callable[[Node, Any], Any] = lambda node, y: y, **more: Any) -> None:
        super().__init__(change, **more)
        self.runs = 0

    def _evaluate(self, partition: Any, inputs: Any) -> list[Any]:
        self.runs += 1
        return super()._evaluate(partition, inputs)


def test_a_run_that_passes_is_the_last_one_to_be_verified() -> None:
    provider = Counting()
    made = session(provider)
    assert is_verified(made)
    (y,) = made.run(None, FEED)
    assert not is_verified(made) and ready_of(made).verifier is None
    report = made.verification
    assert report.ok and [(part.calls, part.skipped) for part in report.partitions] == [(1, "")]
    np.testing.assert_array_equal(made.run(None, FEED)[0], y)
    assert provider.runs == 2 and made.verification is report


def test_runs_are_verified_until_one_passes() -> None:
    made = session(Negative(), NEGATIVE)
    assert found(made).node == found(made).node == "Tanh_0"
    np.testing.assert_array_equal(made.run(None, ONES)[0], -np.tanh(ONES["x"]))
    np.testing.assert_array_equal(made.run(None, FEED)[0], -(np.tanh(FEED["x"]) + 1))  # a difference that nobody looks for


def test_other_shapes_are_not_verified_once_a_run_has_passed() -> None:
    made = session(Off(lambda node, y: y + np.float32(len(y) > 1)))
    made.run(None, ONES)
    made.run(None, {"x": np.ones((2, 3), np.float32)})
    assert found(session(Off(lambda node, y: y + np.float32(len(y) > 1))), {"x": np.ones((2, 3), np.float32)}).node == "Abs_0"


def test_the_error_says_what_to_do() -> None:
    error = found(session(Off(shifted("Tanh"))))
    assert (error.provider, error.node, error.report.ok) == ("OffExecutionProvider", "Tanh_0", False)
    for part in (
        "OffExecutionProvider_0 (OffExecutionProvider) gives other results than CPUExecutionProvider: 'y' float32[1, 3]",
        "first bad node Tanh 'Tanh_0', with the nodes before it: 'c' float32[1, 3] 3 of 3 elements off, worst at [0, ",
        ": got -0.",
        ", the CPU -0.",
        "if OffExecutionProvider computes in a lower precision, set its option for the precision",
        'placement_rules=[ort_lite.place("CPUExecutionProvider", name="Tanh_0")]',
        "verify=ort_lite.Verification(rtol=..., atol=...)",
    ):
        assert part in str(error)
    advised = [ort_lite.place("CPUExecutionProvider", name="Tanh_0")]
    made = ort_lite.InferenceSession(CHAIN, providers=[Off(shifted("Tanh"))], placement_rules=advised, verify="first")
    made.run(None, FEED)
    assert made.verification.ok and len(made.verification.partitions) == 2


# Providers that are wrong


def rounded(x: Any) -> Any:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def convolve(x: Any, w: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w, dtype=np.float32)


class Convolving(NumpyProvider):
    """Computes convolutions in bfloat16 unless `precision` is "f32"."""

    name = "ConvolvingExecutionProvider"

    def compile(self, partitions: Sequence[Any]) -> Any:
        keep = self.options.get("precision") == "f32"
        return [lambda inputs, p=partition: self._evaluate(p, inputs, keep) for partition in partitions]

    def _evaluate(self, partition: Any, inputs: Sequence[Any], keep: bool) -> list[Any]:
        values = dict(zip(partition.inputs, inputs, strict=True))
        for node in partition.nodes:
            given = [values[v] if v.constant is None else v.constant for v in node.inputs]
            if node.op_type == "Conv":
                values[node.output] = convolve(*(given if keep else map(rounded, given)))
            else:
                values[node.output] = np.maximum(given[0], 0)
        return [values[value] for value in partition.outputs]


def convolutions() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    text = "(float[1,3,8,8] x) => (float[1,4,4,4] y) { r = Relu(x)  a = Conv(r, v)  b = Relu(a)  y = Conv(b, w) }"
    made = model(text)
    for name, shape in {"v": (4, 3, 3, 3), "w": (4, 4, 3, 3)}.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32), name))
    return made, {"x": rng.standard_normal((1, 3, 8, 8), np.float32)}


def test_convolutions_in_bfloat16_are_found_and_their_option_mends_them() -> None:
    text, feed = convolutions()
    error = found(session(Convolving(operators=("Conv", "Relu")), text), feed)
    assert (error.provider, error.node) == ("ConvolvingExecutionProvider", "Conv_0")
    assert error.report.wrong[0].culprit.tensor.greatest_relative > 1e-3
    made = session(Convolving(operators=("Conv", "Relu"), precision="f32"), text)
    made.run(None, feed)
    assert made.verification.ok


def test_wider_tolerances_accept_bfloat16() -> None:
    text, feed = convolutions()
    wide = Verification(tolerances={"float32": Tolerance(rtol=0.02, of_greatest=0.02)})
    made = session(Convolving(operators=("Conv", "Relu")), text, wide)
    made.run(None, feed)
    assert made.verification.ok and not is_verified(made)


@pytest.mark.parametrize("operators", [("Tanh", "Neg"), ("Tanh", "Neg", "Loop")])
def test_a_provider_that_is_wrong_in_the_body_of_a_loop_is_found(operators: tuple[str, ...]) -> None:
    made = session(Off(shifted("Tanh"), operators=operators), LOOP)
    error = found(made, {"x": X, "n": np.array(3)})
    assert (error.report.wrong[0].graph, error.node) == ("Loop 'Loop_0'.body", "Tanh_0")
    assert is_verified(made)


def test_partitions_that_the_run_did_not_compare_are_named(caplog: pytest.LogCaptureFixture) -> None:
    made = session(Off(shifted("Tanh"), operators=("Tanh", "Neg")), LOOP)
    np.testing.assert_array_equal(made.run(None, {"x": X, "n": np.array(0)})[0], X)
    (message,) = caplog.messages
    assert message == ("the first run was verified, but not all of it was compared: OffExecutionProvider_0 (it did not run)")
    assert not is_verified(made)


def test_a_run_that_fails_is_no_first_run() -> None:
    failing = [True]

    def change(node: Node, y: Any) -> Any:
        if failing:
            raise ValueError("out of luck")
        return y

    made = session(Off(change))
    with pytest.raises(RuntimeException, match="out of luck"):
        made.run(None, FEED)
    failing.clear()
    assert is_verified(made)
    made.run(None, FEED)
    assert made.verification.ok and not is_verified(made)


# Ways to ask for it


def test_the_config_entry_asks_for_it_too(caplog: pytest.LogCaptureFixture) -> None:
    assert found(session(Off(shifted("Tanh")), verify=None, entries={VERIFY: "first"})).node == "Tanh_0"
    wide = session(Off(shifted("Tanh")), verify=Verification(atol=1), entries={VERIFY: "first"})
    wide.run(None, FEED)  # the keyword prevails
    assert caplog.messages == []
    session(Off(shifted("Tanh")), verify=None).run(None, FEED)


@pytest.mark.parametrize("verify", ["partition", "1", True, 1, {"rtol": 1}])
def test_other_values_are_refused_before_the_model_is_read(verify: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"verify=.*: expected 'first' or an ort_lite\.Verification"):
        session(Off(shifted("Tanh")), "no such file", verify)


def test_other_entries_and_types_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"ort_lite\.verify is '1'; expected 'first'"):
        session(Off(shifted("Tanh")), verify=None, entries={VERIFY: "1"})
    with pytest.raises(InvalidArgument, match="no element type is called 'float'"):
        session(Off(shifted("Tanh")), verify=Verification(tolerances={"float": Tolerance()}))


def test_a_verified_run_before_it_is_another_matter() -> None:
    made = session(Off(shifted("Sub")))
    made.run(None, FEED, verify=Verification(atol=1))
    assert is_verified(made) and found(made).node == "Sub_0"


# Threads


def test_several_first_runs_are_each_verified() -> None:
    inside, thread = threading.Barrier(6), threading.local()

    def change(node: Node, y: Any) -> Any:
        if not hasattr(thread, "waited"):  # the first node of this thread's run
            thread.waited = inside.wait(60)
        return y + np.float32(len(y) == 2 and node.op_type == "Sub")

    made = session(Off(change))
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        x = np.full((1 + k % 2, 3), k, np.float32)
        if k % 2:
            results[k] = found(made, {"x": x}).node
        else:
            made.run(None, {"x": x})
            results[k] = made.verification.ok

    run_together(work, 6)
    assert results == {k: "Sub_0" if k % 2 else True for k in range(6)}
    assert not is_verified(made)


class Delaying(Absorbing):
    """Absorbs its constants. With negative inputs, the first run waits for `passed`, and all runs are wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.passed = threading.Event(), threading.Event()

    def compile(self, partitions: Sequence[Any]) -> Any:
        return [_Delayed(one, self) for one in super().compile(partitions)]


class _Delayed:
    def __init__(self, one: Any, provider: Delaying) -> None:
        self.one, self.provider, self.absorbed = one, provider, one.absorbed

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        is_wrong = bool((inputs[0] < 0).any())
        if is_wrong:
            self.provider.inside.set()
            assert self.provider.passed.wait(60)
        return [y + np.float32(is_wrong) for y in self.one(inputs)]


def test_constants_stay_as_long_as_a_run_is_being_verified() -> None:
    provider = Delaying()
    made = session(provider, WEIGHTED)

    def work(k: int) -> None:
        if k:
            error = found(made, {"x": -np.ones(3, np.float32)})
            assert (error.node, error.report.wrong[0].bisection) == ("Mul_0", "")
        else:
            assert provider.inside.wait(60)
            made.run(None, {"x": np.ones(3, np.float32)})
            assert made.memory()["constants"] == 12 and not is_verified(made)
            provider.passed.set()

    run_together(work, 2)
    assert made.memory()["constants"] == 0


# Memory


def test_consumed_constants_stay_until_a_run_has_passed() -> None:
    made = session(Absorbing(), WEIGHTED)
    assert made.memory()["constants"] == 12
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X * [1, 2, 3])
    assert made.verification.ok and not made.verification.omissions
    assert made.memory()["constants"] == 0
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X * [1, 2, 3])
    kept = session(Absorbing(), WEIGHTED, entries={KEEP_CONSTANTS: "1"})
    kept.run(None, {"x": X})
    assert kept.memory()["constants"] == 12


def test_a_limit_counts_them_as_long_as_they_are_there() -> None:
    made = session(Absorbing(), WEIGHTED, entries={"session.memory_limit_bytes": "1000000"})
    budget = made._state.session_memory.budget
    assert budget.held == 12
    made.run(None, {"x": X})
    assert budget.held == 0


def test_a_session_without_other_providers_has_nothing_to_verify() -> None:
    made = session("CPUExecutionProvider")
    assert not is_verified(made)
    made.run(None, FEED)
    assert made.verification is None


def test_a_session_that_never_ran_is_freed_at_once() -> None:
    made = session(Off(shifted("Tanh")))
    ready = weakref.ref(made._state.ready)
    gc.collect()
    gc.disable()
    try:
        del made
        assert ready() is None
    finally:
        gc.enable()
