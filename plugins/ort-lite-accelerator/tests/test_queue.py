"""The accelerator's queue in sessions: bound runs return before the card has finished, and waits raise its errors."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider, kernels
from ort_lite_accelerator.memory import CardTransfer
from ort_lite_accelerator.queue import CardQueue

import ort_lite
from ort_lite.errors import DeadlineExceeded, RuntimeException
from tests.threads import join

STEP = """<ir_version: 8, opset_import: ["": 17]> main (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {0, 2, 1, 0}> { y = MatMul(x, w) }"""
BROKEN = r"AcceleratorExecutionProvider_0 \(AcceleratorExecutionProvider.*\) failed: ZeroDivisionError: the card is broken"
X = np.array([[1, 3]], np.float32)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A gate in front of the card's kernels: they begin once it is set."""
    opened = threading.Event()
    monkeypatch.setattr(CardQueue, "launch", lambda queue: opened.wait(60))
    yield opened
    opened.set()


def session(provider: Any = None) -> ort_lite.InferenceSession:
    providers = [provider or AcceleratorExecutionProvider(), "CPUExecutionProvider"]
    return ort_lite.InferenceSession(onnx.parser.parse_model(STEP), providers=providers)


def bound(made: ort_lite.InferenceSession, x: Any = X) -> ort_lite.IOBinding:
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "npu", 0)
    return binding


def run_and_wait(made: ort_lite.InferenceSession, binding: ort_lite.IOBinding) -> None:
    made.run_with_iobinding(binding)
    binding.synchronize_outputs()


def step(x: Any, times: int = 1) -> Any:
    for _ in range(times):
        x = x @ np.array([[0, 2], [1, 0]], np.float32)
    return x


def break_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise ZeroDivisionError("the card is broken")

    monkeypatch.setitem(kernels.KERNELS, "MatMul", broken)


# When calls return


def test_chained_bound_runs_copy_nothing_and_return_before_the_card_has_begun(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, copies = AcceleratorExecutionProvider(), list[str]()
    made, value = session(card), ort_lite.OrtValue.on(card, X)

    def counting(name: str) -> Any:
        right = getattr(CardTransfer, name)

        def counted(*given: Any) -> Any:
            copies.append(name)
            return right(*given)

        return counted

    for name in ("copy", "copy_into", "overwrite"):
        monkeypatch.setattr(CardTransfer, name, counting(name))
    binding = bound(made)
    for _ in range(10):
        binding.bind_ortvalue_input("x", value)
        made.run_with_iobinding(binding)
        value = binding.get_outputs()[0]
    assert copies == []
    gate.set()
    binding.synchronize_outputs()
    np.testing.assert_array_equal(value.numpy(), step(X, 10))


def test_chained_bound_runs_on_a_slow_card_overlap_with_the_host() -> None:
    made = session(AcceleratorExecutionProvider(kernel_ms=20))
    binding, begin = bound(made), time.perf_counter()
    for _ in range(10):
        made.run_with_iobinding(binding)
    returned = time.perf_counter()
    binding.synchronize_outputs()
    finished = time.perf_counter()
    assert finished - begin >= 0.2
    assert returned - begin < finished - begin - 0.02


def test_a_run_with_ort_values_returns_early_and_reading_waits(gate: threading.Event) -> None:
    made = session()
    binding = bound(made)
    made.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    binding.bind_ortvalue_input("x", value)
    made.run_with_iobinding(binding)
    read: list[Any] = []
    reader = threading.Thread(target=lambda: read.append(binding.get_outputs()[0].numpy()))
    reader.start()
    assert not read
    gate.set()
    join(reader)
    np.testing.assert_array_equal(read[0], step(X, 2))


def test_a_bound_array_may_be_overwritten_as_soon_as_the_call_returns(gate: threading.Event) -> None:
    made, x = session(), X.copy()
    first, second = bound(made, x), bound(made, x)
    made.run_with_iobinding(first)
    x[...] = 5
    made.run_with_iobinding(second)
    x[...] = np.nan
    gate.set()
    np.testing.assert_array_equal(first.copy_outputs_to_cpu()[0], step(X))
    np.testing.assert_array_equal(second.copy_outputs_to_cpu()[0], step(np.full_like(X, 5)))


def test_an_output_bound_to_its_own_input_is_written_after_it_is_read(gate: threading.Event) -> None:
    card = AcceleratorExecutionProvider()
    made, value = session(card), ort_lite.OrtValue.on(card, X)
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", value)
    for _ in range(3):
        made.run_with_iobinding(binding)
    gate.set()
    np.testing.assert_array_equal(value.numpy(), step(X, 3))


def test_a_value_of_another_instance_is_waited_for_by_the_queue(gate: threading.Event) -> None:
    first, second = session(), session()
    binding = bound(first)
    first.run_with_iobinding(binding)
    last = second.io_binding()
    last.bind_ortvalue_input("x", binding.get_outputs()[0])
    last.bind_output("y", "npu", 0)
    second.run_with_iobinding(last)
    gate.set()
    np.testing.assert_array_equal(last.copy_outputs_to_cpu()[0], step(X, 2))


def test_a_value_that_another_instance_reads_is_overwritten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    card, slow = AcceleratorExecutionProvider(), AcceleratorExecutionProvider(kernel_ms=100)
    made, value = session(slow), ort_lite.OrtValue.on(card, X)
    binding = bound(made)
    binding.bind_ortvalue_input("x", value)
    made.run_with_iobinding(binding)
    value.update_inplace(np.full_like(X, np.nan))
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], step(X))


