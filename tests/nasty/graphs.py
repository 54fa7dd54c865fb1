"""Control flow, captures, sequences, optionals and dimensions that only a run knows, between providers that misbehave."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.graph import Graph
from ort_lite.provider import Capability, GraphView, Partition
from tests.nasty.cases import NASTY, X, compiled_to, computing, feeds, nasty, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table
from tests.provider.numpy_provider import evaluate

WHO = rf"{NASTY}_\d+ \({NASTY}\)"


class OtherBodies:
    """The bodies of a partition, called otherwise."""

    def __init__(self, bodies: Any, call: Callable[[Any, Sequence[Any], Sequence[Any]], Any]) -> None:
        self.bodies, self.call = bodies, call

    def __contains__(self, graph: Graph) -> bool:
        return graph in self.bodies

    def __getitem__(self, graph: Graph) -> Any:
        body, call = self.bodies[graph], self.call

        class Called:
            captures = body.captures

            def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> Any:
                return call(body, inputs, captures)

        return Called()


def around(call: Callable[[Any, Sequence[Any], Sequence[Any]], Any]) -> Any:
    """Takes If and Loop and calls their bodies so."""

    def make(partition: Partition) -> Any:
        changed = partition.replace(bodies=OtherBodies(partition.bodies, call))
        return partial(evaluate, changed)

    return compiled_to(make, "If Loop")


Call = Callable[[Any, Sequence[Any], Sequence[Any]], Any]
# Calls of a body that it cannot have.
CALLS: dict[str, Call] = {
    "no-captures": lambda body, inputs, captures: body(inputs, []),
    "a-capture-too-many": lambda body, inputs, captures: body(inputs, [*captures, X]),
    "captures-none": lambda body, inputs, captures: body(inputs, None),
    "captures-of-none": lambda body, inputs, captures: body(inputs, [None for _ in captures]),
    "captures-lists": lambda body, inputs, captures: body(inputs, [x.tolist() for x in captures]),
    "captures-wide": lambda body, inputs, captures: body(inputs, [x.astype(np.float64) for x in captures]),
    "captures-of-another-rank": lambda body, inputs, captures: body(inputs, [x[None] for x in captures]),
    "an-input-too-many": lambda body, inputs, captures: body([*inputs, X], captures),
    "inputs-none": lambda body, inputs, captures: body(None, captures),
    "no-argument": lambda body, inputs, captures: body(),
}
# Of those that the body runs, the results are right.
FINE_CALLS: dict[str, Call] = {
    "tuples": lambda body, inputs, captures: body(tuple(inputs), tuple(captures)),
    "twice": lambda body, inputs, captures: [body(inputs, captures), body(inputs, captures)][1],
    "strided": lambda body, inputs, captures: body(inputs, [np.repeat(x, 2)[::2] for x in captures]),
    "columns": lambda body, inputs, captures: body(inputs, [np.asfortranarray(x) for x in captures]),
    "swapped": lambda body, inputs, captures: body(inputs, [x.astype(x.dtype.newbyteorder(">")) for x in captures]),
}
FLOW = {"branch": "branch", "loop": "loop"}


def answering(model: str, change: Callable[[list[Any]], Any]) -> Any:
    return ran(model, computing(lambda inputs, ys: change(ys), "If Loop"))


RESULTS: dict[str, Callable[[list[Any]], Any]] = {
    "none": says(None),
    "nothing": says([]),
    "nones": lambda ys: [None for _ in ys],
    "wide": lambda ys: [y.astype(np.float64) for y in ys],
    "flat": lambda ys: [y[None] for y in ys],
    "longer": lambda ys: [np.zeros(9, np.float32) for _ in ys],
    "lists": lambda ys: [y.tolist() for y in ys],
}


def in_bodies(takes: str, change: Callable[[list[Any]], Any], model: str) -> Any:
    """The nodes inside are the nasty provider's."""
    return ran(model, computing(lambda inputs, ys: change(ys), takes))


def whole(model: str) -> Any:
    def claim(self: Any, view: GraphView) -> Any:
        return [Capability([node], whole=True) for node in view if node.op_type in ("If", "Loop")]

    return ran(model, nasty("If Loop", get_capability=claim))


def whole_after_a_claim_inside(model: str) -> Any:
    """Another provider has a node inside already."""

    def claim(self: Any, view: GraphView) -> Any:
        return [Capability([node], whole=True) for node in view if node.op_type in ("If", "Loop")]

    return ran(model, nasty("Abs Add", name="InnerExecutionProvider"), nasty("If Loop", get_capability=claim))


def inner_only(model: str, takes: str) -> Any:
    return ran(model, nasty(takes), times=2)


