"""Checks of compiled partitions called as the executor calls them, with values that stay in the device's memory."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ort_lite.graph.graph import Value
from ort_lite.partition.borders import with_host_values
from ort_lite.provider.abilities import computes_into_memory, has_state, releases_state
from ort_lite.provider.narrowing import narrow, narrows
from ort_lite.provider.provider import CPU, Partition
from ort_lite.testing.checks.tries import call_for, format_exception, new_sessions
from ort_lite.testing.kit import Finding, Kit


def handles(kit: Kit) -> list[Finding]:
    """Check values in device memory, and host values beside them: a call changes no input, results outlive later calls and their
    inputs, each of two states is independent, and `host_values` gives the same answer again.
    """
    found = []
    for name, session, feed in device_sessions(kit):
        for partition, compiled in fed_partitions(kit, session, feed):
            texts = call_for(partial(_problems, partition, compiled, feed))
            texts = [format_exception(texts)] if isinstance(texts, Exception) else texts
            found += [Finding("handles", name, text) for text in texts]
    return found


def _problems(partition: Partition, compiled: Any, feed: Any) -> list[str]:
    return list(DeviceCalls(partition, compiled).problems(feed))


def device_sessions(kit: Kit) -> Iterator[tuple[str, Any, Any]]:
    """Return sessions of some node tests and generated models, with their names and feeds."""
    yield from ((case.name, session, case.feed) for case, session in new_sessions(kit, len(kit.some)))
    for case in kit.of_kind("graphs")[::4]:
        session = call_for(partial(kit.session, case.model))
        if not isinstance(session, Exception):
            yield case.name, session, case.feeds[0]


def fed_partitions(kit: Kit, session: Any, feed: Any) -> Iterator[tuple[Partition, Any]]:
    """Return the partitions on a device whose inputs are all inputs of the model."""
    provider, prepared = kit.host.provider(session), session._stage_results
    if provider.device == CPU:
        return
    for partition in prepared.assignment.partitions:
        inputs = [value.name for value in partition.inputs]
        if partition.provider is provider and inputs and set(inputs) <= set(feed):
            yield partition, prepared.compiled.partitions[partition.name]


class DeviceCalls:
    """Calls of a compiled partition with values on its device."""

    def __init__(self, partition: Partition, compiled: Any) -> None:
        self._partition, self._compiled = partition, compiled
        self._device, self._way = partition.provider.device, cast(Any, partition.provider.data_transfer())
        self.host_inputs = [value in partition.host_values for value in partition.inputs]
        self.host_outputs = [value in partition.host_values for value in partition.outputs]

    def operands(self, feed: Any) -> tuple[list[Any], list[Any]]:
        """Return the inputs as arrays, as the partition gets them, and others of the same types and shapes."""
        arrays = [self._partition_input(value, np.array(feed[value.name])) for value in self._partition.inputs]
        return arrays, [np.ones_like(array) if array.dtype.kind == "f" else array for array in arrays]

    def problems(self, feed: Any) -> Iterator[str]:
        """Yield what is wrong with the calls."""
        if with_host_values(self._partition).host_values != self._partition.host_values:
            yield "host_values gave another answer when asked again"
        arrays, others = self.operands(feed)
        states = [self._compiled.create_state() for _ in range(2)] if has_state(self._compiled) else [None]
        if len(states) == 2 and states[0] is states[1] and states[0] is not None:
            yield "create_state() gave the same object twice"
        inputs, memory = self.inside(arrays)
        first = self.call(inputs, states[0])
        kept = self.read(first, self.host_outputs)  # waits for the call, if the device has a queue
        if self.read(inputs, self.host_inputs) != [array.tobytes() for array in arrays]:
            yield "a call wrote to its input"
        inside = [x for x, on_host in zip(inputs, self.host_inputs, strict=True) if not on_host]
        yield from (f"output {k} is its input" for k, y in enumerate(first) if any(y is x for x in inside))
        second = self.call(self.inside(others)[0], states[-1])
        if self.read(first, self.host_outputs) != kept:
            yield "what a call returned changed with the next call"
        yield from (f"output {k} is that of the call before" for k, y in enumerate(second) if any(y is x for x in first))
        if computes_into_memory(self._compiled):
            yield from self._in_memory(inputs, states[:1] if has_state(self._compiled) else [], first)
        self.overwrite_memory(memory, others)
        if self.read(first, self.host_outputs) != kept:
            yield "what a call returned lies in the memory of its input"
        if releases_state(self._compiled):
            for state in states:
                self._compiled.release_state(state)
        if self.read(first, self.host_outputs) != kept:
            yield "what a call returned changed when the state was released"

    def _in_memory(self, inputs: Sequence[Any], state: Sequence[Any], called: Sequence[Any]) -> Iterator[str]:
        """Check that results computed into memory equal those of a call, and that each output is in its own."""
        arrays = [self._to_host(y, on_host) for y, on_host in zip(called, self.host_outputs, strict=True)]
        allocator = self._partition.provider.allocator()
        if allocator is None or not hasattr(self._way, "copy_into"):
            return
        sides = zip(arrays, self.host_outputs, strict=True)
        memory = [None if on_host else allocator.allocate(array.nbytes) for array, on_host in sides]
        made = self._compiled.into_memory(inputs, memory, *state)
        if self.read(made, self.host_outputs) != self.read(called, self.host_outputs):
            yield "into_memory gives another result than a call"
            return
        for k, (array, handle) in enumerate(zip(arrays, memory, strict=True)):
            if handle is not None:
                self.into(np.zeros_like(array), handle)
            behind = self.host_outputs[k + 1 :]
            if self.read(made[k + 1 :], behind) != self.read(called[k + 1 :], behind):
                yield f"into_memory computes another output in the memory of output {k}"
                return

    def inside(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the values of a call, each on the device in its own allocation if the provider supports it, and the allocations."""
        allocator = self._partition.provider.allocator()
        given, memory = [], []
        for array, on_host in zip(arrays, self.host_inputs, strict=True):
            handle = None
            if on_host:
                x = array.copy()
            elif allocator is None or not hasattr(self._way, "copy_into"):
                x = self._way.copy(array, CPU, self._device)
            else:
                handle = allocator.allocate(array.nbytes)
                x = self.into(array, handle)
            given.append(x)
            memory.append(handle)
        return given, memory

    def into(self, array: Any, handle: Any) -> Any:
        """Copy an array into a handle of the allocator."""
        return self._way.copy_into(array, CPU, self._device, handle)

    def overwrite_memory(self, memory: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Copy arrays into handles that are in use."""
        for array, handle in zip(arrays, memory, strict=True):
            if handle is not None:
                self.into(array, handle)

    def call(self, inputs: Sequence[Any], state: Any) -> list[Any]:
        """Call the partition itself."""
        given = (inputs,) if state is None and not has_state(self._compiled) else (inputs, state)
        return list(self._compiled(*given))

    def read(self, values: Sequence[Any], on_host: Sequence[bool]) -> list[bytes]:
        """Return the contents of values, which are on the host or on the device."""
        return [self._to_host(x, host).tobytes() for x, host in zip(values, on_host, strict=True)]

    def _to_host(self, x: Any, on_host: bool) -> Any:
        return np.asarray(x) if on_host else self._way.copy(x, self._device, CPU)

    def _partition_input(self, value: Value, array: Any) -> Any:
        """Return the elements of an input as the partition gets them."""
        provider = self._partition.provider
        on_device = value not in self._partition.host_values
        return narrow(array, value.name, self._device) if on_device and narrows(provider, value.type) else array
