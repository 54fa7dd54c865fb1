"""Device memory from a provider's allocator, for values copied to the device and for the outputs of its partitions."""

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from ort_lite.errors import OutOfMemory, ProviderError, describe, format_error
from ort_lite.execute.results import KnownShapes, MemberCall, Wrapper, check_results, witnesses
from ort_lite.graph.graph import Value
from ort_lite.provider.ask import ask, ask_object, name_errors
from ort_lite.provider.forks import ProcessMemory
from ort_lite.provider.narrowing import bytes_of
from ort_lite.provider.provider import Allocator, CompiledPartition, Device, ExecutionProvider, Partition


def memory_of(provider: ExecutionProvider) -> Allocator | None:
    """Return the provider's allocator, which frees nothing in a forked child if the device does not outlive a fork."""
    memory: Allocator | None = ask(provider, "allocator")
    return memory if memory is None or provider.outlives_fork else ProcessMemory(memory, provider)


def allocate_handle(memory: Allocator, nbytes: int, who: str) -> Any:
    """Allocate `nbytes` and return the handle. Error messages name `who`.

    Raises RuntimeException if the allocator fails, OutOfMemory with the sizes if it has no room, and ProviderError if it returns
    None.
    """
    try:
        with name_errors(f"{who} allocate"):
            handle = memory.allocate(nbytes)
    except OutOfMemory as error:
        if error.wanted is None:
            error.args = (f"{describe(error)} ({_sizes(error.set_sizes(nbytes, *_use_of(memory)))})",)
        raise
    if handle is None:
        raise ProviderError(f"{who} allocate returned None; expected a handle")
    return handle


def _use_of(memory: Allocator) -> tuple[int | None, int | None]:
    """Return the bytes in use and the limit, by the allocator's own statistics; None for what it does not count."""
    try:
        counted: Any = ask_object(memory, "statistics", "the allocator", Mapping)
    except ProviderError:  # it has none, or they fail: the first error says what went wrong
        return None, None
    used, limit = (counted.get(name) for name in ("InUse", "Limit"))
    return used if isinstance(used, int) else None, limit if isinstance(limit, int) and limit else None


def _sizes(error: OutOfMemory) -> str:
    known = {"wanted": error.wanted, "in use": error.in_use, "allowed": error.limit}
    return ", ".join(f"{nbytes:,} bytes {what}" for what, nbytes in known.items() if nbytes is not None)


def free_with(made: Any, memory: Allocator, handle: Any, who: str, device: Device) -> None:
    """Free the handle when `made`, the value that uses its memory, is garbage collected. Error messages name `who`, which made it.

    Raises ProviderError if `made` is the handle itself or does not support weak references.
    """
    wanted = f"expected a value of its own in the memory of {device}"
    if made is handle:
        raise ProviderError(f"{who} returned the handle; {wanted}")
    try:
        weakref.finalize(made, partial(memory.free, handle)).atexit = False
    except TypeError:
        came = "None" if made is None else f"a {type(made).__name__}, to which no weak reference may point"
        raise ProviderError(f"{who} returned {came}; {wanted}") from None


def free_after(error: BaseException, memory: Allocator, handle: Any, who: str) -> None:
    """Free a handle while `error` propagates. If `free` itself raises, its message is added to `error` as a note."""
    try:
        memory.free(handle)
    except Exception as failure:  # noqa: BLE001  the first error says what went wrong
        error.add_note(f"{who} free failed: {format_error(failure)}")


class Allotted(Wrapper):
    """A compiled partition on a device that writes its outputs to memory from its provider's allocator (see `ComputesIntoMemory`).

    Its inputs are followed by the shapes of `witnesses`. `function` takes (inputs, memory).
    """

    def __init__(self, function: CompiledPartition, partition: Partition, outer: Sequence[Value], memory: Allocator) -> None:
        self.function, self._who = function, f"{partition.name} ({partition.provider.name})"
        self._inputs, self._outputs = len(partition.inputs), partition.outputs
        self._memory, self._provider = memory, partition.provider
        self.witnesses = witnesses(self._outputs, outer)
        self._shapes = KnownShapes(self._outputs, self.witnesses)
        self._on_host = [value in partition.host_values for value in self._outputs]

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        if type(inputs) is MemberCall:
            return check_results(self.function(inputs), len(self._outputs), self._who)
        own, told_by = inputs[: self._inputs], inputs[self._inputs :]
        handles: list[Any] = []
        tied = 0
        try:
            handles.extend(map(self._allocate, self._outputs, self._sizes(told_by)))
            results = check_results(self.function((own, handles)), len(handles), self._who)
            for result, handle in zip(results, handles, strict=True):
                if handle is not None:
                    free_with(result, self._memory, handle, f"{self._who}: into_memory", self._provider.device)
                tied += 1
        except BaseException as error:
            for handle in handles[tied:]:
                if handle is not None:
                    free_after(error, self._memory, handle, f"{self._who}:")
            raise
        return results

    def _sizes(self, told_by: Sequence[Any]) -> list[int | None]:
        """Return the size of each output in bytes; None for host values, and if only the run determines it."""
        return [
            None if shape is None or on_host else prod(shape) * bytes_of(value.dtype or "", self._provider)
            for value, shape, on_host in zip(self._outputs, self._shapes.of(told_by), self._on_host, strict=True)
        ]

    def _allocate(self, value: Value, nbytes: int | None) -> Any:
        return None if nbytes is None else allocate_handle(self._memory, nbytes, f"{self._who}: output {value.name!r},")