# Errors


def test_an_error_of_the_card_surfaces_once_at_a_wait_and_at_every_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session()
    binding = bound(made)
    with monkeypatch.context() as patch:
        break_card(patch)
        made.run_with_iobinding(binding)
        with pytest.raises(RuntimeException, match=BROKEN) as raised:
            binding.synchronize_outputs()
    assert raised.value.provider == "AcceleratorExecutionProvider"
    binding.synchronize_outputs()
    for _ in range(2):
        with pytest.raises(RuntimeException, match=BROKEN):
            binding.get_outputs()[0].numpy()
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], step(X))


@pytest.mark.parametrize("bind", [True, False])
def test_an_error_that_nobody_waited_for_surfaces_at_the_next_run(bind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    card = AcceleratorExecutionProvider()
    made = session(card)
    binding = bound(made)
    with monkeypatch.context() as patch:
        break_card(patch)
        made.run_with_iobinding(binding)
        card.sync()
    run = (lambda: made.run_with_iobinding(binding)) if bind else lambda: made.run(None, {"x": X})
    with pytest.raises(RuntimeException, match=BROKEN):
        run()
    run()
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], step(X))


def test_a_run_raises_the_error_of_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session()
    with monkeypatch.context() as patch:
        break_card(patch)
        with pytest.raises(RuntimeException, match=BROKEN):
            made.run(None, {"x": X})
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], step(X))


def test_a_run_that_reads_a_failed_result_fails_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session()
    binding = bound(made)
    with monkeypatch.context() as patch:
        break_card(patch)
        made.run_with_iobinding(binding)
        with pytest.raises(RuntimeException, match=BROKEN):
            binding.synchronize_outputs()
    binding.bind_ortvalue_input("x", binding.get_outputs()[0])
    with pytest.raises(RuntimeException, match="the card is broken"):
        run_and_wait(made, binding)


def test_closing_a_session_waits_and_raises_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session()
    break_card(monkeypatch)
    made.run_with_iobinding(bound(made))
    with pytest.raises(RuntimeException, match=BROKEN):
        made.close()


# Deadlines


def test_a_run_that_waits_for_the_card_keeps_its_deadline(gate: threading.Event) -> None:
    made, begin = session(), time.perf_counter()
    with pytest.raises(DeadlineExceeded):
        made.run(None, {"x": X}, timeout=0.1)
    assert time.perf_counter() - begin < 5
    gate.set()
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], step(X))


def test_a_run_that_waits_for_an_earlier_one_keeps_its_deadline(gate: threading.Event) -> None:
    made = session()
    binding, options = bound(made), ort_lite.RunOptions()
    made.run_with_iobinding(binding)
    options.timeout = 0.1
    with pytest.raises(DeadlineExceeded):
        made.run(None, {"x": X}, options)
    options = ort_lite.RunOptions()
    options.timeout = 0.1
    options.add_run_config_entry("disable_synchronize_execution_providers", "0")
    with pytest.raises(DeadlineExceeded):
        made.run_with_iobinding(binding, options)
    gate.set()
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], step(X))
