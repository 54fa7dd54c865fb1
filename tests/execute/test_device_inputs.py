"""docs/specification.md, row 5.11: inputs of a device lie in memory of its provider's allocator, which gets every chunk back."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import OutOfMemory, ProviderError, RuntimeException
from ort_lite.graph import Node
from ort_lite.memory.allocators import ArenaAllocator, Chunk
from ort_lite.provider import CPU, Device
from tests.load.models import proto
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import plain

CRATE = Device("crate")
TEXT = "main (float[N] x) => (float[N] y) { a = Abs(x)  b = Neg(a)  c = Relu(b)  y = Add(c, x) }"
X = np.array([1, -2, 3], np.float32)


class Value:
    """A tensor in a chunk."""

    def __init__(self, chunk: Chunk, like: Any) -> None:
        self.chunk, self.shape, self.dtype, self.nbytes = chunk, like.shape, like.dtype, like.nbytes

    def array(self) -> Any:
        return self.chunk.data.view(self.dtype).reshape(self.shape)


class Transfer:
    def __init__(self) -> None:
        self.returned: Any = Value
        self.copies = 0

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, CRATE}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        assert destination == CPU, "into the crate it goes by copy_into"
        self.copies += 1
        return value.copy() if isinstance(value, np.ndarray) else value.array().copy()

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Chunk) -> Any:
        memory.data[:] = value.reshape(-1).view(np.uint8)
        self.copies += 1
        return self.returned(memory, value)


class Crate(NumpyProvider):
    """Its partitions read inputs out of chunks; what they make are arrays of its own."""

    name: ClassVar[str] = "CrateExecutionProvider"
    device = CRATE

    def __init__(self, takes: Any, limit: int | None = None) -> None:
        super().__init__(takes)
        self.memory, self.transfer = ArenaAllocator(CRATE, limit), Transfer()
        self.seen: list[int] = []

    def allocator(self) -> ArenaAllocator:
        return self.memory

    def data_transfer(self) -> Any:
        return self.transfer

    def compile(self, partitions: Any) -> Any:
        return [self._reading(compiled) for compiled in super().compile(partitions)]

    def _reading(self, compiled: Any) -> Any:
        def run(inputs: Any) -> Any:
            assert all(isinstance(value, (Value, np.ndarray)) for value in inputs)
            self.seen.append(self.memory.bytes_in_use)
            return compiled([value.array() if isinstance(value, Value) else value for value in inputs])

        return run


def session(provider: Crate, text: str = TEXT) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), plain(), [provider, CpuStandIn()])


def first_and_third(node: Node) -> bool:
    return node.output.name in ("a", "c")


def test_each_input_is_allocated_once_and_freed_after_its_last_reader() -> None:
    provider = Crate(first_and_third)
    made = session(provider)
    [y] = made.run(None, {"x": X})
    np.testing.assert_array_equal(y, X)
    figures = provider.memory.statistics()
    assert (figures["NumAllocs"], figures["InUse"]) == (2, 0)  # x, and b
    assert provider.seen == [256, 256]  # x was gone when b came
    assert provider.transfer.copies == 4  # as few as there can be: x and b in, a and c out
    assert made.memory()["providers"]["CrateExecutionProvider"] == {"allocator": provider.memory.statistics()}


def test_a_run_that_fails_leaves_nothing_behind() -> None:
    provider = Crate(first_and_third)
    made = session(provider)

    def fail(memory: Chunk, value: Any) -> Any:
        raise ValueError("no")

    provider.transfer.returned = fail
    with pytest.raises(RuntimeException, match="no"):
        made.run(None, {"x": X})
    provider.transfer.returned = lambda memory, value: memory
    with pytest.raises(
        ProviderError, match="copy_into returned the handle; expected a value of its own in the memory of crate:0"
    ):
        made.run(None, {"x": X})
    assert provider.memory.bytes_in_use == 0


def test_an_allocator_that_has_no_room_ends_the_run() -> None:
    provider = Crate(first_and_third, limit=1000)
    made = session(provider)
    with pytest.raises(OutOfMemory, match="allocator of crate:0: 1,280 bytes asked for"):
        made.run(None, {"x": np.ones(300, np.float32)})
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], X)


@pytest.fixture
def ran() -> Iterator[tuple[Crate, ort_lite.InferenceSession]]:
    provider = Crate(first_and_third)
    made = session(provider)
    made.run(None, {"x": X})
    assert provider.memory.statistics()["TotalAllocated"] > 0
    yield provider, made
    assert provider.memory.statistics()["TotalAllocated"] == 0


def test_trim_shrinks_it(ran: tuple[Crate, ort_lite.InferenceSession]) -> None:
    ran[1].trim()


def test_a_run_may_ask_for_it_to_shrink(ran: tuple[Crate, ort_lite.InferenceSession]) -> None:
    options = ort_lite.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "crate:0")
    ran[1].run(None, {"x": X}, options)
