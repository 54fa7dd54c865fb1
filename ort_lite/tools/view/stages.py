"""The stages of a document: each transform, partitioning, and the fusions of compilation."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ort_lite.compile.fusing import Fused
from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.log.events import Stream
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.plugins import plugins
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.simplify import simplify
from ort_lite.tools.view import document as page
from ort_lite.tools.view.fused import forms_after_compilation
from ort_lite.tools.view.graph_records import GraphNames, first_paragraph
from ort_lite.tools.view.pictures import INLINING, Film, Form, Forms, Picture
from ort_lite.transform.contract import LEVELS, Change, GraphPass, Transform

Moment = Mapping[str, Form]
"""The form of each node, by name."""
Keys = Mapping[Form, str]


class Story(Record):
    """All stages and their nodes by key. `values` and `bodies` belong to graphs before the last stage.

    `compiled` maps the names of the last stage's nodes to keys. `operators` has one node of each operator.
    """

    stages: list[page.StageData]
    nodes: dict[str, page.NodeData]
    values: dict[str, page.ValueData]
    bodies: dict[str, page.BodyData]
    compiled: Mapping[str, str]
    operators: Mapping[str, Node]


def story_of(
    loaded: Model | None,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    assignment: Assignment,
    names: GraphNames,
    fused: Mapping[str, Fused],
    dims: Mapping[str, int],
) -> Story:
    """Return the stages. `loaded` is the model before the transforms, which run again; without it, the stages begin with the
    assignment.

    `dims` are the sizes of free dimensions that are known. Raises what the transforms raise.
    """
    forms = Forms()
    named = options.installed_transforms
    known = {found.name: found for found in (*plugins.fusions(named), *plugins.transforms(named))}
    passes = {name for name, found in known.items() if isinstance(found, GraphPass)}
    film = Film(loaded.graph, forms, passes, dims) if loaded is not None else None
    pictures: list[Picture] = []
    if film is not None and loaded is not None:
        events = Stream()
        events.subscribe(film)
        pictures = film.end(simplify(loaded, providers, options, events.span).changes)
    parted = {node.name: forms.of(node, names) for node in assignment.graph.all_nodes()}
    values: dict[str, page.ValueData] = {} if film is None else film.values
    compiled = forms_after_compilation(parted, assignment, names, fused, forms, values, dims)
    keys = forms.keys(parted.values())
    stages = [_load_stage(pictures[0], keys)] if pictures else []
    stages += [_transform_stage(number, *pair, keys, known) for number, pair in enumerate(pairwise(pictures), 1)]
    stages.append(_partition_stage(pictures[-1].forms if pictures else {}, parted, keys, assignment))
    if compiled != parted:
        stages.append(_compile_stage(parted, compiled, keys, fused))
    bodies = {} if film is None else film.bodies
    last = {name: keys[form] for name, form in compiled.items()}
    return Story(stages, forms.nodes(keys), values, bodies, last, forms.operators)


def _load_stage(picture: Picture, keys: Keys) -> page.StageData:
    return _stage("loaded", "As loaded", "The model as its file has it.", StageStep({}, picture.forms, keys))


def _transform_stage(
    number: int, before: Picture, after: Picture, keys: Keys, known: Mapping[str, Transform]
) -> page.StageData:
    step, names = StageStep(before.forms, after.forms, keys), list(dict.fromkeys(change.transform for change in after.changes))
    if after.turn == INLINING:
        return _stage(f"transform:{number}", "Functions inlined", "Calls of functions that no provider takes.", step)
    note = " ".join(dict.fromkeys(_about(known[name]) for name in names))
    level = max((known[name].level for name in names), key=LEVELS.index)
    title = ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more rules"
    return _stage(f"transform:{number}", title, note, step, step.changes(after.changes), level)


def _partition_stage(before: Moment, after: Moment, keys: Keys, assignment: Assignment) -> page.StageData:
    step, by_reason = StageStep(before, after, keys), dict[str, list[str]]()
    for place in assignment.placements.values():
        if place.inserted:
            by_reason.setdefault(place.inserted, []).append(place.node.name)
    changes = [step.change(reason, (), added) for reason, added in by_reason.items()]
    return _stage("partitioned", "Partitioned", "Each node has the provider that runs it.", step, changes)


def _compile_stage(before: Moment, after: Moment, keys: Keys, fused: Mapping[str, Fused]) -> page.StageData:
    step = StageStep(before, after, keys)
    changes = [change for found in fused.values() for change in step.changes(found.changes)]
    note = "Providers made one node of several in copies of their partitions."
    return _stage("compiled", "Compiled", note, step, changes)


class _Joined:
    """Changes that build on each other, as ordered sets."""

    def __init__(self) -> None:
        self.rules: dict[str, None] = {}
        self.removed: dict[str, None] = {}
        self.added: dict[str, None] = {}

    def take(self, rules: Iterable[str], removed: Iterable[str], added: Iterable[str]) -> None:
        for own, new in ((self.rules, rules), (self.removed, removed), (self.added, added)):
            own.update(dict.fromkeys(new))


class StageStep(Record):
    """The step from one moment to the next."""

    before: Moment
    after: Moment
    keys: Keys

    def changes(self, made: Iterable[Change]) -> list[page.ChangeData]:
        """Return the changes by transforms. If one change removes what another added, the two are one."""
        joined: dict[str, _Joined] = {}  # by the name of a node that came
        every: dict[_Joined, None] = {}
        for change in made:
            one, *others = dict.fromkeys(joined[name] for name in change.removed if name in joined) or [_Joined()]
            for other in others:
                one.take(other.rules, other.removed, other.added)
                joined.update(dict.fromkeys(other.added, one))
                del every[other]
            one.take([change.transform], change.removed, change.added)
            joined.update(dict.fromkeys(change.added, one))
            every[one] = None
        return [self.change(", ".join(one.rules), one.removed, one.added) for one in every]

    def change(self, rule: str, removed: Iterable[str], added: Iterable[str]) -> page.ChangeData:
        """Return one change, with keys for those of its nodes that were there before or are there afterwards."""
        return {"rule": rule, "removed": self._keys(self.before, removed), "added": self._keys(self.after, added)}

    def _keys(self, moment: Moment, names: Iterable[str]) -> list[str]:
        return [self.keys[moment[name]] for name in names if name in moment]

    @property
    def removals(self) -> list[str]:
        """Return the keys of the nodes that are gone or have another form."""
        return [self.keys[form] for name, form in self.before.items() if self.after.get(name) != form]

    @property
    def additions(self) -> list[str]:
        """Return the keys of the nodes that are new or have another form."""
        return [self.keys[form] for name, form in self.after.items() if self.before.get(name) != form]


def _stage(
    id: str, title: str, note: str, step: StageStep, changes: Sequence[page.ChangeData] = (), level: str = ""
) -> page.StageData:
    said = [change for change in changes if change["removed"] or change["added"]]
    removed, added = step.removals, step.additions
    return {"id": id, "title": title, "level": level, "note": note, "removed": removed, "added": added, "changes": said}


def _about(transform: Transform) -> str:
    """Return the first paragraph of the docstring of a transform's module."""
    return first_paragraph(getattr(sys.modules.get(transform.function.__module__), "__doc__", None) or "")
