"""Checks of compiled partitions called as the executor calls them, with values that stay in the device's memory."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ort_lite.provider.abilities import computes_into_memory, has_state, releases_state
from ort_lite.provider.provider import CPU, Partition
from ort_lite.testing.checks.tries import call_for, format_exception, new_sessions
from ort_lite.testing.kit import Finding, Kit


def handles(kit: Kit) -> list[Finding]:
    """Check values in device memory: a call changes no input, results outlive later calls and their inputs, and each of two states
    is independent.
    """
    found = []
    for name, session, feed in _sessions(kit):
        for partition, compiled in device_partitions(kit, session, feed):
            texts = call_for(partial(_problems, partition, compiled, feed))
            texts = [format_exception(texts)] if isinstance(texts, Exception) else texts
            found += [Finding("handles", name, text) for text in texts]
    return found


def _problems(partition: Partition, compiled: Any, feed: Any) -> list[str]:
    return list(_Calls(partition, compiled).problems(feed))


def _sessions(kit: Kit) -> Iterator[tuple[str, Any, Any]]:
    yield from ((case.name, session, case.feed) for case, session in new_sessions(kit, len(kit.some)))
    for case in kit.of_kind("graphs")[::4]:
        session = call_for(partial(kit.session, case.model))
        if not isinstance(session, Exception):
            yield case.name, session, case.feeds[0]


def device_partitions(kit: Kit, session: Any, feed: Any) -> Iterator[tuple[Partition, Any]]:
    """Return the partitions on a device whose inputs are all inputs of the model."""
    provider, prepared = kit.host.provider(session), session._stage_results
    if provider.device == CPU:
        return
    for partition in prepared.assignment.partitions:
        inputs = [value.name for value in partition.inputs]
        if partition.provider is provider and inputs and set(inputs) <= set(feed):
            yield partition, prepared.compiled.partitions[partition.name]


class _Calls:
    def __init__(self, partition: Partition, compiled: Any) -> None:
        self._partition, self._compiled = partition, compiled
        self._device, self._way = partition.provider.device, cast(Any, partition.provider.data_transfer())

    def problems(self, feed: Any) -> Iterator[str]:
        arrays = [np.array(feed[value.name]) for value in self._partition.inputs]
        others = [np.ones_like(array) if array.dtype.kind == "f" else array for array in arrays]
        states = [self._compiled.create_state() for _ in range(2)] if has_state(self._compiled) else [None]
        if len(states) == 2 and states[0] is states[1] and states[0] is not None:
            yield "create_state() gave the same object twice"
        inputs, memory = self._inside(arrays)
        first = self._call(inputs, states[0])
        if self._read(inputs) != [array.tobytes() for array in arrays]:
            yield "a call wrote to its input"
        yield from (f"output {k} is its input" for k, y in enumerate(first) if any(y is x for x in inputs))
        kept = self._read(first)
        second = self._call(self._inside(others)[0], states[-1])
        if self._read(first) != kept:
            yield "what a call returned changed with the next call"
        yield from (f"output {k} is that of the call before" for k, y in enumerate(second) if any(y is x for x in first))
        if computes_into_memory(self._compiled):
            yield from self._in_memory(inputs, states[:1] if has_state(self._compiled) else [], first)
        self._overwrite(memory, others)
        if self._read(first) != kept:
            yield "what a call returned lies in the memory of its input"
        if releases_state(self._compiled):
            for state in states:
                self._compiled.release_state(state)
        if self._read(first) != kept:
            yield "what a call returned changed when the state was released"

    def _in_memory(self, inputs: Sequence[Any], state: Sequence[Any], called: Sequence[Any]) -> Iterator[str]:
        """Check that results computed into memory equal those of a call, and that each output is in its own."""
        arrays = [self._way.copy(value, self._device, CPU) for value in called]
        allocator = self._partition.provider.allocator()
        if allocator is None or not hasattr(self._way, "copy_into"):
            return
        memory = [allocator.allocate(array.nbytes) for array in arrays]
        made = self._compiled.into_memory(inputs, memory, *state)
        if self._read(made) != self._read(called):
            yield "into_memory gives another result than a call"
            return
        for k, array in enumerate(arrays):
            self._into(np.zeros_like(array), memory[k])
            if self._read(made[k + 1 :]) != self._read(called[k + 1 :]):
                yield f"into_memory computes another output in the memory of output {k}"
                return

    def _inside(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arrays on the device, each in its own allocation if the provider supports it."""
        allocator = self._partition.provider.allocator()
        if allocator is None or not hasattr(self._way, "copy_into"):
            return [self._way.copy(array, CPU, self._device) for array in arrays], []
        memory = [allocator.allocate(array.nbytes) for array in arrays]
        return [self._into(array, handle) for array, handle in zip(arrays, memory, strict=True)], memory

    def _into(self, array: Any, handle: Any) -> Any:
        return self._way.copy_into(array, CPU, self._device, handle)

    def _overwrite(self, memory: Sequence[Any], arrays: Sequence[Any]) -> None:
        for array, handle in zip(arrays, memory, strict=False):
            self._into(array, handle)

    def _call(self, inputs: Sequence[Any], state: Any) -> list[Any]:
        given = (inputs,) if state is None and not has_state(self._compiled) else (inputs, state)
        return list(self._compiled(*given))

    def _read(self, values: Sequence[Any]) -> list[bytes]:
        return [self._way.copy(value, self._device, CPU).tobytes() for value in values]
