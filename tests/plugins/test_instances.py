"""Instances of providers: one per device and options where the class says so, and that of a session for OrtValues."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.errors import ProviderError
from ort_lite.provider import ExecutionProvider
from ort_lite.provider.accelerators import count
from tests.compat.test_device_values import TEXT, Board, X
from tests.load.models import proto
from tests.threads import run_together


class Shared(Board):
    """A board that belongs to its instance."""

    name: ClassVar[str] = "SharedExecutionProvider"
    shares_device: ClassVar[bool] = True
    made: ClassVar[list[Any]] = []

    def __init__(self, device_id: int | str = 0, limit: int | str = 0, **unknown: Any) -> None:
        ExecutionProvider.__init__(self, **unknown)
        super().__init__(device_id=count(self, "device_id", device_id), limit=count(self, "limit", limit) or None)
        self.options = {"device_id": int(device_id), "limit": int(limit)}
        Shared.made.append(weakref.ref(self))

    def get_options(self) -> dict[str, Any]:
        return self.options


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    ort_lite.register_provider(Shared.name, Shared)
    yield
    ort_lite.unregister_provider(Shared.name)
    gc.collect()


def session(*providers: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(TEXT), providers=[*providers, "CPUExecutionProvider"])


def provider_of(made: Any) -> Any:
    if isinstance(made, OrtValue):
        assert made.device_tensor is not None
        return made.device_tensor.provider
    return next(iter(made.explain().assignment.providers.values()))


@pytest.mark.parametrize("other", [Shared.name, (Shared.name, {"device_id": "0"}), (Shared, {"limit": 0}), Shared])
def test_sessions_share_an_instance(other: Any) -> None:
    first, second = session((Shared.name, {"device_id": 0})), session(other)
    assert provider_of(first) is provider_of(second)
    assert len(provider_of(first).configured) == 2
    assert first.run(None, {"x": X})[0].tolist() == second.run(None, {"x": X})[0].tolist() == [-1, 2, -3]


def test_an_instance_that_a_user_created_is_shared_too() -> None:
    mine = Shared(device_id=1)
    first, second = session(mine), session((Shared, {"device_id": "1"}))
    assert provider_of(first) is provider_of(second) is mine


def test_other_options_have_another_instance() -> None:
    sessions = [session((Shared, options)) for options in ({}, {"device_id": 1}, {"limit": 1 << 30})]
    assert len({id(provider_of(each)) for each in sessions}) == 3


def test_an_instance_ends_with_its_last_session() -> None:
    first, second = session(Shared), session(Shared)
    reference = weakref.ref(provider_of(first))
    del first
    gc.collect()
    assert reference() is provider_of(second)
    del second
    gc.collect()
    assert reference() is None


def test_values_and_sessions_share_an_instance() -> None:
    value = OrtValue.ortvalue_from_numpy(X, "board", 0)
    made = session(Shared)
    assert provider_of(made) is provider_of(value)
    (result,) = made.run_with_ort_values(None, {"x": value})
    assert result.numpy().tolist() == [-1, 2, -3]
    assert not [line for line in provider_of(made).log if line == "cpu:0 -> board:0"][1:], "one copy: that of the value"


def test_a_value_asks_the_provider_of_a_session_first() -> None:
    """Also one whose class shares nothing, and is not registered."""
    board = Board(device_id=1)
    made = session(board)
    value = OrtValue.ortvalue_from_numpy(X, "board", 1)
    assert provider_of(value) is board
    made.run_with_ort_values(None, {"x": value})
    assert board.log.count("cpu:0 -> board:1") == 1
    del made, board, value
    gc.collect()
    assert isinstance(provider_of(OrtValue.ortvalue_from_numpy(X, "board", 1)), Shared)


def test_the_session_that_was_created_last_is_asked() -> None:
    boards = [Board(), Board()]
    sessions = [session(board) for board in boards]
    assert provider_of(OrtValue.ortvalue_from_numpy(X, "board")) is boards[1]
    assert len(sessions) == 2


def test_two_entries_that_mean_one_instance_are_one() -> None:
    made = session(Shared, (Shared, {"device_id": 0}))
    assert list(made.explain().assignment.providers) == [Shared.name, "CPUExecutionProvider"]


def test_threads_create_one_instance() -> None:
    Shared.made.clear()
    sessions: list[Any] = []
    run_together(lambda _: sessions.append(session((Shared, {"device_id": 1}))), 4)
    assert len({id(provider_of(each)) for each in sessions}) == len(Shared.made) == 1


def test_an_instance_that_cannot_be_created_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(ProviderError, match="SharedExecutionProvider: device_id is 'x'"):
            session((Shared, {"device_id": "x"}))
    assert session(Shared).run(None, {"x": np.array([2], np.float32)})[0].tolist() == [-2]
