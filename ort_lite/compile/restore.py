"""Partitions that are compiled already: those of EPContext nodes, which `ort_lite.session.context` writes."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from ort_lite.compile.moving import move_value
from ort_lite.errors import CompileError, ProviderError
from ort_lite.graph.graph import Value
from ort_lite.partition.borders import transfers_of
from ort_lite.provider.ask import ask, who
from ort_lite.provider.context_nodes import BYTES, saved_host_places
from ort_lite.provider.provider import CPU, CompiledPartition, ExecutionProvider, Partition


def restore_partition(label: str, partition: Partition) -> CompiledPartition:
    """The compiled partition of an EPContext node. Raises CompileError where it does not fit this machine or this reader, and
    ProviderError, which names the provider, for what it does not take back.

    The provider sees the inputs and outputs that it was compiled for, whatever became of them in the graph since.
    """
    (node,) = partition.nodes
    if node.attr("embed_mode", 1) != 1:
        raise CompileError(f"{node}: its context is in a file beside the model; load the model by its path").about(node)
    provider = partition.provider
    why = ask(provider, "check_compatibility", node.attr("ep_sdk_version", ""), label=label)
    if why is not None:
        raise CompileError(f"{node}: {why}; compile the original model again").about(node)
    whole = partition.replace(inputs=_present(node.inputs), outputs=_present(node.outputs))
    made = ask(provider, "deserialize", whole, str(node.attr("ep_cache_context", "")).encode(*BYTES), label=label)
    if not callable(made):
        raise ProviderError(f"{label}: deserialize returned {made!r} for {node}; expected a callable").about(provider=label)
    if whole.inputs == partition.inputs and whole.outputs == partition.outputs:
        return cast(CompiledPartition, made)
    return Refitted(made, whole, partition)


def _present(values: Sequence[Value | None]) -> tuple[Value, ...]:
    return tuple(value for value in values if value is not None)


class Refitted:
    """A saved partition in a graph that transforms changed around its node: inputs became constants or one value, outputs lost
    their readers. It has what the saved one has besides being called, but for memory of the caller's (`into`).
    """

    def __init__(self, function: CompiledPartition, whole: Partition, partition: Partition) -> None:
        self._function = function
        place = {value: k for k, value in enumerate(partition.inputs)}
        on_host = saved_host_places(partition.nodes[0])[0]
        self._inputs = [place.get(value) for value in whole.inputs]
        self._constants = [
            None if value in place else value.constant if k in on_host else _on_device(value, partition.provider)
            for k, value in enumerate(whole.inputs)
        ]
        self._to_host = {
            k: partial(_to_host, value, partition.provider)
            for k, value in enumerate(whole.inputs)
            if k in on_host and value in place and value not in partition.host_values
        }
        """The copies of values that are read both on the device and on the host."""
        self._outputs = [whole.outputs.index(value) for value in partition.outputs]
        self._count, self._name = len(whole.outputs), partition.name

    def __call__(self, inputs: Sequence[Any], *state: Any) -> list[Any]:
        pairs = zip(self._inputs, self._constants, strict=True)
        given = [constant if k is None else inputs[k] for k, constant in pairs]
        for k, copy in self._to_host.items():
            given[k] = copy(given[k])
        results = self._function(given, *state)
        if len(results) != self._count:
            raise ProviderError(f"{self._name} returned {len(results)} values for the {self._count} outputs it was saved with")
        return [results[k] for k in self._outputs]

    def __getattr__(self, name: str) -> Any:
        if name in ("into", "_function"):
            raise AttributeError(name)
        return getattr(self._function, name)


def _on_device(value: Value, provider: ExecutionProvider) -> Any:
    if value.constant is None or provider.device == CPU:
        return value.constant
    return move_value(value, value.constant, CPU, provider.device, transfers_of([provider]), who(provider))


def _to_host(value: Value, provider: ExecutionProvider, x: Any) -> Any:
    return move_value(value, x, provider.device, CPU, transfers_of([provider]), who(provider))
