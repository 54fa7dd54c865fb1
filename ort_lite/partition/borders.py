"""Values that cross between two memories: one copy per value and device, direct if a transfer can, else through the CPU."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ort_lite.errors import ProviderError, format_error
from ort_lite.graph.graph import Graph, Value
from ort_lite.partition.assignment import Copy, Hop
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import CPU, DataTransfer, Device, ExecutionProvider, Partition

OUTPUT = "output"


def transfers_of(providers: Sequence[ExecutionProvider]) -> list[DataTransfer]:
    """Return the transfers of the providers, in their order."""
    return [transfer for provider in providers if (transfer := ask(provider, "data_transfer")) is not None]


def copies(
    graph: Graph,
    partitions: Sequence[Partition],
    transfers: Sequence[DataTransfer],
    homes: Mapping[Value, Device] | None = None,
    wanted: Mapping[Value, Device] | None = None,
) -> tuple[Copy, ...]:
    """The copies that a level needs, in order. Graph inputs, captures and outputs are on the CPU, inputs but for those in `homes`;
    with `wanted`, its outputs are, and no others.

    Raises ProviderError when no transfer reaches a device. O(values).
    """
    home: dict[Value, Device] = dict(homes or {})
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
            need(value, partition.provider.device, partition.name)
        home.update((value, partition.provider.device) for value in partition.outputs)
    for value, device in (dict.fromkeys(graph.outputs, CPU) if wanted is None else wanted).items():
        need(value, device, OUTPUT)
    return tuple(found)


def route(source: Device, destination: Device, transfers: Sequence[DataTransfer], value: Value, reader: str) -> tuple[Hop, ...]:
    """One hop, or two through the CPU; of several transfers the first that can."""
    for stops in ((source, destination), (source, CPU, destination)):
        hops = [_hop(a, b, transfers) for a, b in pairwise(stops)]
        if all(hops):
            return tuple(hop for hop in hops if hop is not None)
    raise ProviderError(
        f"{value.name!r} is needed on {destination} (by {reader}) and is on {source}, and no provider's data_transfer() "
        f"copies between them or to and from {CPU}; a provider with a device of its own must bring one"
    )


def _hop(source: Device, destination: Device, transfers: Sequence[DataTransfer]) -> Hop | None:
    return next((Hop(t, source, destination) for t in transfers if can_copy(t, source, destination)), None)


def can_copy(transfer: DataTransfer, source: Device, destination: Device) -> bool:
    """The answer of a transfer. Raises ProviderError naming it if it fails."""
    try:
        return bool(transfer.can_copy(source, destination))
    except Exception as error:
        who = type(transfer).__name__
        raise ProviderError(
            f"{who}: can_copy({source}, {destination}) of a provider's data_transfer failed: {format_error(error)}"
        ) from error
