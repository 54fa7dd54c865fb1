"""Measurement of coverage: who would run each node, and how long it takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import OrtLiteError, format_error
from ort_lite.execute.trace import Trace
from ort_lite.graph.graph import Node
from ort_lite.partition.assignment import Assignment, Placement
from ort_lite.partition.cost.work import Sizes, operations, sizes_for
from ort_lite.plugins.selection import ProviderEntry
from ort_lite.session.metadata import NodeArg
from ort_lite.session.planning import plan
from ort_lite.tools.coverage.coverage_report import CoverageReport, ModelCoverage, NodeCoverage
from ort_lite.tools.view.costs import measure_runs
from ort_lite.tools.view.node_times import dims_of, profile_of

CPU = "CPUExecutionProvider"

SIZES = (64, 512, 1)
"""Sizes of free dimensions that nothing gives, in the order in which a run is tried with them."""

Feeds = Callable[[Sequence[NodeArg], int], Mapping[str, Any]]
"""A function that returns the feeds of a model with these inputs, for a size of free dimensions that nothing gives."""


def coverage_of(
    paths: Iterable[str], provider: ProviderEntry, feeds: Feeds | None = None, options: SessionOptions | None = None
) -> CoverageReport:
    """Return the coverage of models by a provider. `feeds` returns the inputs of a run; None: nothing runs and there are no times.

    A model that the provider cannot compile or run with any of SIZES runs on the CPU provider instead, for its times; one that does
    not load has an error.
    """
    models = tuple(_model(path, provider, feeds, options or SessionOptions()) for path in paths)
    name = provider[0] if isinstance(provider, tuple) else provider
    return CoverageReport(name if isinstance(name, str) else str(getattr(name, "name", name)), models)


def _model(path: str, provider: ProviderEntry, feeds: Feeds | None, options: SessionOptions) -> ModelCoverage:
    try:
        assignment = plan(path, [provider, CPU], options).assignment
    except (OrtLiteError, OSError) as error:
        return ModelCoverage(path, (), "", 0, format_error(error).splitlines()[0])
    seconds, sizes = dict[str, float](), sizes_for({}, 1)
    timed_on, size, error_text = "", 0, ""
    for where, providers in (("device", [provider, CPU]), ("CPU", [CPU])) if feeds is not None else ():
        try:
            assert feeds is not None
            seconds, sizes, size = _measure(path, providers, feeds, options)
            timed_on = where
            break
        except (OrtLiteError, OSError) as error:
            error_text = error_text or format_error(error).splitlines()[0]
    device = next(iter(assignment.providers))
    places = assignment.placements.values()
    nodes = tuple(_node(place, device, seconds, sizes) for place in places)
    return ModelCoverage(path, nodes, timed_on, size, "" if timed_on else error_text)


def _measure(
    path: str, providers: Sequence[ProviderEntry], feeds: Feeds, options: SessionOptions
) -> tuple[dict[str, float], Sizes, int]:
    """Return the seconds of a run by node, the sizes of its dimensions, and the one of SIZES with which it ran."""
    with InferenceSession(path, options.copy(), providers=list(providers)) as session:
        assignment = session.explain().assignment
        for size in SIZES:
            given = feeds(session.get_inputs(), size)
            try:
                trace = measure_runs(session, given, 0.0)
                break
            except OrtLiteError:
                if size == SIZES[-1]:
                    raise
    sizes = sizes_for(dims_of(assignment.graph.inputs, given), 1)
    return _seconds(trace, assignment, sizes), sizes, size


def _seconds(trace: Trace, assignment: Assignment, sizes: Sizes) -> dict[str, float]:
    """Return the seconds of a run by node. Those of nodes that ran as one are divided equally."""
    runs = [(run.begin, run.end) for run in trace.runs[1:]]  # the first one plans
    kernels = [event for event in trace.events if event.kind == "Kernel"]
    found: dict[str, float] = {}
    for line in profile_of(kernels, runs, assignment, sizes).lines if kernels else ():
        for name in line.nodes:
            found[name] = found.get(name, 0.0) + line.seconds / len(line.nodes)
    return found | _silent_partitions(trace.events, assignment, found)


def _silent_partitions(events: Any, assignment: Assignment, known: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of nodes in partitions whose provider times no nodes: the partition's, divided equally."""
    found: dict[str, float] = {}
    for partition in assignment.partitions:
        names = [node.name for node in partition.nodes]
        if not any(name in known for name in names):
            steps = [
                event.end - event.begin for event in events if event.kind == "Step" and event.name.startswith(partition.name)
            ]
            for name in names if steps else ():
                found[name] = sorted(steps)[len(steps) // 2] / 1e9 / len(names)
    return found


def _node(place: Placement, device: str, seconds: Mapping[str, float], sizes: Sizes) -> NodeCoverage:
    on_device = place.provider == device
    reason = next(((r.code, r.detail) for r in place.reasons if r.provider == device), ("", ""))
    return NodeCoverage(
        node=place.node.name,
        operator=place.node.operator,
        on_device=on_device,
        reason=("", "") if on_device else reason,
        operations=_operations(place.node, sizes),
        seconds=seconds.get(place.node.name),
    )


def _operations(node: Node, sizes: Sizes) -> float:
    try:
        return operations(node, sizes)
    except KeyError:
        return 0.0
