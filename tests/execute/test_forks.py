"""Providers whose device does not outlive a fork: a named error in the child, and instances of its own."""

import os
import re
import signal
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.provider import Device
from ort_lite.session.composite import CompositeProvider
from tests.compat.test_device_values import Board, OnBoard, Transfer, X, session
from tests.provider.numpy_provider import NumpyProvider

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork exists on POSIX systems only")
LOST = r"does not outlive a fork\. This instance belongs to process \d+, and this is process \d+: create sessions"


class Driver(Transfer):
    """Copies of a device that waits forever in another process than the one that opened it."""

    def __init__(self, device: Device, log: list[str]) -> None:
        super().__init__(device, log)
        self.process = os.getpid()

    def can_copy(self, source: Device, destination: Device) -> bool:
        self.use()
        return super().can_copy(source, destination)

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.use()
        return super().copy(value, source, destination)

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Any) -> Any:
        self.use()
        return super().copy_into(value, source, destination, memory)

    def use(self) -> None:
        while os.getpid() != self.process:
            signal.pause()


class Fragile(Board):
    name: ClassVar[str] = "FragileExecutionProvider"
    outlives_fork: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.transfer: Driver = Driver(self.device, self.log)

    def on_run_start(self, options: Any) -> None:
        self.transfer.use()

    def sync(self) -> None:
        self.transfer.use()


def in_child(work: Callable[[], object]) -> str:
    """Call `work` in a forked child. Return its result or error as text, or "" if the child does not end."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            text = str(work())
        except BaseException as error:  # noqa: BLE001  the child must not go on with the tests
            text = f"{type(error).__name__}: {error}"
        os.write(sink, text.encode())
        os._exit(0)
    os.close(sink)
    with open(source) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def run(made: ort_lite.InferenceSession) -> Any:
    return made.run(None, {"x": X})[0].tolist()


def is_lost(text: str) -> bool:
    return re.match(rf"ProviderError: .*FragileExecutionProvider: its device {LOST}", text) is not None


def test_a_run_in_the_child_is_a_named_error() -> None:
    made = session(Fragile())
    assert run(made) == [-1, 2, -3]
    assert is_lost(in_child(lambda: run(made)))
    assert run(made) == [-1, 2, -3], "the parent goes on"


def test_a_session_that_never_ran_is_lost_too() -> None:
    made = session(Fragile())
    assert is_lost(in_child(lambda: run(made)))


def test_values_and_copies_in_the_child_are_named_errors() -> None:
    provider = Fragile()
    value = OrtValue.on(provider, X)
    assert is_lost(in_child(value.numpy))
    assert is_lost(in_child(lambda: value.update_inplace(X)))
    assert is_lost(in_child(lambda: OrtValue.on(provider, X)))
    made = session(provider)
    assert is_lost(in_child(lambda: made.run_with_ort_values(None, {"x": value})))


def test_values_that_die_in_the_child_free_nothing_there() -> None:
    provider = Fragile()
    values = [OrtValue.on(provider, X)]

    def drop() -> int:
        values.clear()
        return provider.memory.bytes_in_use

    assert in_child(drop) == "256"
    assert drop() == 0


def test_the_child_makes_sessions_of_its_own() -> None:
    made, provider = session(Fragile()), Fragile()
    assert in_child(lambda: run(session(Fragile()))) == "[-1.0, 2.0, -3.0]"
    assert is_lost(in_child(lambda: session(provider)))
    made.close()


def test_the_child_finds_no_instance_of_its_parent() -> None:
    ort_lite.register_provider(Fragile.name, Fragile)
    try:
        made = session(Fragile())
        value = OrtValue.ortvalue_from_numpy(X, "board")
        made.run(None, {"x": value})
        assert in_child(lambda: OrtValue.ortvalue_from_numpy(X, "board").numpy().tolist()) == "[1.0, -2.0, 3.0]"
    finally:
        ort_lite.unregister_provider(Fragile.name)


class NumpyFragile(NumpyProvider):
    name: ClassVar[str] = Fragile.name
    outlives_fork: ClassVar[bool] = False


class Stateful(Fragile):
    """A provider with a state, which the child must not release."""

    concurrency: ClassVar[str] = "serial"

    def compile(self, partitions: Any) -> Any:
        return [WithState(partition, self) for partition in partitions]


class WithState(OnBoard):
    def create_state(self) -> Any:
        return object()

    def release_state(self, state: Any) -> None:
        self.board.log.append("release")

    def into_memory(self, inputs: Any, memory: Any, state: Any = None) -> Any:
        return super().into_memory(inputs, memory)


def test_states_of_the_parent_are_not_released_in_the_child() -> None:
    provider = Stateful()
    made = session(provider)
    made.run(None, {"x": X})

    def close() -> bool:
        made.close()
        return "release" in provider.log

    assert in_child(close) == "False"
    assert close()


def test_a_child_of_a_composite_is_lost_too() -> None:
    made = session(CompositeProvider([NumpyFragile()]))
    assert run(made) == [-1, 2, -3]
    assert f"FragileExecutionProvider: its device {LOST[:20]}" in in_child(lambda: run(made))


def test_another_provider_runs_in_the_child() -> None:
    made = session(NumpyProvider())
    assert in_child(lambda: run(made)) == "[-1.0, 2.0, -3.0]"
    assert NumpyProvider.outlives_fork and "_process" not in vars(NumpyProvider())
