"""Values that cross between two memories: one copy per value and device, direct if a transfer can, else through the CPU."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from ort_lite.errors import ProviderError, format_error
from ort_lite.graph.graph import Graph, Value
from ort_lite.options.policies import NEXT, Policy
from ort_lite.partition.assignment import Copy, Hop
from ort_lite.provider.ask import ask, who
from ort_lite.provider.context_nodes import is_context, saved_host_values
from ort_lite.provider.narrowing import holds_int64, narrows
from ort_lite.provider.provider import CPU, DataTransfer, Device, ExecutionProvider, Partition
from ort_lite.record import Record

OUTPUT = "output"


def states_host_values(provider: ExecutionProvider) -> bool:
    """Return True if ort_lite asks the provider for host values: it has a device, and overrides the hook of version 1.1."""
    return (
        provider.device != CPU
        and type(provider).host_values is not ExecutionProvider.host_values
        and provider.api_version != "1.0"
    )


def with_host_values(partition: Partition) -> Partition:
    """Return the partition with the host values that its provider states. Raises ProviderError for other values."""
    provider = partition.provider
    if not states_host_values(provider):
        return partition
    if is_context(partition.nodes[0]):
        return partition.replace(host_values=saved_host_values(partition.nodes[0]))
    found = frozenset(ask(provider, "host_values", partition))
    for value in found.difference(partition.inputs, partition.outputs):
        raise ProviderError(
            f"{who(provider)}: host_values returned {value.name!r}, which is neither an input nor an output of {partition.name}"
        ).about(provider=who(provider))
    return partition if found == partition.host_values else partition.replace(host_values=found)


def body_values(
    around: Partition, graph: Graph, partitions: Sequence[Partition], policy: Policy
) -> dict[Value, ExecutionProvider]:
    """Return the inputs, captures and outputs of a body in the memory of the provider around it, each with the provider.

    `around` is the partition that runs the node of the body, and `policy` that of its provider. There are none if the provider
    does not state host values, or if one of the partitions is or may become another provider's. An input is on the CPU if nothing
    but host values of partitions reads it.
    """
    if not states_host_values(around.provider) or _inherits_from_kernels(around.provider) or policy.on_run_error == NEXT:
        return {}
    if any(partition.provider is not around.provider for partition in partitions):
        return {}
    on_host = {value for value in graph.captures() if value in around.host_values}
    reads = [(value, partition.device_of(value)) for partition in partitions for value in partition.inputs]
    on_device = {value for value, device in reads if device != CPU}.union(graph.outputs)
    on_host.update(value for value, _ in reads if value in graph.inputs and value not in on_device)
    on_host.update(value for partition in partitions for value in partition.outputs if value in partition.host_values)
    values = dict.fromkeys((*graph.inputs, *graph.captures(), *graph.outputs))
    return {value: around.provider for value in values if value.constant is None and value not in on_host}


def _inherits_from_kernels(provider: ExecutionProvider) -> bool:
    """Return True for a KernelProvider that does not state host values itself: one of 1.0 may call bodies in a `compile` of its own."""
    from ort_lite.provider.kernels import KernelProvider

    return type(provider).host_values is KernelProvider.host_values


class Transfers(Record):
    """The transfers of providers, in their order, and the devices on which int64 values are int32."""

    each: tuple[DataTransfer, ...]
    narrow: frozenset[Device]


def transfers_of(providers: Sequence[ExecutionProvider]) -> Transfers:
    """Return the transfers of the providers."""
    found = [transfer for provider in providers if (transfer := ask(provider, "data_transfer")) is not None]
    return Transfers(tuple(found), frozenset(provider.device for provider in providers if narrows(provider)))


def copies(
    partitions: Sequence[Partition], transfers: Transfers, homes: Mapping[Value, Device], wanted: Mapping[Value, Device]
) -> tuple[Copy, ...]:
    """Return the copies that a level needs, in order.

    Graph inputs and captures are on the CPU but for those in `homes`; `wanted` has the outputs, and where they are to be. Raises
    ProviderError when no transfer reaches a device. O(values).
    """
    home = dict(homes)
    there: set[tuple[Value, Device]] = set()
    found: list[Copy] = []

    def need(value: Value, device: Device, reader: str) -> None:
        source = home.get(value, CPU)
        if device != source and (value, device) not in there:
            hops = route(source, device, transfers, value, reader)
            there.update((value, hop.destination) for hop in hops)
            found.append(Copy(value, hops, reader))

    for partition in partitions:
        for value in partition.inputs:
            need(value, partition.device_of(value), partition.name)
        home.update((value, partition.device_of(value)) for value in partition.outputs)
    for value, device in wanted.items():
        need(value, device, OUTPUT)
    return tuple(found)


def route(source: Device, destination: Device, transfers: Transfers, value: Value, reader: str) -> tuple[Hop, ...]:
    """One hop, or two through the CPU; of several transfers the first that can."""
    narrow = transfers.narrow if holds_int64(value.type) else frozenset[Device]()
    for stops in ((source, destination), (source, CPU, destination)):
        hops = [_hop(a, b, transfers.each, narrow) for a, b in pairwise(stops)]
        if all(hops):
            return tuple(hop for hop in hops if hop is not None)
    raise ProviderError(
        f"{value.name!r} is needed on {destination} (by {reader}) and is on {source}, and no provider's data_transfer() "
        f"copies between them or to and from {CPU}; a provider with a device of its own must bring one"
    )


def _hop(source: Device, destination: Device, transfers: Sequence[DataTransfer], narrow: Collection[Device]) -> Hop | None:
    """Return a hop. Elements are converted on the CPU: there is none between devices on which they differ."""
    narrows = (source in narrow) != (destination in narrow)
    if narrows and CPU not in (source, destination):
        return None
    return next((Hop(t, source, destination, narrows) for t in transfers if can_copy(t, source, destination)), None)


def can_copy(transfer: DataTransfer, source: Device, destination: Device) -> bool:
    """The answer of a transfer. Raises ProviderError naming it if it fails."""
    try:
        return bool(transfer.can_copy(source, destination))
    except Exception as error:
        who = type(transfer).__name__
        raise ProviderError(
            f"{who}: can_copy({source}, {destination}) of a provider's data_transfer failed: {format_error(error)}"
        ) from error
