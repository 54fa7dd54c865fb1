"""A provider of ort-lite in a session of onnxruntime: its claims become fused nodes, its partitions their kernels."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ort_lite import log
from ort_lite.compile.compile import Compiler
from ort_lite.errors import OrtLiteError, ProviderError, describe
from ort_lite.graph import Graph, Model, Node, TensorType
from ort_lite.inference.annotate import annotate
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.options.policies import RAISE, Policy, split
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import constraints_of
from ort_lite.partition.partition import Partitioner
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import DEFAULT, Selection, create, rules_of
from ort_lite.provider import Capability, ExecutionProvider, GraphView
from ort_lite.provider.provider import Partition
from ort_lite.session.preparation import open_session_memory
from ort_lite.session.settle import Settled, settle
from ort_lite.session.simplify import fuser_of
from ort_lite_ep.graph import HostGraph
from ort_lite_ep.reports import NodeReport, Report

REPORT = "report_path"
"""The provider option that names a file for the report."""
OWN = "OrtLiteExecutionProvider"
"""The name inside onnxruntime of ort-lite's CPU provider, whose own name onnxruntime gives to its own."""


class Remainder(ExecutionProvider):
    """Stands for onnxruntime while nodes are assigned: takes what the provider leaves."""

    name: ClassVar[str] = "onnxruntime"

    def get_capability(self, graph: GraphView) -> Iterator[Capability]:
        """Claim every node."""
        return (Capability([node]) for node in graph)


