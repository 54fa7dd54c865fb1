"""The cost of an assignment: seconds for its nodes, for starting partitions and for moving values. Plain data, saved as JSON."""

import os
from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.load.files import read_json, write_file
from ort_lite.partition.assignment import Assignment, Copy, label_of
from ort_lite.partition.cost.work import nbytes, sizes_for, work
from ort_lite.plugins.selection import DEFAULT
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import CPU, Device, ExecutionProvider, Overhead, Partition
from ort_lite.record import Record, asdict, field

_FORMAT = "ort-lite-costs-1"


class Rates(Record):
    """The assumed speed of a provider: `node` seconds for each, and the longer of its arithmetic and its memory traffic."""

    node: float
    flops: float
    memory: float
    overhead: Overhead


CPU_RATES = Rates(5e-7, 5e10, 1e10, Overhead(5e-6))
BESIDE_RATES = Rates(5e-7, 1e11, 2e10, Overhead(2e-5))
DEVICE_RATES = Rates(2e-6, 2e12, 2e11, Overhead(2e-5, 2e-5, 1e10))
"""Of the CPU provider, of others that compute on the CPU, and of those with a device of their own, where nobody says anything."""


class CostModel(Record):
    """Costs by provider, as assignments name them ("X", "X#2"; what holds for X holds for X#2 unless that has its own).

    A node costs what `nodes` says, by node name; else what the provider says (`ExecutionProvider.cost`); else what `rates`
    make of its shapes. Starting and moving cost what `overheads` says, else the provider, else the rates. Free dimensions have
    the sizes in `dims`, others `free`. Bodies of Loop and Scan count `trips` times, branches of If once each.
    """

    nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    overheads: Mapping[str, Overhead] = field(default_factory=dict)
    rates: Mapping[str, Rates] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    free: int = 32
    trips: int = 10

    def check(self) -> None:
        """Raises InvalidArgument naming a number that no cost is."""
        for label, nodes in self.nodes.items():
            for name, seconds in nodes.items():
                _least(f"nodes[{label!r}][{name!r}]", seconds, 0)
        for label, overhead in self.overheads.items():
            _check_overhead(f"overheads[{label!r}]", overhead)
        for label, rates in self.rates.items():
            where = f"rates[{label!r}]"
            _least(f"{where}.node", rates.node, 0)
            _least(f"{where}.flops", rates.flops, _TINY)
            _least(f"{where}.memory", rates.memory, _TINY)
            _check_overhead(f"{where}.overhead", rates.overhead)
        for name, size in {**{f"dims[{name!r}]": size for name, size in self.dims.items()}, "free": self.free}.items():
            _least(name, size, 0)
        _least("trips", self.trips, 0)

    def cost(self, assignment: Assignment) -> float:
        """Seconds of one run. O(nodes)."""
        return Prices(self, assignment.providers).cost(assignment)

    def as_dict(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "format": _FORMAT,
            "nodes": {name: dict(found) for name, found in self.nodes.items()},
            "overheads": {name: asdict(found) for name, found in self.overheads.items()},
            "rates": {name: asdict(found) | {"overhead": asdict(found.overhead)} for name, found in self.rates.items()},
            "dims": dict(self.dims),
            "free": self.free,
            "trips": self.trips,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CostModel":
        """Raises InvalidArgument for what `as_dict` cannot have made."""
        try:
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']!r}, expected {_FORMAT!r}")
            made = cls(
                {name: {node: float(s) for node, s in found.items()} for name, found in data["nodes"].items()},
                {name: Overhead(**found) for name, found in data["overheads"].items()},
                {name: Rates(**{**found, "overhead": Overhead(**found["overhead"])}) for name, found in data["rates"].items()},
                {name: int(size) for name, size in data["dims"].items()},
                int(data["free"]),
                int(data["trips"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidArgument(f"not a cost model: {type(error).__name__}: {error}") from error
        made.check()
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file."""
        import json

        write_file(path, f"{json.dumps(self.as_dict(), indent=1)}\n".encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "CostModel":
        """Raises InvalidArgument for a file that holds no cost model, and what `read_json` raises."""
        try:
            return cls.from_dict(read_json(path))
        except ValueError as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(f"{os.fspath(path)} is not a cost model: {error}") from error


_TINY = 1e-300
"""The least that something may be that costs are divided by."""


def _check_overhead(where: str, overhead: Overhead) -> None:
    _least(f"{where}.launch", overhead.launch, 0)
    _least(f"{where}.latency", overhead.latency, 0)
    _least(f"{where}.bandwidth", overhead.bandwidth, _TINY)


def _least(where: str, number: Any, least: float) -> None:
    if not isinstance(number, (int, float)) or not least <= number < float("inf"):
        expected = "0 or more" if least == 0 else "above 0"
        raise InvalidArgument(f"cost model: {where} is {number!r}; expected a finite number, {expected}")


class Prices:
    """A CostModel for these providers: what was asked once is known."""

    def __init__(self, model: CostModel, providers: Mapping[str, ExecutionProvider]) -> None:
        model.check()
        self._model, self._providers = model, providers
        self._size = sizes_for(model.dims, model.free)
        self._known: dict[tuple[str, Node], float] = {}
        self._rates = {label: self._rates_of(label, provider) for label, provider in providers.items()}
        self.overheads = {label: self._overhead_of(label, provider) for label, provider in providers.items()}
        self._home = {p.device: label for label, p in reversed(list(providers.items())) if p.device != CPU}
        self._weights: dict[Graph, float] = {}

    def label(self, partition: Partition) -> str:
        """Return the label of a partition's provider."""
        return label_of(self._providers, partition.provider)

    def cost(self, assignment: Assignment) -> float:
        """Seconds of a run. O(nodes)."""
        weights = self.weights(assignment.graph)
        seconds = sum(
            self.node(place.provider, place.node) * weights[place.node.graph]
            for place in assignment.placements.values()
            if place.node.graph is not None
        )
        for level in assignment.levels:
            launches = sum(self.overheads[self.label(p)].launch for p in level.partitions)
            seconds += weights[level.graph] * (launches + sum(map(self.copy, level.copies)))
        return seconds

    def node(self, label: str, node: Node) -> float:
        """Seconds of a node there, by itself."""
        found = self._known.get((label, node))
        if found is None:
            found = self._known[label, node] = self._node(label, node)
        return found

    def copy(self, copy: Copy) -> float:
        """Seconds of moving a value, all hops."""
        return sum(self._hop(copy.value, hop.source if hop.source != CPU else hop.destination) for hop in copy.hops)

    def moving(self, value: Value, source: Device, destination: Device) -> float:
        """Seconds of a value's way from one memory to another, by the CPU."""
        return sum(self._hop(value, device) for device in {source, destination} if device != CPU)

    def _hop(self, value: Value, device: Device) -> float:
        """Between the CPU and that device; copies between two devices cost what the first one's do."""
        overhead = self.overheads[self._home[device]]
        return overhead.latency + nbytes(value, self._size) / overhead.bandwidth

    def weights(self, graph: Graph) -> Mapping[Graph, float]:
        """Return how often each graph runs; the main graph runs once."""
        if graph not in self._weights:
            self._weigh(graph, 1.0)
        return self._weights

    def _weigh(self, graph: Graph, weight: float) -> None:
        self._weights[graph] = weight
        for node in graph:
            for body in node.subgraphs():
                self._weigh(body, weight if node.op_type == "If" else weight * self._model.trips)

    def _node(self, label: str, node: Node) -> float:
        measured = _of(self._model.nodes, label, {}).get(node.name)
        told: float | None = ask(self._providers[label], "cost", node) if measured is None else measured
        if told is not None:
            return told
        rates = self._rates[label]
        operations, moved = work(node, self._size)
        return rates.node + max(operations / rates.flops, moved / rates.memory)

    def _rates_of(self, label: str, provider: ExecutionProvider) -> Rates:
        usual = CPU_RATES if provider.name == DEFAULT else BESIDE_RATES if provider.device == CPU else DEVICE_RATES
        found: Rates = _of(self._model.rates, label, usual)
        return found

    def _overhead_of(self, label: str, provider: ExecutionProvider) -> Overhead:
        told = ask(provider, "overhead")
        found: Overhead = _of(self._model.overheads, label, told if told is not None else self._rates[label].overhead)
        return found


def _of(table: Mapping[str, Any], label: str, default: Any) -> Any:
    return table.get(label, table.get(label.partition("#")[0], default))