SEQUENCES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "none": (says(None), False),
    "array": (lambda x: x, False),
    "text": (says("seq"), False),
    "number": (says(3), False),
    "map": (lambda x: {0: x, 1: x}, False),
    "of-nones": (lambda x: [None, None], False),
    "of-lists": (lambda x: [x.tolist(), x.tolist()], False),
    "of-wide": (lambda x: [x.astype(np.float64)] * 2, False),
    "of-another-rank": (lambda x: [x[None], x[None]], False),
    "of-sequences": (lambda x: [[x], [x]], False),
    "generator": (lambda x: (y for y in (x, x)), False),
    "tuple": (lambda x: (x, x), True),
    "of-one-array": (lambda x: [x, x], True),
    "of-strided": (lambda x: [np.repeat(x, 2)[::2]] * 2, True),
    "of-swapped": (lambda x: [x.astype(">f4")] * 2, True),
}
OPTIONALS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "array": (lambda x: x, True),
    "strided": (lambda x: np.repeat(x, 2)[::2], True),
    "wide": (lambda x: x.astype(np.float64), False),
    "longer": (lambda x: np.zeros(9, np.float32), False),
    "list": (lambda x: [x], False),
    "text": (says("o"), False),
}


def making(operator: str, make: Callable[[Any], Any]) -> Any:
    """Takes the operator, and makes this of its first input."""
    return nasty(operator, operators=operator, compile=lambda self, ps: [lambda inputs: [make(inputs[0])] for _ in ps])


SIZES = {str(size): size for size in (0, 1, 3, 5, 7)}


def grown(model: str, size: int) -> Any:
    return ran(model, computing(lambda inputs, ys: [np.resize(y, size) for y in ys]))


def sizes_change(model: str) -> Any:
    """Each run has a size of its own: what the last one had counts no more."""
    made, right = session(model, nasty()), session(model)
    pairs = []
    for size in (3, 0, 5, 1, 5):
        x = np.arange(size, dtype=np.float32) - 2
        pairs.append((made.run(None, {"x": x}), right.run(None, {"x": x})))
    return pairs


def stays_at_the_first_size() -> Any:
    kept: list[Any] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        kept.extend(ys if not kept else [])
        return kept

    made = session("open", computing(function))
    made.run(None, feeds("open"))
    return [(made.run(None, {"x": np.ones(5, np.float32)}), wanted("open"))]


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (model, call) in crossed(model=FLOW, call=CALLS):
        yield f"body-{name}", Case(lambda m=model, c=call: ran(m, around(c)), (WHO,))
    for name, (model, call) in crossed(model=FLOW, call=FINE_CALLS):
        yield f"body-fine-{name}", Case(lambda m=model, c=call: ran(m, around(c)))
    for name, (model, change) in crossed(model=FLOW, result=RESULTS):
        yield f"flow-returns-{name}", Case(lambda m=model, c=change: answering(m, c), (WHO,))
        takes = "Abs" if model == "branch" else "Add"
        yield f"inside-returns-{name}", Case(lambda m=model, c=change, t=takes: in_bodies(t, c, m), (WHO,))
    for model in FLOW:
        yield f"whole-{model}", Case(lambda m=model: whole(m))
        yield f"whole-after-a-claim-inside-{model}", Case(lambda m=model: whole_after_a_claim_inside(m))
        for takes in ("Abs", "Abs Neg", "Add Identity", "Relu", "If Loop Abs"):
            yield f"takes-{takes.replace(' ', '-')}-{model}", Case(lambda m=model, t=takes: inner_only(m, t))
        yield (
            f"inside-raises-{model}",
            Case(lambda m=model: in_bodies("Abs Add", raises(OSError("bus")), m), (WHO, "OSError: bus")),
        )
    for name, (make, right) in SEQUENCES.items():
        yield (
            f"sequence-{name}",
            Case(lambda k=make: ran("sequence", making("SequenceConstruct", k), times=2), () if right else (WHO, "'s'")),
        )
    for name, (make, right) in OPTIONALS.items():
        yield (
            f"optional-{name}",
            Case(lambda k=make: ran("optional", making("Optional", k), times=2), () if right else (WHO, "'o'")),
        )
    for name, (model, size) in crossed(model={"open": "open", "joined": "joined", "two": "two", "chain": "chain"}, size=SIZES):
        right = size == 3 and model != "joined"
        yield f"size-{name}", Case(lambda m=model, s=size: grown(m, s), () if right else (WHO, "dimension 0"))
    for model in ("open", "joined", "two", "last"):
        yield f"sizes-change-{model}", Case(lambda m=model: sizes_change(m))


CASES: Table = table([*_cases(), ("stays-at-the-first-size", Case(stays_at_the_first_size, (WHO, "dimension 0")))])
