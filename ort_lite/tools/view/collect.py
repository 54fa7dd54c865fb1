"""The document of a model: its stages, which provider runs each node, and why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ort_lite.compile.fusing import Fused
from ort_lite.execute.trace import Trace
from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.graph.released import DroppedConstant
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Level, Placement
from ort_lite.plugins.selection import rules_of
from ort_lite.provider.compiled import KernelChoice
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record, field
from ort_lite.session.explanation import Explanation
from ort_lite.tools.view import document as page
from ort_lite.tools.view.facts import facts_of
from ort_lite.tools.view.fused import list_fusions
from ort_lite.tools.view.graph_records import GraphNames, size_of, value_of
from ort_lite.tools.view.memory_chart import arenas_of
from ort_lite.tools.view.operators import operators_of
from ort_lite.tools.view.stages import Story, story_of
from ort_lite.tools.view.timeline import timeline_of


class Subject(Record):
    """The source of a document.

    `loaded` is the model before the transforms, which run again with `options`. If it is None, the stages begin with the
    assignment.
    """

    explanation: Explanation
    title: str
    providers: Sequence[ExecutionProvider]
    options: SessionOptions
    loaded: Model | None = None
    fused: Mapping[str, Fused] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    """Sizes of free dimensions that are known, by the names that the graph has for them."""
    costs: Mapping[str, page.CostData] = field(default_factory=dict)
    plans: Mapping[str, Any] = field(default_factory=dict)
    """What partitions say of their memory, by their names: those that are MemoryPlans are shown."""
    trace: Trace | None = None


def collect(subject: Subject) -> page.Document:
    """Return the document, which is deterministic for a model and its providers. O(nodes) per stage. Raises what the transforms
    raise.
    """
    explanation = subject.explanation
    assignment = explanation.assignment
    names = GraphNames(assignment.graph)
    facts = facts_of(subject.loaded, assignment.graph, names.values, subject.dims)
    story = story_of(subject.loaded, subject.providers, subject.options, assignment, names, subject.fused, subject.dims)
    paths = {body["path"] for body in names.bodies}
    made: page.Document = {
        "format": page.FORMAT,
        "title": subject.title,
        "facts": facts,
        "providers": [{"name": name, "device": str(p.device)} for name, p in assignment.providers.items()],
        "operators": operators_of(story.operators, rules_of(subject.providers)),
        "values": _values(story, names, subject.dims),
        "nodes": story.nodes,
        "graphs": [*names.bodies, *(body for path, body in story.bodies.items() if path not in paths)],
        "stages": story.stages,
        "placements": {place.node.name: _placement(place) for place in assignment.placements.values()},
        "partitions": [made for level in assignment.levels for made in _partitions(level, subject, names, story)],
        "copies": [made for level in assignment.levels for made in _copies(level, names, subject.dims)],
        "notes": [*explanation.notes, *subject.notes],
        "memory": [],
        "timeline": None,
        "costs": dict(subject.costs),
        "kernels": {
            key: _kernel(explanation.kernels[name]) for name, key in story.compiled.items() if name in explanation.kernels
        },
    }
    made["memory"] = arenas_of(subject.plans, made)
    made["timeline"] = None if subject.trace is None else timeline_of(subject.trace, made)
    return made


def _values(story: Story, names: GraphNames, dims: Mapping[str, int]) -> dict[str, page.ValueData]:
    """Return all values of all stages. A dropped constant shows its earlier contents."""
    made = {key: _now(value, story.values.get(key), dims) for value, key in names.values.items()}
    return {**made, **{key: value for key, value in story.values.items() if key not in made}}


def _now(value: Value, before: page.ValueData | None, dims: Mapping[str, int]) -> page.ValueData:
    given_up = isinstance(value.constant, DroppedConstant)
    return before if given_up and before is not None and "constant" in before else value_of(value, dims)


def _placement(place: Placement) -> page.PlacementData:
    reasons: list[page.ReasonData] = [
        {"provider": r.provider, "verdict": r.verdict, "code": r.code, "detail": r.detail} for r in place.reasons
    ]
    return {
        "provider": place.provider,
        "partition": place.partition,
        "reasons": reasons,
        "rule": place.rule,
        "inserted": place.inserted,
    }


def _kernel(choice: KernelChoice) -> page.KernelData:
    return {
        "kernels": list(choice.kernels),
        "taken": choice.taken,
        "runner_up": choice.runner_up,
        "costs": {
            name: {"kernel": round(cost.kernel, 3), "moves": round(cost.moves, 3)} for name, cost in choice.costs.items()
        },
        "rejected": dict(choice.rejected),
    }


def _partitions(level: Level, subject: Subject, names: GraphNames, story: Story) -> Iterator[page.PartitionData]:
    explanation, fused = subject.explanation, subject.fused
    for found in level.partitions:
        yield {
            "name": found.name,
            "provider": explanation.assignment.label(found),
            "device": str(found.provider.device),
            "graph": names.paths[level.graph],
            "nodes": [node.name for node in found.nodes],
            "inputs": names.keys(found.inputs),
            "outputs": names.keys(found.outputs),
            "facts": dict(explanation.facts.get(found.name, {})),
            "fused": list_fusions(fused[found.name], found, story.compiled) if found.name in fused else [],
        }


def _copies(level: Level, names: GraphNames, dims: Mapping[str, int]) -> Iterator[page.CopyData]:
    for copy in level.copies:
        yield {
            "value": names.values[copy.value],
            "bytes": size_of(copy.value, dims),
            "route": [str(copy.hops[0].source), *(str(hop.destination) for hop in copy.hops)],
            "reader": copy.reader,
            "graph": names.paths[level.graph],
        }
