"""Stage 2: transforms change the graph until none of them finds anything more to do.

Levels come one after the other, so that fusions see a graph that is already simple: `required` transforms, then those of
`basic` until nothing changes, then `basic` and `extended`, then all. Inside a level graph passes run in the order of the
list, then rules, over all nodes in graph order and then over those that something happened to. A level ends with a round that
changes nothing. Same model, same transforms: same result, name for name.
"""

import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ort_lite.errors import Fail, InvalidArgument, OrtLiteError, format_error, hint
from ort_lite.graph.graph import Graph, Node
from ort_lite.graph.model import Model
from ort_lite.inference.annotate import annotate
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.log.events import Span, no_span
from ort_lite.native.checkpoint import checkpoint
from ort_lite.record import Record
from ort_lite.transform.budget import OverBudget
from ort_lite.transform.contract import LEVELS, Change, GraphPass, LocalRule, Transform, names_of
from ort_lite.transform.patterns import Match, Pattern, find, operators_before
from ort_lite.transform.rewriter import FOLD_LIMIT, Done, Rewriter, Skip
from ort_lite.transform.soundness import Outline

# onnxruntime's levels; its "layout" changes layouts, which is the provider's own business here.
UP_TO = {"disable_all": "required", "basic": "basic", "extended": "extended", "layout": "extended", "all": "all"}

# Far above what real models need (8 rounds a level, a change for two nodes): what reaches them goes on for ever.
_MOST_ROUNDS = 64
_MOST_CHANGES = (1000, 20)  # a constant, and as many again for each node


class Skipped(Record):
    """A place where a transform's pattern was found and left as it was."""

    transform: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.transform} skipped {self.node}: {self.reason}"


class TransformReport(Record):
    """The effects of transforms on a model. Printed, one transform a line:

    level all: 1070 nodes became 612 in 7 rounds
    fold_constants          basic     311 changes
    merge_transposes        basic       4 changes, 1 skipped: y has other readers
    """

    level: str
    nodes_before: int
    nodes_after: int
    rounds: int
    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]
    levels: tuple[tuple[str, str], ...]
    """(transform, its level), in the order of the list."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of changes by transform."""
        counts: Counter[str] = Counter()
        for change in self.changes:
            counts[change.transform] += change.times
        return counts

    def __str__(self) -> str:
        skips: dict[str, list[str]] = {}
        for skip in self.skipped:
            skips.setdefault(skip.transform, []).append(skip.reason)
        counts = self.counts
        lines = [f"level {self.level}: {self.nodes_before} nodes became {self.nodes_after} in {self.rounds} rounds"]
        for name, level in self.levels:
            if counts.get(name) or name in skips:
                line = f"{name:<32} {level:<9} {counts.get(name, 0):>5} changes"
                reasons = skips.get(name, ())
                lines.append(line + (f", {len(reasons)} skipped: {reasons[0]}" if reasons else ""))
        return "\n".join(lines)

    def __repr__(self) -> str:
        changes = sum(change.times for change in self.changes)
        nodes = f"{self.nodes_before} -> {self.nodes_after}"
        return f"TransformReport(level {self.level}; nodes: {nodes}; changes: {changes}; rounds: {self.rounds})"


def transform(
    model: Model,
    transforms: Sequence[Transform],
    level: str = "all",
    *,
    rules: ShapeRules,
    disabled: Collection[str] = (),
    fold_limit: int = FOLD_LIMIT,
    span: Span = no_span,
) -> TransformReport:
    """Changes `model.graph` in place and annotates every value with its type. `span` hears of inference and of what transforms do.

    `level` is "disable_all", "basic", "extended", "layout" or "all"; `disabled` names transforms to leave out, or counterparts.
    Ends also when transforms go on changing the graph without end, with a RuntimeWarning that names them. Raises InvalidArgument
    for names that are not known, ShapeInferenceError for a model whose shapes do not fit, Fail naming a transform that left a
    cycle, an input that nobody makes, or other outputs than there were.
    """
    _check(transforms, level, disabled)
    graph = model.graph
    chosen = transforms_of(transforms, level, disabled)
    before = sum(1 for _ in graph.all_nodes())
    rewriter = Rewriter(graph, Inference(rules), model.opset_imports, fold_limit)
    driver = Driver(rewriter) if span is no_span else _WatchedDriver(rewriter, span)
    # Before inference, so that a weight in a Constant node is a weight to it.
    driver.passes([t for t in chosen if isinstance(t, GraphPass) and t.level == "required"])
    with span("inference"):
        driver.rewriter.inference = annotate(graph, rules)
    driver.rewriter.stale.clear()
    driver.outline = Outline(graph)  # types are known now
    for phase in phases_of(tuple(chosen)):
        driver.run(phase)
    driver.outline.check(driver.changes, [t.name for t in chosen])
    return TransformReport(
        level=level,
        nodes_before=before,
        nodes_after=sum(1 for _ in graph.all_nodes()),
        rounds=driver.rounds,
        changes=tuple(driver.changes),
        skipped=tuple(driver.current_skips),
        levels=tuple((t.name, t.level) for t in chosen),
    )


