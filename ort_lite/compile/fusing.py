"""Fusions come after the claim: a provider that wants them compiles a fused copy of its partition.

What a partition is stays as it is dealt out: the Assignment, `explain()`, saved models, fallbacks, verification and measurements
know the unfused nodes, whose operators any provider may claim. The copy is between its provider and the session.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ort_lite.errors import ProviderError, hint
from ort_lite.execute.execute import CompiledBody
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.graph.released import drop_constant
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.plugins import plugins
from ort_lite.provider.ask import ask, who
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import Body, ExecutionProvider, Partition
from ort_lite.provider.subgraph import copy_nodes
from ort_lite.record import Record
from ort_lite.transform.contract import Change, Transform, all_graphs
from ort_lite.transform.fusions import Fusions
from ort_lite.transform.transform import transforms_of

ALL = "all"
"""In the answer of `ExecutionProvider.fusions`: everything that the hook `ort_lite_fusions` lists, of installed plugins what the
session asks for.
"""


class Fused(Record, eq=False):
    """The copy of a partition that its provider compiles; `copies` are the copies of the partition's values."""

    partition: Partition
    copies: Mapping[Value, Value]
    changes: tuple[Change, ...]

    def give_up(self, absorbed: Collection[Value], restorer: Callable[[Value], Callable[[], Any]] | None = None) -> None:
        """Copies of constants that were given up hold no array either, nor do absorbed constants that the transforms made."""
        for value, copy in self.copies.items():
            copy.constant = value.constant
        for value in set(absorbed).difference(self.copies.values()):
            if value.constant is not None:
                value.constant = drop_constant(value, None if restorer is None else restorer(value))


class Fuser:
    """Makes the copies of a session's partitions, up to its optimisation level and without the transforms that it disables.

    `installed`: the installed plugins whose transforms the session uses.
    """

    def __init__(self, level: str, disabled: Collection[str] = (), installed: Collection[str] = ()) -> None:
        self._level, self._disabled, self._installed = level, disabled, installed
        self._wanted: dict[int, Fusions | None] = {}  # by the id of the provider

    def fuse_copy(self, partition: Partition, bodies: Mapping[Graph, CompiledBody]) -> Fused | None:
        """The copy; None where the provider wants no fusion, or none is possible. `bodies` are those that were compiled.

        Raises what the transforms raise, and Fail where they left an invalid graph or other inputs and outputs.
        """
        fusions = self._fusions(partition.provider)
        if (
            fusions is None
            or is_context(partition.nodes[0])
            or not fusions.may_find_something(partition.nodes, partition.bodies)
        ):
            return None
        graph, copies, names = copy_nodes(partition)
        pairs = list(_body_pairs(partition, graph))
        newest = dict(sorted({(node.domain, node.version) for node in partition.nodes}))
        fixed = [inner for _, copy, _ in pairs for inner in all_graphs(copy)]
        changes = fusions.apply(graph, partition.rules, newest, fixed, names, certain=not partition.nested)
        if not changes:
            for copy in copies.values():
                copy.constant = None  # the graph is full of cycles, and would keep the arrays until a full collection
            return None
        inside: dict[Graph, Body] = {
            copy: bodies[body].with_captures(_captures(bodies[body], body, copy))
            for body, copy, node in pairs
            if node.graph is not None
        }
        made = partition.replace(
            nodes=tuple(graph),
            inputs=tuple(graph.inputs),
            outputs=graph.outputs,
            bodies=inside,
            host_values=_twins(partition, graph),
        )
        return Fused(made, copies, changes)

    def wants_fusions(self, provider: ExecutionProvider) -> bool:
        """Return True if the provider asks for fusions."""
        return self._fusions(provider) is not None

    def fuse(self, model: Model, provider: ExecutionProvider, rules: ShapeRules) -> bool:
        """Does to a model what is wanted for partitions; whether there was anything to do."""
        fusions = self._fusions(provider)
        return fusions is not None and bool(fusions.apply(model.graph, rules, model.opset_imports))

    def _fusions(self, provider: ExecutionProvider) -> Fusions | None:
        key = id(provider)
        if key not in self._wanted:
            chosen = transforms_of(fusions_of(provider, self._installed), self._level, self._disabled)
            self._wanted[key] = Fusions(chosen) if chosen else None
        return self._wanted[key]


def fusions_of(provider: ExecutionProvider, installed: Collection[str] = ()) -> list[Transform]:
    """The transforms that the provider asks for: by name any that is installed, by ALL those of `installed` plugins.

    Raises ProviderError for a name that no transform has.
    """
    if type(provider).fusions is ExecutionProvider.fusions:
        return []
    found: dict[int, Transform] = {}
    for entry in ask(provider, "fusions"):
        for transform in _find_fusions(entry, provider, installed) if isinstance(entry, str) else [entry]:
            found[id(transform)] = transform
    return list(found.values())


def _find_fusions(name: str, provider: ExecutionProvider, installed: Collection[str]) -> Sequence[Transform]:
    if name == ALL:
        return plugins.fusions(installed)
    every = {plugins.ALL}
    known = {found.name: found for found in reversed([*plugins.fusions(every), *plugins.transforms(every)])}
    if name not in known:
        raise ProviderError(f"{who(provider)}: fusions names {name!r}, and no transform is called so{hint(name, known)}").about(
            provider=who(provider)
        )
    return [known[name]]


def _body_pairs(partition: Partition, graph: Graph) -> Iterator[tuple[Graph, Graph, Node]]:
    """Bodies with partitions of their own, what stands for them in the copy, and the node there."""
    for node, twin in zip(partition.nodes, graph, strict=True) if partition.bodies else ():
        for body, copy in zip(node.subgraphs(), twin.subgraphs(), strict=True):
            if body in partition.bodies:
                yield body, copy, twin


def _twins(partition: Partition, graph: Graph) -> frozenset[Value]:
    """Return what stands for the host values in the copy, which has the inputs and outputs in the same order."""
    pairs = zip((*partition.inputs, *partition.outputs), (*graph.inputs, *graph.outputs), strict=True)
    return frozenset(twin for value, twin in pairs if value in partition.host_values)


def _captures(compiled: CompiledBody, body: Graph, copy: Graph) -> tuple[Value, ...]:
    """Return the values that now stand for the captures: transforms may have replaced them without touching the body."""
    now: dict[Value | None, Value | None] = {}
    for one, twin in zip(all_graphs(body), all_graphs(copy), strict=True):
        now.update(zip(one.outputs, twin.outputs, strict=True))
        for node, other in zip(one, twin, strict=True):
            now.update(zip(node.inputs, other.inputs, strict=True))
    return tuple(found for value in compiled.captures if (found := now[value]) is not None)