class HostedProvider:
    """An instance of a provider for one session of onnxruntime.

    Args:
        name: the name under which the provider is registered in ort-lite.
        options: provider options, those of `ort_lite.options.policies` and `report_path` included.
        entries: the session's config entries.
        instance: the provider, if it was created before.
        base: the options of the session to which the entries are added, if they are known.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        entries: Mapping[str, str],
        instance: ExecutionProvider | None = None,
        base: SessionOptions | None = None,
    ) -> None:
        given = dict(options)
        self._report_path = given.pop(REPORT, "")
        given.setdefault("on_compile_error", RAISE)  # a node that is fused cannot go back to onnxruntime
        self.policy, own = split(given, name)
        self.name, self.provider = name, create(instance if instance is not None else DEFAULT if name == OWN else name, own)
        self._options = SessionOptions() if base is None else base
        for key, value in entries.items():
            self._options.add_session_config_entry(key, value)
        open_session_memory(self._options)
        self.provider.configure(self._options)
        self._rules = rules_of([self.provider])
        self._nodes: list[NodeReport] = []
        self._count = 0

    @property
    def hears_runs(self) -> bool:
        """Return True if the provider overrides a hook that is called around each run."""
        cls = type(self.provider)
        return any(getattr(cls, name) is not getattr(ExecutionProvider, name) for name in ("on_run_start", "on_run_end"))

    # Claims

    def claim(self, read: HostGraph, parent: HostGraph | None) -> list[list[int]]:
        """Return the OrtNodes of each partition. Notes why the provider does not run the others.

        A body that the provider runs together with its control-flow node, `parent`, is left for that node.
        """
        if parent is not None and self._takes_all(parent):
            return []
        assignment = self._assign(read)
        partitions = [p for p in assignment.levels[0].partitions if p.provider is self.provider]
        self._note(read.model.graph, assignment, partitions)
        return [[read.addresses[node] for node in partition.nodes] for partition in partitions]

    def _assign(self, read: HostGraph) -> Assignment:
        self._infer(read.model.graph)
        providers = [self.provider, Remainder()]
        constraints = constraints_of(providers, [self.policy, Policy()], (), self._options)
        label = constraints.labels[0]
        for node in read.model.graph:
            if (why := read.unreadable.get(node) or _foreign(node)) is not None:
                constraints.exclusions.exclude(label, [node], why)
        partitioner = Partitioner(read.model.graph, providers, self._rules, constraints)
        while True:
            assignment = partitioner.assignment(partitioner.claim())
            split = [node for node in read.model.graph if _is_split(node, assignment, label)]
            if not split:
                return assignment
            constraints.exclusions.exclude(label, split, "a node of its body stays in onnxruntime")

    def _takes_all(self, parent: HostGraph) -> bool:
        assignment = self._assign(parent)
        label = next(iter(assignment.providers))
        return all(place.provider == label for place in assignment.placements.values())

    def _infer(self, graph: Graph) -> None:
        """Improve the shapes that onnxruntime inferred by ort-lite's own, and those of operators that only the provider knows."""
        try:
            annotate(graph, self._rules)
        except OrtLiteError as error:
            log.warn(self._options, f"{self.name}: shapes are those of onnxruntime alone: {describe(error)}")

    def _note(self, graph: Graph, assignment: Assignment, partitions: Sequence[Partition]) -> None:
        names: dict[Node, str] = {}
        for partition in partitions:
            names.update(dict.fromkeys(partition.nodes, f"{self.name}_{self._count}"))
            self._count += 1
        label = next(iter(assignment.providers))
        for node in graph:
            reasons = assignment.of(node).reasons if node not in names else ()
            why = next((str(reason) for reason in reasons if reason.provider == label), "")
            self._nodes.append(NodeReport(graph.name, node.name, node.operator, names.get(node, ""), why))

    def report(self) -> Report:
        """Return what became of each node, and write it to the file that the option names."""
        report = Report(self.name, tuple(self._nodes))
        if self._report_path:
            try:
                with open(self._report_path, "w", encoding="utf-8") as file:
                    file.write(f"{report}\n")
            except OSError as error:
                raise ProviderError(f"{self.name}: {REPORT} {os.fspath(self._report_path)!r}: {error.strerror}") from error
        return report

    # Partitions

    def compile(self, model: Model) -> Settled:
        """Compile the nodes of a fused node. What the provider does not take now runs on ort-lite's CPU provider."""
        self._infer(model.graph)
        chosen = self._selection()
        constraints = constraints_of(chosen.providers, chosen.policies, (), self._options)
        compiler = Compiler(dict(zip(constraints.labels, chosen.policies, strict=True)), fuser_of(self._options))
        return settle(model, chosen, self._options, constraints, None, compiler)

    def _selection(self) -> Selection:
        if self.name == OWN:
            return Selection((self.provider,), (), (self.policy,), listed=False)
        last = create(DEFAULT, {})
        last.configure(self._options)
        return Selection((self.provider, last), (), (self.policy, Policy()), listed=False)

    # Runs

    def set_options(self, options: Mapping[str, str]) -> None:
        """Set dynamic options of the provider."""
        self.provider.set_dynamic_options(options)

    def run_start(self, options: RunOptions) -> None:
        """Pass the start of a run on."""
        self.provider.on_run_start(options)

    def run_end(self, options: RunOptions, wait: bool) -> None:
        """Pass the end of a run on, and wait for work in flight if onnxruntime wants to."""
        self.provider.on_run_end(options)
        if wait:
            self.provider.sync()


def _is_split(node: Node, assignment: Assignment, label: str) -> bool:
    """Return True if the provider has a control-flow node and somebody else a node of its bodies: what is fused is fused whole."""
    if not node.subgraphs() or assignment.of(node).provider != label:
        return False
    return any(assignment.of(inner).provider != label for body in node.subgraphs() for inner in body.all_nodes())


def _foreign(node: Node) -> str | None:
    """Return the reason why a node cannot leave onnxruntime, or None: only tensors cross."""
    for value in (*node.inputs, *node.outputs, *node.captures()):
        if value is not None and not isinstance(value.type, TensorType):
            return f"{value.name!r} is {value.type or 'of unknown type'}; only tensors cross between onnxruntime and a provider"
    return None


def registered_names() -> list[str]:
    """Return the names of installed providers. ort-lite's CPU provider is `OrtLiteExecutionProvider` here."""
    return [OWN if name == DEFAULT else name for name in plugins.installed_providers()]
