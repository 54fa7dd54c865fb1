"""The time of a run per node, or per group of nodes that ran as one, from a session's Kernel events."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ort_lite.compat.node_events import groups_of, nodes_by_partition
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.log.events import Event
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.work import Sizes, arithmetic, bytes_read, nbytes, operations
from ort_lite.provider.compiled import KernelChoice
from ort_lite.record import Record

FEWEST, MOST = 3, 200
"""Runs that are recorded."""

_ARITHMETICS = ("float32", "bfloat16", "int8")
Span = tuple[int, int]
"""When a run began and ended."""


class NodeTime(Record):
    """The time of a node or group in one run. `name` is that of the event, with "+" between fused nodes; `share` is the part of the
    whole run. `arithmetic` is the element type of its products. `instruction` multiplies in its kernel; "" if unknown.

    `nbytes` counts the tensors that go in and out, each once. `operations` is None if it depends on data. `nodes` are the names of
    the group, which is empty for what providers insert. `kernel` and `runner_up` are candidates that can compute it, "" if unknown.
    """

    name: str
    operator: str
    shapes: str
    seconds: float
    share: float
    nbytes: float
    operations: float | None
    nodes: tuple[str, ...] = ()
    kernel: str = ""
    runner_up: str = ""
    arithmetic: str = "float32"
    instruction: str = ""
    predicted: float | None = None
    """The predicted seconds of the kernel in one thread, at nominal sizes of open dimensions; None if there is no prediction."""


class Profile(Record):
    """Node times, the longest first. `runs` are the runs that count, and `seconds` is their median. Runs are slower than usual,
    because instructions run one at a time.
    """

    lines: tuple[NodeTime, ...]
    seconds: float
    runs: int

    def with_choices(self, choices: Mapping[str, KernelChoice]) -> "Profile":
        """Return the profile with the kernel of each line whose name is in `choices`, and its predicted time."""
        return self.replace(lines=tuple(_with_choice(line, choices.get(line.name)) for line in self.lines))

    def _repr_html_(self) -> str:
        from ort_lite.tools.view.tables import table

        columns = ("node", "operator", "us", "predicted us", "share", "kernel", "runner-up", "shapes")
        rows = [_row(line) for line in self.lines]
        return f"<p>{self.seconds * 1e6:,.1f} us a run, {self.runs} runs</p>{table(columns, rows, columns[2:5])}"


def _with_choice(line: NodeTime, choice: KernelChoice | None) -> NodeTime:
    if choice is None:
        return line
    known = {"kernel": choice.taken, "runner_up": choice.runner_up, "instruction": choice.instruction}
    return line.replace(**known, predicted=choice.predicted / 1e6)


def _row(line: NodeTime) -> tuple[str, ...]:
    predicted = "" if line.predicted is None else f"{line.predicted * 1e6:,.1f}"
    times = (f"{line.seconds * 1e6:,.1f}", predicted, f"{line.share:.1%}")
    return (line.name, line.operator, *times, line.kernel, line.runner_up, line.shapes)


def profile_of(
    events: Sequence[Event],
    every: Sequence[Span],
    assignment: Assignment,
    size: Sizes,
    steps: Iterable[Event] = (),
) -> Profile:
    """Return the profile of runs. Of `every` run, only the quiet ones count. An event belongs to one node or a fused group.

    `steps` are events of partitions or nodes; those of partitions count if none of their nodes has an event.
    """
    whole = nodes_by_partition(assignment)
    groups = groups_of({event.name: event.args.get("op_name", "") for event in events}, assignment)
    covered = {node for group in groups.values() for node in group}
    whole |= {node.name: [node] for group in whole.values() for node in group}
    left = [step for step in steps if (of := whole.get(step.name)) and covered.isdisjoint(of)]
    groups |= {step.name: whole[step.name] for step in left}
    counted, spans = [*events, *left], quiet(every)
    found = medians(counted, spans)
    by_name: dict[str, list[Event]] = {name: [] for name in found}
    for event in counted:
        if event.name in by_name and event.begin >= every[0][0]:
            by_name[event.name].append(event)
    told = {name: together(own, len(every)) for name, own in by_name.items()}
    seconds = median(stop - start for start, stop in spans) / 1e9
    lines = [_line(name, told[name], groups[name], found[name], seconds, size) for name in found]
    return Profile(tuple(sorted(lines, key=lambda line: -line.seconds)), seconds, len(spans))


def repeat(run: Callable[[], object], seconds: float) -> None:
    """Run once to plan memory, then for `seconds`, at least FEWEST and at most MOST times."""
    run()
    count, end = 0, time.perf_counter() + seconds
    while count < FEWEST or (time.perf_counter() < end and count < MOST):
        run()
        count += 1


def quiet(spans: Sequence[Span]) -> list[Span]:
    """Return the shortest quarter of the runs, in order. Other work on the machine disturbed the others."""
    return sorted(sorted(spans, key=lambda span: span[1] - span[0])[: max(FEWEST, len(spans) // 4)])


def medians(events: Iterable[Event], spans: Sequence[Span]) -> dict[str, float]:
    """Return the seconds per run by name: the median over runs of the time of its events, without the events inside them."""
    own = sorted(_own(events), key=lambda pair: pair[0].begin)
    found: dict[str, list[float]] = {}
    run = 0
    for event, seconds in own:
        while run < len(spans) and event.begin > spans[run][1]:
            run += 1
        if run < len(spans) and event.begin >= spans[run][0]:
            found.setdefault(event.name, [0.0] * len(spans))[run] += seconds
    return {name: median(times) for name, times in found.items()}


def together(events: Sequence[Event], runs: int) -> dict[str, str]:
    """Merge the events of one name: operator, bytes per run, and the shapes if they are all equal."""
    args = [event.args for event in events]
    shapes = list(dict.fromkeys(one.get("shapes", "") for one in args))
    moved = sum(float(one.get("bytes", 0)) for one in args) / runs
    shown = shapes[0] if len(shapes) == 1 else f"{len(shapes)} sets of shapes"
    return {"op_name": args[-1].get("op_name", ""), "shapes": shown, "bytes": str(moved)}


def _own(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    """Yield each event with its duration, without that of events inside it."""
    open_: list[list[Any]] = []
    for event in sorted(events, key=lambda event: (event.begin, -event.end)):
        while open_ and open_[-1][0].end <= event.begin:
            closed, taken = open_.pop()
            yield closed, taken / 1e9
        if open_ and event.end <= open_[-1][0].end:
            open_[-1][1] -= event.end - event.begin
        open_.append([event, event.end - event.begin])
    yield from ((closed, taken / 1e9) for closed, taken in open_)


def _line(name: str, told: Mapping[str, str], group: Sequence[Node], seconds: float, whole: float, size: Sizes) -> NodeTime:
    """`told` holds where the nodes do not say it: copies that providers insert, and sizes that data tells."""
    operator = "+".join(node.op_type for node in group) or told["op_name"]
    shapes, moved = told["shapes"], float(told["bytes"])
    made: float | None = 0.0
    try:
        if group:
            shapes, moved = _traffic(group, size)
            made = sum(operations(node, size) for node in group)
    except KeyError:
        made = None
    share, names = seconds / whole if whole else 0.0, tuple(node.name for node in group)
    product = max(map(arithmetic, group), key=_narrowness, default=_ARITHMETICS[0])
    return NodeTime(name, operator, shapes, seconds, share, moved, made, names, arithmetic=product)


def _narrowness(name: str) -> int:
    return _ARITHMETICS.index(name)


def _traffic(group: Sequence[Node], size: Sizes) -> tuple[str, float]:
    """Return the shapes of what goes in and out of a group, and its bytes. Values inside the group do not count.

    Raises KeyError for sizes that are not known before the run.
    """
    inside = set(group)
    outputs = [value for node in group for value in node.outputs if value is not None and _leaves(value, inside)]
    written = float(sum(nbytes(value, size) for value in outputs))
    read = {
        value: bytes_read(node, place, nbytes(value, size), written)
        for node in group
        for place, value in enumerate(node.inputs)
        if value is not None and value.producer not in inside
    }
    texts = [", ".join(_text(value, size) for value in values) for values in (read, outputs)]
    return " -> ".join(texts), sum(read.values()) + written


def _leaves(value: Value, inside: set[Node]) -> bool:
    return value.is_graph_output() or not inside.issuperset(value.readers)


def _text(value: Value, size: Sizes) -> str:
    if not isinstance(value.type, TensorType):
        return str(value.type)
    if value.type.shape is None:
        raise KeyError(value.name)
    return f"{value.type.dtype}{[size(dim) for dim in value.type.shape]}"


def dims_of(values: Sequence[Value], feeds: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of the free dimensions in these feeds, by the names that the graph has for them."""
    pairs = [pair for value in values if value.name in feeds for pair in _pairs(value, feeds[value.name])]
    return {str(dim): size for dim, size in pairs if not isinstance(dim, int)}


def _pairs(value: Value, array: Any) -> Iterator[tuple[Any, int]]:
    return zip(value.shape or (), getattr(array, "shape", ()), strict=False)
