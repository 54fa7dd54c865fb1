"""A provider composed of several others.

    composite = CompositeProvider(children=["OpenVINOExecutionProvider", MyProvider()], strategy="cost")
    InferenceSession(model, providers=[composite])

The session sees one provider. The composite partitions the nodes that it receives among its children with the session's own
partitioner and executor. Use it to apply your own policy to devices that a session should treat as one: partitions are as large
as all children together allow, and copies between children stay inside.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from ort_lite.compile import lifecycle
from ort_lite.compile.compile import Compiled, compile_assignment
from ort_lite.errors import ProviderError, RuntimeException
from ort_lite.graph.graph import Node
from ort_lite.native.checkpoint import checkpoint
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.partition.answers import Answer, Answers
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.claims import Claims
from ort_lite.partition.constraints import constraints_of
from ort_lite.partition.cost.strategy import Strategy, strategy_of
from ort_lite.partition.partition import Partitioner, partition
from ort_lite.plugins import selection
from ort_lite.provider.ask import ask
from ort_lite.provider.current import CURRENT
from ort_lite.provider.forks import check_process
from ort_lite.provider.provider import (
    Capability,
    CompiledPartition,
    ExecutionProvider,
    GraphView,
    Partition,
    ProfileEvent,
    Rejection,
)
from ort_lite.provider.subgraph import subgraph
from ort_lite.session.simplify import fuser_of


class CompositeProvider(ExecutionProvider):
    """A provider that runs every node that one of its children can run.

    `children` are entries as in `providers=`, in order of preference. `strategy` assigns the nodes of a partition to children:
    "greedy", "cost" or an object from `ort_lite.partition.cost`. Values enter and leave the composite on the CPU. A
    control-flow node is claimed as a whole, and only if the children can run it and every node in its bodies. The session does
    not know the shape rules of the children's own operators: register them as transforms do.
    """

    name: ClassVar[str] = "CompositeExecutionProvider"
    default: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self, children: Sequence[selection.ProviderEntry], strategy: "str | Strategy" = "greedy", **unknown: Any
    ) -> None:
        super().__init__(**unknown)
        pairs = [entry if isinstance(entry, tuple) else (entry, {}) for entry in children]
        self.children: list[ExecutionProvider] = [selection.create(entry, given) for entry, given in pairs]
        if not self.children:
            raise ProviderError(f"{self.name}: a composite needs children").about(provider=self.name)
        self.strategy = strategy_of(strategy, SessionOptions())
        self._fuser = fuser_of(SessionOptions())
        self._units: dict[Node, tuple[int, Capability]] = {}
        """The child and the Capability of each claimed node; filled only while a session is created."""
        self.config_keys = [key for child in self.children for key in child.config_keys]  # type: ignore[misc]

    def configure(self, options: SessionOptions) -> None:
        """Configure every child with the session's options."""
        self._fuser = fuser_of(options)
        for child in self.children:
            ask(child, "configure", options)

    def get_options(self) -> dict[str, Any]:
        """Return the names of the children."""
        return {"children": [child.name for child in self.children]}

    # Before a session runs

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield a Capability for each group of nodes that a child claims, and a Rejection for each other node."""
        offered = set(graph)
        partitioner = Partitioner(graph.graph, self.children, graph.rules, constraints_of(self.children))
        claims = partitioner.claim([node for node in graph.graph if node not in offered])
        self._remember(claims)
        unfit = {node for node in claims.bodies if node in graph.split_bodies or not _claims_bodies(claims, node)}
        for number in claims.quotient.order():
            nodes = [claims.nodes[k] for k in claims.quotient.members[number]]
            if number not in claims.groups:
                yield from (self._reject(claims, node) for node in nodes if node in offered)
                continue
            for capability in claims.groups[number].capabilities:
                if unfit.isdisjoint(capability.nodes):
                    yield Capability(capability.nodes, whole=not claims.bodies.keys().isdisjoint(capability.nodes))
                else:
                    yield from (Rejection(node, "body", "no child takes all that is inside") for node in capability.nodes)

    def _reject(self, claims: Claims, node: Node) -> Rejection:
        reasons = claims.reasons[claims.number[node]].values()
        code = next((reason.code for reason in reasons), "silent")
        return Rejection(node, code, "; ".join(f"{reason.provider} {reason}" for reason in reasons))

    def _remember(self, claims: Claims) -> None:
        for group in claims.groups.values():
            self._units.update((node, (group.provider, one)) for one in group.capabilities for node in one.nodes)
        for bodies in claims.bodies.values():
            for body in bodies:
                self._remember(body)

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if a child supports the node with this element type."""
        return any(ask(child, "supports_type", node, dtype) for child in self.children)

    def cost(self, node: Node) -> float | None:
        """Return the lowest estimate of the children in seconds, or None if no child has one."""
        return min((seconds for child in self.children if (seconds := ask(child, "cost", node)) is not None), default=None)

    def plan(self, given: Partition) -> Assignment:
        """Assign the nodes of a partition to children.

        Raises NotImplemented, naming the nodes, if no child accepts them as part of this partition.
        """
        graph = subgraph(given)
        originals = [inner for node in given.nodes for inner in _all(node)]
        copies = dict(zip(originals, (inner for node in graph for inner in _all(node)), strict=True))
        units = {copies[node]: self._units[node] for node in originals if node in self._units}
        constraints = constraints_of(self.children)
        constraints.answers = _Remembered(constraints.labels, units, copies)
        return partition(graph, self.children, given.rules, constraints, self.strategy)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        """Plan and compile each partition. A partition that fails yields its exception instead."""
        results: list[CompiledPartition | Exception] = []
        for one in partitions:
            try:
                assignment = self.plan(one)
                results.append(_create_inside(assignment, compile_assignment(assignment, fuser=self._fuser)))
            except Exception as error:  # noqa: BLE001  this partition alone goes elsewhere
                checkpoint()
                results.append(error)
        return results

    # While a session lives

    def on_session_initialization_end(self) -> None:
        """Forget the claims and notify the children."""
        self._units.clear()
        lifecycle.finish_initialization(self.children)

    def on_run_start(self, options: RunOptions | None) -> None:
        """Call `on_run_start` of every child that has it. Raises ProviderError for a child that a fork has lost."""
        for child in self.children:
            check_process(child)
        for child in lifecycle.with_hook(self.children, "on_run_start"):
            ask(child, "on_run_start", options, error=RuntimeException)

    def on_run_end(self, options: RunOptions | None) -> None:
        """Call `on_run_end` of every child that has it, last child first."""
        self._tell("on_run_end", options)

    def sync(self) -> None:
        """Wait until every child has finished its work."""
        self._tell("sync")

    def _tell(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all children in reverse order. Every child is called even if one fails."""
        children = reversed(lifecycle.with_hook(self.children, hook))
        calls = (partial(ask, child, hook, *arguments, error=RuntimeException) for child in children)
        lifecycle.raise_first(lifecycle.failures_of(calls))

    def start_profiling(self) -> None:
        """Start profiling in every child."""
        lifecycle.start_profiling(self.children)

    def end_profiling(self) -> Iterator[ProfileEvent]:
        """Yield the profiling events of every child."""
        for child in lifecycle.with_hook(self.children, "end_profiling"):
            yield from ask(child, "end_profiling")

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Set dynamic options in the children that support them."""
        lifecycle.set_dynamic_options(self.children, options)


class _Remembered(Answers):
    """The children's answers about one partition, replayed from their answers about the whole graph.

    A child is asked again only about nodes that an earlier child claimed and gave back, and about nodes without an answer.
    """

    def __init__(
        self, labels: Sequence[str], units: Mapping[Node, tuple[int, Capability]], copies: Mapping[Node, Node]
    ) -> None:
        super().__init__(labels)
        self._owner = {node: child for node, (child, _) in units.items()}
        self._units: dict[int, list[Capability]] = {}
        for child, unit in {id(unit): (child, unit) for child, unit in units.values()}.values():
            if all(node in copies for node in unit.nodes):
                made = unit.replace(nodes=[copies[node] for node in unit.nodes], minimum=1)
                self._units.setdefault(child, []).append(made)

    def of(self, index: int, provider: ExecutionProvider, view: GraphView) -> list[Answer]:
        offered = set(view)
        known = [unit for unit in self._units.get(index, ()) if offered.issuperset(unit.nodes)]
        others = {node for node in offered if self._owner.get(node, -1) >= index}
        return [*known, *self._ask(index, provider, view.replace(claimed=view.claimed | others))]


def _all(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes in its bodies."""
    yield node
    for body in node.subgraphs():
        yield from body.all_nodes()


def _claims_bodies(claims: Claims, node: Node) -> bool:
    """Return True if the children claim every node in the node's bodies, at all depths."""
    if node in claims.whole:
        return True
    bodies = claims.bodies[node]
    return all(None not in body.taken_by and all(_claims_bodies(body, inner) for inner in body.bodies) for body in bodies)


def _create_inside(assignment: Assignment, compiled: Compiled) -> "Inside":
    stateful = any(hasattr(one, "create_state") for one in compiled.partitions.values())
    return StatefulInside(assignment, compiled) if stateful else Inside(assignment, compiled)


class Inside:
    """A compiled partition of a composite, made of its children's partitions."""

    def __init__(self, assignment: Assignment, compiled: Compiled) -> None:
        self.assignment, self._compiled = assignment, compiled

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self._compiled.executable.run_without_aliases(inputs, CURRENT.options)

    def facts(self) -> dict[str, int | str]:
        """Return the node count of each child's partition and the number of Python steps."""
        named = {p.name: f"{len(p.nodes)} nodes" for p in self.assignment.partitions}
        steps = sum(int(facts.get("python_steps", 0)) for facts in self._compiled.facts().values())
        return {"partitions": len(named), **named, "python_steps": steps}


class StatefulInside(Inside):
    """A compiled partition whose inner partitions have state, which lives as long as the outer state."""

    def create_state(self) -> Compiled:
        """Return the compiled children, whose states serve as this partition's state."""
        return self._compiled

    def release_state(self, state: Compiled) -> None:
        """Release the states of the children's partitions."""
        lifecycle.close_states(state)

    def __call__(self, inputs: Sequence[Any], state: Compiled | None = None) -> list[Any]:
        return super().__call__(inputs)
