"""One provider made of several: what it is given, it partitions among its children, by the same partitioner and executor.

    composite = CompositeProvider(children=["OpenVINOExecutionProvider", MyProvider()], strategy="cost")
    InferenceSession(model, providers=[composite])

For a policy of one's own over devices that a session shall see as one: its partitions are as large as all children together can
make them, and what moves between children stays inside.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from ort_lite.compile import lifecycle
from ort_lite.compile.compile import Compiled, compile_assignment
from ort_lite.errors import ProviderError, RuntimeException
from ort_lite.execute.execute import owned
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
    """Takes every node that one of its `children` takes, in the order of preference. Values enter and leave it on the CPU.

    `children` are entries as in `providers=`. `strategy` deals the nodes of a partition out: "greedy", "cost" or one of
    `ort_lite.partition.cost`. Control-flow nodes are taken whole, where children take them and all that is inside. Shape rules of
    the children's own operators are not known to a session: register them as transforms do.
    """

    name: ClassVar[str] = "CompositeExecutionProvider"
    default: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self, children: Sequence[selection.ProviderEntry], strategy: "str | Strategy" = "greedy", **options: Any
    ) -> None:
        super().__init__(**options)
        pairs = [entry if isinstance(entry, tuple) else (entry, {}) for entry in children]
        self.children: list[ExecutionProvider] = [selection.create(entry, given) for entry, given in pairs]
        if not self.children:
            raise ProviderError(f"{self.name}: a composite needs children").about(provider=self.name)
        self.strategy = strategy_of(strategy, SessionOptions())
        self._fuser = fuser_of(SessionOptions())
        self._units: dict[Node, tuple[int, Capability]] = {}
        """While a session is made: what was taken by which child, as one unit."""
        self.config_keys = [key for child in self.children for key in child.config_keys]  # type: ignore[misc]

    def configure(self, options: SessionOptions) -> None:
        self._fuser = fuser_of(options)
        for child in self.children:
            ask(child, "configure", options)

    def get_options(self) -> dict[str, Any]:
        return {"children": [child.name for child in self.children]}

    # Before a session runs

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        offered = set(graph)
        partitioner = Partitioner(graph.graph, self.children, graph.rules, constraints_of(self.children))
        claims = partitioner.claim([node for node in graph.graph if node not in offered])
        self._remember(claims)
        unfit = {node for node in claims.bodies if node in graph.split_bodies or not _inside_is_taken(claims, node)}
        for number in claims.quotient.order():
            nodes = [claims.nodes[k] for k in claims.quotient.members[number]]
            if number not in claims.groups:
                yield from (self._declined(claims, node) for node in nodes if node in offered)
                continue
            for capability in claims.groups[number].capabilities:
                if unfit.isdisjoint(capability.nodes):
                    yield Capability(capability.nodes, whole=not claims.bodies.keys().isdisjoint(capability.nodes))
                else:
                    yield from (Rejection(node, "body", "no child takes all that is inside") for node in capability.nodes)

    def _declined(self, claims: Claims, node: Node) -> Rejection:
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
        return any(ask(child, "supports_type", node, dtype) for child in self.children)

    def cost(self, node: Node) -> float | None:
        """The cheapest child's that knows."""
        return min((seconds for child in self.children if (seconds := ask(child, "cost", node)) is not None), default=None)

    def plan(self, given: Partition) -> Assignment:
        """Choose the child that runs each part of a partition.

        Raises NotImplemented that names nodes which no child accepts together.
        """
        graph = subgraph(given)
        originals = [inner for node in given.nodes for inner in _all(node)]
        copies = dict(zip(originals, (inner for node in graph for inner in _all(node)), strict=True))
        units = {copies[node]: self._units[node] for node in originals if node in self._units}
        constraints = constraints_of(self.children)
        constraints.answers = _Remembered(constraints.labels, units, copies)
        return partition(graph, self.children, given.rules, constraints, self.strategy)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        results: list[CompiledPartition | Exception] = []
        for one in partitions:
            try:
                assignment = self.plan(one)
                results.append(_made(assignment, compile_assignment(assignment, fuser=self._fuser)))
            except Exception as error:  # noqa: BLE001  this partition alone goes elsewhere
                checkpoint()
                results.append(error)
        return results

    # While a session lives

    def on_session_initialization_end(self) -> None:
        self._units.clear()
        lifecycle.finish_initialization(self.children)

    def on_run_start(self, options: RunOptions | None) -> None:
        for child in lifecycle.with_hook(self.children, "on_run_start"):
            ask(child, "on_run_start", options, error=RuntimeException)

    def on_run_end(self, options: RunOptions | None) -> None:
        self._tell("on_run_end", options)

    def sync(self) -> None:
        self._tell("sync")

    def _tell(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all children, the last one first, also where one of them fails."""
        children = reversed(lifecycle.with_hook(self.children, hook))
        calls = (partial(ask, child, hook, *arguments, error=RuntimeException) for child in children)
        lifecycle.raise_first(lifecycle.failures_of(calls))

    def start_profiling(self) -> None:
        lifecycle.start_profiling(self.children)

    def end_profiling(self) -> Iterator[ProfileEvent]:
        for child in lifecycle.with_hook(self.children, "end_profiling"):
            yield from ask(child, "end_profiling")

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        lifecycle.set_dynamic_options(self.children, options)


class _Remembered(Answers):
    """Answers for the nodes of one partition: children answer what they answered in the company of the whole graph.

    A child is asked again about nodes that one before it had, and gave back, and about those of which nothing is known.
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
    """The node and those inside it."""
    yield node
    for body in node.subgraphs():
        yield from body.all_nodes()


def _inside_is_taken(claims: Claims, node: Node) -> bool:
    """Return True if the children have every node in the bodies, at all depths."""
    if node in claims.whole:
        return True
    bodies = claims.bodies[node]
    return all(None not in body.taken_by and all(_inside_is_taken(body, inner) for inner in body.bodies) for body in bodies)


def _made(assignment: Assignment, compiled: Compiled) -> "Inside":
    stateful = any(hasattr(one, "create_state") for one in compiled.partitions.values())
    return StatefulInside(assignment, compiled) if stateful else Inside(assignment, compiled)


class Inside:
    """A partition of a composite: an assignment of its own, compiled."""

    def __init__(self, assignment: Assignment, compiled: Compiled) -> None:
        self.assignment, self._compiled = assignment, compiled
        self._constants = [value for value in compiled.executable.returned if type(value) is not int]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        executable = self._compiled.executable
        outputs = executable.run(inputs, CURRENT.options)
        return owned(outputs, [*inputs, *self._constants]) if executable.outputs_may_alias else outputs

    def facts(self) -> dict[str, int | str]:
        """The children's partitions, and what they say of themselves, by partition."""
        named = {p.name: f"{len(p.nodes)} nodes" for p in self.assignment.partitions}
        steps = sum(int(facts.get("python_steps", 0)) for facts in self._compiled.facts().values())
        return {"partitions": len(named), **named, "python_steps": steps}


class StatefulInside(Inside):
    """One whose children's partitions have states: they live as long as the state of this one."""

    def create_state(self) -> Compiled:
        """Return the compiled children, which have states."""
        return self._compiled

    def release_state(self, state: Compiled) -> None:
        """Release the states of the children."""
        lifecycle.close_states(state)

    def __call__(self, inputs: Sequence[Any], state: Compiled | None = None) -> list[Any]:
        return super().__call__(inputs)