def transforms_of(transforms: Sequence[Transform], level: str, disabled: Collection[str]) -> list[Transform]:
    """Return the transforms that run at an optimisation level. Raises InvalidArgument for two of one name."""
    names = [t.name for t in transforms]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidArgument(f"two transforms are called {twice[0]!r}: rename one, or disable the distribution it is from")
    highest = LEVELS.index(UP_TO[level])
    return [t for t in transforms if names_of([t]).isdisjoint(disabled) and LEVELS.index(t.level) <= highest]


def _check(transforms: Sequence[Transform], level: str, disabled: Collection[str]) -> None:
    if level not in UP_TO:
        raise InvalidArgument(f"graph optimisation level {level!r} is none of {', '.join(UP_TO)}")
    names = names_of(transforms)
    for name in disabled:
        if name not in names:
            raise InvalidArgument(f"no transform is called {name!r}{hint(name, names)}")


class Phase(Record):
    """A set of transforms that runs until nothing changes: those up to a level, rules by the operator at their root."""

    passes: tuple[GraphPass, ...]
    rules: "Index"
    new: "Index"
    """Rules of this very level: no node was looked at for them before."""
    deep: "Index"
    """Rules that look further than the neighbours of a node."""


@lru_cache(maxsize=16)  # of few levels and providers
def phases_of(transforms: tuple[Transform, ...]) -> tuple[Phase, ...]:
    """A phase for each level that has transforms. Most sessions of a process have the same ones: a quarter of a millisecond each."""
    phases = []
    for k, level in enumerate(LEVELS):
        found = [t for t in transforms if LEVELS.index(t.level) <= k]
        if any(t.level == level for t in found):
            rules = [t for t in found if isinstance(t, LocalRule)]
            new = [t for t in rules if t.level == level]
            deep = [t for t in rules if any(pattern.depth > 2 for pattern in t.patterns)]
            passes = tuple(t for t in found if isinstance(t, GraphPass))
            phases.append(Phase(passes, index_of(rules), index_of(new), index_of(deep)))
    return tuple(phases)


