"""Device memory that runs out: OutOfMemory with the bytes wanted, in use and allowed, and the tensor or the partition."""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite import OrtValue
from ort_lite.errors import CompileError, OutOfMemory
from ort_lite.memory.allocators import GRAIN, ArenaAllocator
from ort_lite.provider import Device, Partition
from tests.compat.test_device_values import TEXT, Board, OnBoard, Transfer, X, session
from tests.load.models import proto

LARGE = np.ones(200, np.float32)
LIMIT = 1024


def run_out(work: Callable[[], object]) -> OutOfMemory:
    with pytest.raises(OutOfMemory) as caught:
        work()
    return caught.value


def sizes(error: OutOfMemory) -> tuple[int | None, int | None, int | None]:
    return error.wanted, error.in_use, error.limit


def test_an_input_without_room_is_named() -> None:
    board = Board(limit=3 * GRAIN)
    error = run_out(lambda: session(board).run(None, {"x": LARGE}))
    assert str(error).startswith(
        "BoardExecutionProvider: copy of 'x', cpu:0 -> board:0 by Transfer, allocate: allocator of board:0"
    )
    assert sizes(error) == (LIMIT, 0, 3 * GRAIN)


def test_an_output_without_room_is_named() -> None:
    board = Board(limit=LIMIT)
    error = run_out(lambda: session(board).run(None, {"x": LARGE}))
    assert str(error).startswith("BoardExecutionProvider_0 (BoardExecutionProvider): output 'y', allocate: ")
    assert sizes(error) == (LIMIT, LIMIT, LIMIT)
    del error
    gc.collect()
    assert board.memory.bytes_in_use == 0


def test_an_ort_value_without_room_is_named() -> None:
    board = Board(limit=LIMIT)
    held = OrtValue.on(board, X)
    error = run_out(lambda: OrtValue.on(board, LARGE))
    assert "copy of 'an OrtValue'" in str(error)
    assert sizes(error) == (LIMIT, GRAIN, LIMIT)
    assert held.numpy().tolist() == X.tolist()


class Full:
    """Memory of a driver that has none."""

    def allocate(self, nbytes: int) -> Any:
        raise MemoryError("the driver says no")

    def free(self, handle: Any) -> None:
        """Nothing to do."""


def test_a_driver_that_refuses_is_out_of_memory_with_sizes() -> None:
    board = Board()
    board.memory = ArenaAllocator(board.device, limit=1 << 20, source=Full())
    error = run_out(lambda: session(board).run(None, {"x": X}))
    assert (
        "asked of its source, which refused; 0 are in use and 0 held of at most 1,048,576: MemoryError: the driver says no"
        in str(error)
    )
    assert sizes(error) == (GRAIN, 0, 1 << 20)


class Counted(Full):
    """An allocator of a provider's own, with statistics."""

    device = Device("board")

    def statistics(self) -> dict[str, int]:
        return {"InUse": 500, "Limit": 600}


@pytest.mark.parametrize(
    ("memory", "text", "expected"),
    [
        (Counted(), "12 bytes wanted, 500 bytes in use, 600 bytes allowed", (12, 500, 600)),
        (type("Uncounted", (Full,), {"device": Device("board")})(), "12 bytes wanted", (12, None, None)),
    ],
)
def test_sizes_are_those_of_the_allocators_statistics(memory: Any, text: str, expected: Any) -> None:
    board = Board()
    board.memory = memory
    error = run_out(lambda: session(board).run(None, {"x": X}))
    assert str(error).endswith(f"allocate failed: MemoryError: the driver says no ({text})")
    assert sizes(error) == expected


def raise_memory_error(*arguments: Any) -> Any:
    raise MemoryError("64 bytes")


def test_a_partition_that_runs_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnBoard, "into_memory", raise_memory_error)
    error = run_out(lambda: session(Board()).run(None, {"x": X}))
    assert str(error) == "BoardExecutionProvider_0 (BoardExecutionProvider) failed: MemoryError: 64 bytes"


def test_a_copy_that_runs_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transfer, "copy", raise_memory_error)
    error = run_out(lambda: session(Board()).run(None, {"x": X}))
    assert "copy of 'y', board:0 -> cpu:0 by Transfer, failed: MemoryError: 64 bytes" in str(error)


class Hungry(Board):
    """A provider whose compiled partition needs more memory than there is."""

    def compile(self, partitions: Sequence[Partition]) -> Any:
        self.memory.allocate(4 * LIMIT)


def test_a_partition_that_cannot_be_compiled_for_want_of_memory_is_named() -> None:
    error = run_out(lambda: session((Hungry(limit=LIMIT), {"on_compile_error": "raise"})))
    assert isinstance(error, CompileError)
    assert str(error).startswith(
        "BoardExecutionProvider could not compile BoardExecutionProvider_0: OutOfMemory: allocator of board:0"
    )
    assert sizes(error) == (4 * LIMIT, 0, LIMIT)


@pytest.mark.parametrize(("policy", "provider"), [("on_run_error", Board), ("on_compile_error", Hungry)])
def test_the_next_provider_takes_over_where_the_user_wants_it(policy: str, provider: type[Board]) -> None:
    made = ort_lite.InferenceSession(proto(TEXT), providers=[(provider(limit=LIMIT), {policy: "next"}), "CPUExecutionProvider"])
    np.testing.assert_array_equal(made.run(None, {"x": LARGE})[0], -LARGE)
