"""A provider of ort-lite in a session of onnxruntime: its claims become fused nodes, its partitions their kernels."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from ort_lite import log
from ort_lite.compile.compile import Compiler
from ort_lite.compile.incidents import Incidents
from ort_lite.dtypes import BITS
from ort_lite.errors import OrtLiteError, ProviderError, describe
from ort_lite.graph import Attr, Graph, Model, Node, TensorType
from ort_lite.inference.annotate import annotate
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.options.policies import RAISE, Policy, split
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import constraints_of
from ort_lite.partition.partition import Partitioner
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import DEFAULT, Selection, create, rules_of
from ort_lite.provider import CPU, Capability, Device, ExecutionProvider, GraphView
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import Partition
from ort_lite.session.context import read_files
from ort_lite.session.preparation import open_session_memory
from ort_lite.session.prepare import LaterProviders
from ort_lite.session.settle import Settled, settle
from ort_lite.session.simplify import fuser_of
from ort_lite_ep.contexts import Context, ContextOptions, save_context
from ort_lite_ep.graph import HostGraph
from ort_lite_ep.reports import GraphReport, NodeReport

_UNMOVED = frozenset({"string", "float8_e8m0fnu", *BITS})
"""Element types that onnxruntime does not copy between the host and a device: strings, and those that are newer than its copy."""
_INLINED = frozenset({"SequenceMap"})
"""Operators with a body that onnxruntime has no kernel for, but a function."""
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
        contexts: whether the session saves compiled partitions, and where.
        instance: the provider, if it was created before.
        base: the options of the session to which the entries are added, if they are known.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        entries: Mapping[str, str],
        contexts: ContextOptions,
        instance: ExecutionProvider | None = None,
        base: SessionOptions | None = None,
    ) -> None:
        given = dict(options)
        self._report_path = given.pop(REPORT, "")
        given.setdefault("on_compile_error", RAISE)  # a node that is fused cannot go back to onnxruntime
        self.policy, own = split(given, name)
        self.name, self.contexts = name, contexts
        self.provider = create(instance if instance is not None else own_name(name), own)
        self._options = SessionOptions() if base is None else base
        for key, value in entries.items():
            self._options.add_session_config_entry(key, value)
        open_session_memory(self._options)
        self.provider.configure(self._options)
        self._rules = rules_of([self.provider])
        self._nodes: list[NodeReport] = []
        self._count = 0
        self._failure: BaseException | None = None

    @property
    def hears(self) -> int:
        """Return which hooks the provider has, as flags of shim.c: 1 around runs, 2 after session creation, 4 `sync`."""
        cls = type(self.provider)
        hooks = {"on_run_start": 1, "on_run_end": 1, "on_session_initialization_end": 2, "sync": 1 | 4}
        own = [flags for name, flags in hooks.items() if getattr(cls, name) is not getattr(ExecutionProvider, name)]
        return reduce(or_, own, 0)

    # Claims

    def claim(self, read: HostGraph, parent: HostGraph | None) -> list[list[int]]:
        """Return the OrtNodes of each partition. Notes why the provider does not run the others.

        A body that the provider runs together with its control-flow node, `parent`, is left for that node. onnxruntime only logs
        an error of this step and does without the provider. So a node is claimed whose compilation raises it.
        """
        try:
            claimed = self._claim(read, parent)
            self._write_report()
        except BaseException as error:  # noqa: BLE001  `compile` raises it
            self._failure = error
            return [[address] for node, address in read.addresses.items() if node not in read.unreadable][:1]
        return claimed

    def _claim(self, read: HostGraph, parent: HostGraph | None) -> list[list[int]]:
        if parent is not None and self._takes_all(parent):
            return []
        assignment = self._assign(read, "" if parent is None else self._reason_to_stay(parent))
        partitions = [p for p in assignment.levels[0].partitions if p.provider is self.provider]
        self._note(read.model.graph, assignment, partitions)
        return [[read.addresses[node] for node in partition.nodes] for partition in partitions]

    def _reason_to_stay(self, parent: HostGraph) -> str:
        """Return the reason why all nodes of a body stay with onnxruntime, or ""."""
        if any(node.operator in _INLINED for node in parent.model.graph):
            return (
                "onnxruntime puts a function in the place of the node around this body, and forgets whose fused nodes are in it"
            )
        return "onnxruntime saves no compiled nodes of bodies" if self.contexts.enable else ""

    def _assign(self, read: HostGraph, kept: str = "") -> Assignment:
        """Assign nodes to the provider or to onnxruntime. `kept`: the reason why none leaves onnxruntime, or ""."""
        self._infer(read.model.graph)
        providers = [self.provider, Remainder()]
        constraints = constraints_of(providers, [self.policy, Policy()], (), self._options)
        label = constraints.labels[0]
        for node in read.model.graph:
            if is_context(node) and node.attr("source", "") != self.provider.name:
                node.attributes["source"] = Attr.of("source", Remainder.name)  # onnxruntime passes it to its own provider
            why = kept or read.unreadable.get(node) or _foreign(node, self.provider.device)
            if why is not None:
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

    def report(self) -> GraphReport:
        """Return what became of each node so far."""
        return GraphReport(self.name, tuple(self._nodes))

    def _write_report(self) -> None:
        """Write the report to the file that the option names."""
        if not self._report_path:
            return
        try:
            with open(self._report_path, "w", encoding="utf-8") as file:
                file.write(f"{self.report()}\n")
        except OSError as error:
            raise ProviderError(f"{self.name}: {REPORT} {os.fspath(self._report_path)!r}: {error.strerror}") from error

    # Partitions

    def compile(self, model: Model) -> Settled:
        """Compile the nodes of a fused node. What the provider does not take now runs on ort-lite's CPU provider.

        Raises what `claim` failed with.
        """
        if self._failure is not None:
            raise self._failure
        self._infer(model.graph)
        chosen = self._selection()
        constraints = constraints_of(chosen.providers, chosen.policies, (), self._options)
        policies, incidents = dict(zip(constraints.labels, chosen.policies, strict=True)), Incidents(self._options)
        compiler = Compiler(policies, fuser_of(self._options), LaterProviders(model, chosen, self._options), incidents)
        settled = settle(model, chosen, self._options, constraints, None, compiler)
        for warning in settled.warnings:
            incidents.report(warning)
        return settled

    def _selection(self) -> Selection:
        if self.name == OWN:
            return Selection((self.provider,), (), (self.policy,), listed=False)
        last = create(DEFAULT, {})
        last.configure(self._options)
        return Selection((self.provider, last), (), (self.policy, Policy()), listed=False)

    def save(self, settled: Settled, name: str, model_path: str) -> Context:
        """Return a compiled partition in the form that is saved as node `name`. Raises ProviderError if it cannot be saved."""
        return save_context(settled, self.provider, self.contexts, name, model_path)

    def restore_files(self, model: Model, model_path: str) -> None:
        """Read saved partitions that are in files beside the model."""
        read_files(model.graph, model_path or self.contexts.path)

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


def _foreign(node: Node, device: Device) -> str | None:
    """Return the reason why a node cannot leave onnxruntime, or None: only tensors cross, and only numbers to a device."""
    for value in (*node.inputs, *node.outputs, *node.captures()):
        if value is None:
            continue
        if not isinstance(value.type, TensorType):
            return f"{value.name!r} is {value.type or 'of unknown type'}; only tensors cross between onnxruntime and a provider"
        if device != CPU and value.type.dtype in _UNMOVED and value.constant is None:
            return f"{value.name!r} is {value.type.dtype}, which onnxruntime does not move to {device}"
    return None


def own_name(name: str) -> str:
    """Return the name in ort-lite of a provider inside onnxruntime."""
    return DEFAULT if name == OWN else name


def registered_names() -> list[str]:
    """Return the names of installed providers. ort-lite's CPU provider is `OrtLiteExecutionProvider` here."""
    return [OWN if name == DEFAULT else name for name in plugins.installed_providers()]
