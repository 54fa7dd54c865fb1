"""The stages of a document: what each transform did, what partitioning put in, what compilation made one node of."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ort_lite.compile.fusing import Fused
from ort_lite.graph.model import Model
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.pipeline.pipeline import transformed
from ort_lite.plugins import plugins
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.view import document as page
from ort_lite.view.fused import compiled_forms
from ort_lite.view.names import Names, first_paragraph
from ort_lite.view.pictures import INLINING, Film, Form, Forms, Picture
Moment = Mapping[str, Form]
"""The form of each node, by name."""
Keys = Mapping[Form, str]


class Story(Record):
    """All stages and the nodes of all of them by key. `values` and `bodies` are those of graphs before the last one."""

    stages: list[page.Stage]
    nodes: dict[str, page.Node]
    values: dict[str, page.Value]
    bodies: dict[str, page.Body]


def story_of(
    loaded: Model | None,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    assignment: Assignment,
    names: Names,
    fused: Mapping[str, Fused],
) -> Story:
    """`loaded`: the model as it was before the transforms, which are run over it again; None: stages begin with the assignment.

    Raises what the transforms raise.
    """
    forms = Forms()
    film = Film(loaded.graph, forms) if loaded is not None else None
    pictures: list[Picture] = []
    if film is not None and loaded is not None:
        pictures = film.end(transformed(loaded, providers, options, film.span).changes)
    parted = {node.name: forms.of(names.node(node)) for node in assignment.graph.all_nodes()}
    values: dict[str, page.Value] = {} if film is None else film.values
    compiled = compiled_forms(parted, assignment, names, fused, forms, values)
    keys = forms.keys(parted.values())
    stages = [_loaded(pictures[0], keys)] if pictures else []
    stages += [_transformed(number, *pair, keys) for number, pair in enumerate(pairwise(pictures), 1)]
    stages.append(_partitioned(pictures[-1].forms if pictures else {}, parted, keys, assignment))
    if compiled != parted:
        stages.append(_compiled(parted, compiled, keys, fused))
    return Story(stages, forms.nodes(keys), values, {} if film is None else film.bodies)


def _loaded(picture: Picture, keys: Keys) -> page.Stage:
    return _stage("loaded", "As loaded", "The model as its file has it.", Step({}, picture.forms, keys))


def _transformed(number: int, before: Picture, after: Picture, keys: Keys) -> page.Stage:
    step, name = Step(before.forms, after.forms, keys), after.transform
    changes = [step.change(change.transform, change.removed, change.added) for change in after.changes]
    if name == INLINING:
        return _stage(f"transform:{number}", "Functions inlined", "Calls that no provider takes.", step, changes)
    level, note = _about(name)
    return _stage(f"transform:{number}", name, note, step, changes, level)


def _partitioned(before: Moment, after: Moment, keys: Keys, assignment: Assignment) -> page.Stage:
    step, by_reason = Step(before, after, keys), dict[str, list[str]]()
    for place in assignment.placements.values():
        if place.inserted:
            by_reason.setdefault(place.inserted, []).append(place.node.name)
    changes = [step.change(reason, (), added) for reason, added in by_reason.items()]
    return _stage("partitioned", "Partitioned", "Each node has the provider that runs it.", step, changes)


def _compiled(before: Moment, after: Moment, keys: Keys, fused: Mapping[str, Fused]) -> page.Stage:
    step = Step(before, after, keys)
    changes = [step.change(c.transform, c.removed, c.added) for found in fused.values() for c in found.changes]
    note = "Providers made one node of several in copies of their partitions."
    return _stage("compiled", "Compiled", note, step, changes)


class Step(Record):
    """From one moment to the next."""

    before: Moment
    after: Moment
    keys: Keys

    def change(self, rule: str, removed: Iterable[str], added: Iterable[str]) -> page.Change:
        """Nodes by name. Those that came and went meanwhile are in no stage, and left out."""
        return {"rule": rule, "removed": self._keys(self.before, removed), "added": self._keys(self.after, added)}

    def _keys(self, moment: Moment, names: Iterable[str]) -> list[str]:
        return [self.keys[moment[name]] for name in dict.fromkeys(names) if name in moment]

    @property
    def removed(self) -> list[str]:
        return [self.keys[form] for name, form in self.before.items() if self.after.get(name) != form]

    @property
    def added(self) -> list[str]:
        return [self.keys[form] for name, form in self.after.items() if self.before.get(name) != form]


def _stage(id: str, title: str, note: str, step: Step, changes: Sequence[page.Change] = (), level: str = "") -> page.Stage:
    said = [change for change in changes if change["removed"] or change["added"]]
    removed, added = step.removed, step.added
    return {"id": id, "title": title, "level": level, "note": note, "removed": removed, "added": added, "changes": said}


def _about(name: str) -> tuple[str, str]:
    """The level of a transform, and the first paragraph of what its author says of it."""
    for found in plugins.transforms():
        if found.name == name:
            return found.level, first_paragraph(found.function.__doc__ or "")
    return "", ""
