"""A CostModel from measurements: nodes timed one by one on each provider, or a session's profile."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import RunTerminated
from ort_lite.execute.feeds import Feeds
from ort_lite.execute.guard import close, guard_partition
from ort_lite.graph.graph import Graph, Node
from ort_lite.graph.model import Model
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.load.source import ModelSource
from ort_lite.partition.borders import transfers_of
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.plugins import selection
from ort_lite.plugins.selection import rules_of
from ort_lite.provider.ask import labels_of
from ort_lite.provider.provider import CPU, Capability, ExecutionProvider, GraphView, Overhead, Partition
from ort_lite.provider.unchanged import capabilities
from ort_lite.session.preparation import Arguments, prepare_until
from ort_lite.tools.verify.reference import Reference, part_of
from ort_lite.tools.view.node_times import dims_of
from ort_lite.transform.contract import all_graphs


def measure_costs(
    model: ModelSource | Model,
    feed: Mapping[str, Any],
    providers: Sequence[selection.ProviderEntry] | None = None,
    options: SessionOptions | None = None,
    *,
    runs: int = 10,
) -> CostModel:
    """Time every node of the main graph alone on each provider that claims it, with the values that the CPU provider computes.

    Each node runs `runs` times and its shortest time counts. The shortest node time of a provider is taken as its cost of starting
    a partition. Nodes that do not run alone, and nodes inside bodies, are left to estimates. All values of the model are in memory
    at once. Raises what creating a session raises.
    """
    options = options if options is not None else SessionOptions()
    prepared = prepare_until("partition", model, options, Arguments(providers)).loaded
    loaded, chosen = prepared.model, prepared.selection.providers
    inputs = Feeds(loaded.graph.inputs)(feed)
    stand = _Stand(loaded, chosen, options, inputs, runs)
    nodes: dict[str, dict[str, float]] = {}
    overheads: dict[str, Overhead] = {}
    for label, provider in zip(labels_of(chosen), chosen, strict=True):
        seconds = stand.nodes(provider)
        launch = min(seconds.values(), default=0.0)
        nodes[label] = {name: found - launch for name, found in seconds.items()}
        if seconds:
            overheads[label] = Overhead(launch, *stand.moving(provider))
    named = {value.name: array for value, array in zip(loaded.graph.inputs, inputs, strict=True)}
    return CostModel(nodes, overheads, dims=dims_of(loaded.graph.inputs, named))


class _Stand:
    """The model's values, and the measurements of providers on them."""

    def __init__(
        self, model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, inputs: Sequence[Any], runs: int
    ) -> None:
        self._graph, self._rules, self._runs = model.graph, rules_of(providers), runs
        cpu = next(provider for provider in providers if provider.name == selection.DEFAULT)
        self._reference = Reference(model, cpu, list(all_graphs(model.graph))[1:], transfers_of(providers), options)
        self._whole = _whole(model.graph, cpu, self._rules)
        self._values = self._reference.values(self._whole, inputs)

    def nodes(self, provider: ExecutionProvider) -> dict[str, float]:
        """Seconds of each node that it takes, started and computed."""
        answers = capabilities(provider, GraphView(self._graph, rules=self._rules))
        taken = dict.fromkeys(node for answer in answers if isinstance(answer, Capability) for node in answer.nodes)
        found = {node.name: self._node(provider, node) for node in taken}
        return {name: seconds for name, seconds in found.items() if seconds is not None}

    def _node(self, provider: ExecutionProvider, node: Node) -> float | None:
        outputs = [value for value in node.outputs if value is not None]
        part = part_of(self._whole.replace(provider=provider), [node], outputs, self._reference.bodies([node]), str(node))
        try:
            (compiled,) = provider.compile([part])
            if isinstance(compiled, Exception):
                return None
            function = guard_partition(part, compiled)
            given = [self._reference.move(v, self._values[v], CPU, part.device_of(v)) for v in part.inputs]
            try:

                def run() -> None:
                    function(given)
                    provider.sync()

                return self._shortest(run)
            finally:
                close(function)
        except RunTerminated:
            raise
        except Exception:  # noqa: BLE001  it takes the node in company alone
            return None

    def moving(self, provider: ExecutionProvider) -> tuple[float, float]:
        """Return the latency and bandwidth of a provider's copies, measured on the smallest and the largest array of the model."""
        arrays = sorted(((v, x) for v, x in self._values.items() if hasattr(x, "nbytes")), key=lambda pair: pair[1].nbytes)
        if provider.device == CPU or not arrays:
            return 0.0, 1e10
        (value, least), (other, most) = arrays[0], arrays[-1]
        latency = self._shortest(lambda: self._reference.move(value, least, CPU, provider.device))
        longest = self._shortest(lambda: self._reference.move(other, most, CPU, provider.device))
        size = most.nbytes - least.nbytes
        return latency, size / (longest - latency) if size and longest > latency else 1e10

    def _shortest(self, call: Callable[[], Any]) -> float:
        times = []
        for _ in range(1 + self._runs):  # the first one may compile
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return min(times)


def _whole(graph: Graph, provider: ExecutionProvider, rules: ShapeRules) -> Partition:
    outputs = tuple(value for value in graph.outputs if value.producer is not None)
    return Partition("model", provider, tuple(graph), tuple(graph.inputs), outputs, rules)