class Driver:
    """Applies transforms through a Rewriter. Graphs in `fixed` are left as they are."""

    def __init__(self, rewriter: Rewriter, fixed: Collection[Graph] = ()) -> None:
        self.rewriter, self.graph, self._fixed = rewriter, rewriter.graph, frozenset(fixed)
        self.outline = Outline(self.graph)
        self.rounds = 0
        self.changes: list[Change] = []
        self._skips: dict[str, list[Skipped]] = {}  # by pass
        self._node_skips: dict[Node, list[Skipped]] = {}
        self._budget, self._counted = _MOST_CHANGES[0], False  # nodes are counted when the constant is used up
        self._seen: dict[str, int] = {}  # pass -> number of changes after its last run

    @property
    def current_skips(self) -> list[Skipped]:
        """Return what was left alone in the graph as it is now."""
        local = [skip for node, skips in self._node_skips.items() if node.graph is not None for skip in skips]
        return [*(skip for skips in self._skips.values() for skip in skips), *local]

    def run(self, phase: Phase) -> None:
        """Runs a phase's transforms until nothing changes; the first look at all nodes is for rules that are new."""
        new = phase.new
        self.rewriter.touched.clear()
        for _ in range(_MOST_ROUNDS):
            self.rounds += 1
            before = len(self.changes)
            self.passes(phase.passes)
            self._sweep(new, phase.rules)
            if len(self.changes) == before:
                return
            if self._budget <= 0:
                break
            new = phase.deep  # a change puts its direct surroundings on the list, all that the other rules look at
        busy = ", ".join(sorted({change.transform for change in self.changes[-100:]}))
        warnings.warn(f"transforms were stopped that change the graph without end: {busy}", RuntimeWarning, stacklevel=4)

    def passes(self, passes: Iterable[GraphPass]) -> None:
        """Runs those passes that have not seen the graph as it is."""
        for found in passes:
            if self._seen.get(found.name) == len(self.changes):
                continue
            self._run_pass(found)
            self._seen[found.name] = len(self.changes)

    def _run_pass(self, found: GraphPass) -> None:
        checkpoint()
        self.rewriter.begin()
        self.rewriter.skips.clear()
        moves, touched = self.graph.moves, len(self.rewriter.touched)
        try:
            count = found.function(self.graph, self.rewriter)
        except OverBudget as error:
            self.rewriter.skips[f"graph {self.graph.name!r}", str(error)] = None
            count = len(self.rewriter.added) + len(self.rewriter.removed)
        except OrtLiteError as error:
            error.add_note(f"while the transform {found.name} looked at graph {self.graph.name!r}")
            raise
        except Exception as error:
            raise _failure(found, f"graph {self.graph.name!r}", error) from error
        answer: object = count
        if not isinstance(answer, int) or answer < 0:
            raise Fail(f"the transform {found.name} returned {count!r}; expected the number of its changes")
        known = len(self.rewriter.added) + len(self.rewriter.removed)
        if self.graph.moves - moves != known or (count and not known and len(self.rewriter.touched) == touched):
            self.outline.look_closely(found.name)  # it did something that the Rewriter does not know
        self._skips[found.name] = [Skipped(found.name, *skip) for skip in self.rewriter.skips]
        if count:
            self._note(found.name, count)

    def _sweep(self, first: "Index", index: "Index") -> None:
        """Visits every node with the rules of `first`, and with all of `index` those that something happened to."""
        touched, stale, any_operator = self.rewriter.touched, self.rewriter.stale, "*" in first
        if first:
            for node in list(self.graph.all_nodes()):
                if node.graph is None:  # removed meanwhile
                    continue
                if node in touched:
                    del touched[node]
                    self._visit(node, index)
                elif any_operator or node.op_type in first or node in stale:
                    self._visit(node, first)
        queue = deque(touched)
        waiting = set(touched)
        touched.clear()
        while queue and self._budget > 0:
            node = queue.popleft()
            waiting.discard(node)
            if node.graph is not None:
                self._visit(node, index)
            if touched:
                queue.extend(found for found in touched if found not in waiting)
                waiting.update(touched)
                touched.clear()

    def _visit(self, node: Node, index: "Index") -> None:
        """Tries the rules until one of them fires."""
        rewriter = self.rewriter
        if node.graph in self._fixed:
            return
        if node in rewriter.stale:
            rewriter.refresh(node)
        rules = index.get(node.op_type) or index.get("*")
        if not rules:
            return
        before = operators_before(node)
        skips = []
        for rule, patterns in rules:
            for pattern in patterns:
                match = find(pattern, node, rewriter.array, before)
                if match is not None:
                    break
            else:
                continue
            result = self._apply(rule, match, node)
            if result is None:
                if node.graph is not None:
                    rewriter.touched[node] = None
                return
            skips.append(result)
        if skips or node in self._node_skips:
            others = [skip for skip in self._node_skips.get(node, ()) if all(skip.transform != rule.name for rule, _ in rules)]
            self._node_skips[node] = others + skips

    def _apply(self, rule: LocalRule, match: Match, node: Node) -> Skipped | None:
        checkpoint()
        who = node.name or str(node)
        try:
            result = self.rewriter.apply(rule.function, match, rule.private)
        except OrtLiteError as error:
            error.add_note(f"while the transform {rule.name} looked at {who}")
            raise
        except Exception as error:
            raise _failure(rule, str(node), error) from error
        if isinstance(result, Skip):
            return Skipped(rule.name, who, result.reason)
        if not isinstance(result, Done):
            raise Fail(f"the transform {rule.name} returned {result!r} at {who}; expected Done or Skip")
        self._note(rule.name)
        return None

    def _note(self, name: str, count: int = 1) -> None:
        self.outline.look(name)
        self.changes.append(Change(name, tuple(self.rewriter.removed), tuple(n.name for n in self.rewriter.added), count))
        self._budget -= 1
        if not self._budget and not self._counted:
            grown = sum(len(change.added) - len(change.removed) for change in self.changes)
            nodes = sum(1 for _ in self.graph.all_nodes()) - grown
            self._budget, self._counted = _MOST_CHANGES[1] * max(nodes, 0), True


class _WatchedDriver(Driver):
    """Tells what each transform does: a span around each pass, and around each call of a rule whose pattern was found."""

    def __init__(self, rewriter: Rewriter, span: Span) -> None:
        super().__init__(rewriter)
        self._span = span
        self._nodes = sum(1 for _ in self.graph.all_nodes())

    def _run_pass(self, found: GraphPass) -> None:
        with self._span(found.name, nodes_before=self._nodes) as facts:
            before = len(self.changes)
            super()._run_pass(found)
            self._note_changes(before, facts)

    def _apply(self, rule: LocalRule, match: Match, node: Node) -> Skipped | None:
        with self._span(rule.name, nodes_before=self._nodes) as facts:
            before = len(self.changes)
            result = super()._apply(rule, match, node)
            self._note_changes(before, facts)
        return result

    def _note_changes(self, before: int, facts: dict[str, Any]) -> None:
        made = self.changes[before:]
        self._nodes += sum(len(change.added) - len(change.removed) for change in made)
        facts.update(nodes_after=self._nodes, fired=sum(change.times for change in made))


def _failure(transform: Transform, where: str, error: Exception) -> Fail:
    return Fail(
        f"the transform {transform.name} failed at {where}: {format_error(error)}; without it: disabled_optimizers=[{transform.name!r}]"
    )


Index = dict[str, list[tuple[LocalRule, list[Pattern]]]]


def index_of(rules: Sequence[LocalRule]) -> Index:
    """Rules with those of their patterns that may have their root at an operator, by operator; "*" for any other."""
    types = {op_type for rule in rules for pattern in rule.patterns for op_type in pattern.op_types}
    index: Index = {}
    for rule in rules:
        fitting: dict[str, list[Pattern]] = {}
        for pattern in rule.patterns:
            for op_type in types if "*" in pattern.op_types else pattern.op_types:
                fitting.setdefault(op_type, []).append(pattern)
        for op_type, patterns in fitting.items():
            index.setdefault(op_type, []).append((rule, patterns))
    return index
