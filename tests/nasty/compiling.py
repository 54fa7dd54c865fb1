"""What `compile` answers and raises, and what compiled partitions say of themselves."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import ort_lite
from ort_lite.errors import CompileError, InvalidGraph
from ort_lite.provider import Partition
from tests.load.models import proto
from tests.nasty.cases import MODELS, NASTY, compiled_to, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table
from tests.provider.numpy_provider import evaluate

ERRORS: dict[str, BaseException] = {
    "os": OSError("bus"),
    "stop": StopIteration(),
    "memory": MemoryError("none left"),
    "ours": InvalidGraph("ours"),
    "compile": CompileError("ours"),
    "not-implemented": NotImplementedError(),
}
MODES = {"chain": "chain", "split": "split", "branch": "branch"}


def right(partitions: Sequence[Partition]) -> list[Any]:
    return [partial(evaluate, p) for p in partitions]


# Answers in the place of a list of callables.
ANSWERS: dict[str, Callable[[Sequence[Partition]], Any]] = {
    "none": says(None),
    "number": says(3),
    "text": lambda ps: "x" * len(ps),
    "nothing": says([]),
    "one-too-many": lambda ps: [*right(ps), partial(evaluate, ps[0])],
    "one-too-few": lambda ps: right(ps)[1:],
    "a-function": lambda ps: partial(evaluate, ps[0]),
    "nones": lambda ps: [None for _ in ps],
    "numbers": lambda ps: [3 for _ in ps],
    "partitions": list,
    "lists": lambda ps: [[partial(evaluate, p)] for p in ps],
    "by-name": lambda ps: {p.name: partial(evaluate, p) for p in ps},
    "exceptions": lambda ps: [OSError("bus") for _ in ps],
    "our-exceptions": lambda ps: [CompileError("ours") for _ in ps],
    "exits": lambda ps: [KeyboardInterrupt("stop") for _ in ps],
}
FINE: dict[str, Callable[[Sequence[Partition]], Any]] = {
    "a-tuple": lambda ps: tuple(right(ps)),
    "a-generator": lambda ps: (one for one in right(ps)),
    "a-map": lambda ps: map(partial(partial, evaluate), ps),
    "an-array": lambda ps: np.array(right(ps), object),
}


def compiling(answer: Callable[[Sequence[Partition]], Any], takes: str = "Abs") -> Any:
    return nasty(takes, compile=lambda self, partitions: answer(partitions))


def strict(provider: Any) -> Any:
    """Nobody else compiles what it does not."""
    return provider, {"on_compile_error": "raise"}


def model_in_compile(partitions: Sequence[Partition]) -> Any:
    """It makes and runs a session of its own meanwhile."""
    ort_lite.InferenceSession(proto(f"main {MODELS['chain'][0]}"), options()).run(None, feeds("chain"))
    return right(partitions)


def changing(change: Callable[[Partition], Any]) -> Callable[[Sequence[Partition]], Any]:
    def compile_(partitions: Sequence[Partition]) -> Any:
        for partition in partitions:
            change(partition)
        return right(partitions)

    return compile_


def set_attribute(partition: Any) -> None:
    partition.name = "mine"


def drop_nodes(partition: Partition) -> None:
    graph = partition.nodes[-1].graph
    assert graph is not None
    for node in reversed(partition.nodes):
        for value in node.outputs:
            assert value is not None
            value.replace_all_uses_with(partition.inputs[0])
        graph.remove(node)


# What a compiled partition may have besides being called, and how it is asked.
def _memory(made: Any) -> Any:
    return made.memory()


ABILITIES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "facts": (lambda made: str(made.explain()), {"none": None, "number": 3, "texts": ["a"]}),
    "memory": (_memory, {"none": None, "number": 3, "empty": {}, "arrays": {"arrays": 3, "plans": 0, "plan_bytes": 0}}),
    "trim": (lambda made: made.trim(), {}),
    "memory_plan": (lambda made: made.memory_plans(), {}),
}
ABSORBED = {"none": None, "number": 3, "texts": ["w"], "a-stranger": [ort_lite.graph.Value("w")]}


class With:
    """A right partition with one more member."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return evaluate(self.partition, inputs)


def having(name: str, member: Any, look: Callable[[Any], Any], model: str = "weights") -> Any:
    made = session(model, compiled_to(type("With", (With,), {name: member}), "Mul"))
    look(made)
    return [(made.run(None, feeds(model)), wanted(model))]


def _cases() -> Iterator[tuple[str, Case]]:
    takes = "Abs Relu"
    for name, (model, answer) in crossed(model=MODES, answer=ANSWERS):
        yield f"answers-{name}", Case(lambda m=model, a=answer: ran(m, strict(compiling(a, takes))), (NASTY,))
    for name, (model, answer) in crossed(model=MODES, answer=FINE):
        yield f"fine-{name}", Case(lambda m=model, a=answer: ran(m, compiling(a, takes)))
    for name, (model, error) in crossed(model=MODES, error=ERRORS):
        how = raises(error)
        yield f"raises-{name}", Case(lambda m=model, h=how: ran(m, strict(compiling(h, takes))), (NASTY, type(error).__name__))
        going_on = lambda m=model, h=how: ran(m, (compiling(h, takes), {"on_compile_error": "next"}))  # noqa: E731
        yield f"another-compiles-{name}", Case(going_on)
    for name, (look, answers) in ABILITIES.items():
        for kind, answer in answers.items():
            act = lambda n=name, a=answer, k=look: having(n, says(a), k)  # noqa: E731
            yield f"{name}-{kind}", Case(act, (NASTY, name))
        for kind, error in {"os": OSError("bus"), "ours": InvalidGraph("ours")}.items():
            act = lambda n=name, e=error, k=look: having(n, raises(e), k)  # noqa: E731
            yield f"{name}-raises-{kind}", Case(act, (NASTY, name))
    for kind, answer in ABSORBED.items():
        yield (
            f"absorbed-{kind}",
            Case(lambda a=answer: having("absorbed", a, says(None)), (NASTY, "absorbed"), kind == "a-stranger"),
        )


CASES: Table = table(
    [
        *_cases(),
        ("a-session-in-compile", Case(lambda: ran("chain", compiling(model_in_compile)))),
        ("sets-a-field", Case(lambda: ran("chain", strict(compiling(changing(set_attribute)))), (NASTY,))),
        ("takes-its-nodes-out", Case(lambda: ran("split", strict(compiling(changing(drop_nodes)))), (NASTY,), either=True)),
        (
            "an-error-then-right",
            Case(
                lambda: ran(
                    "split", (compiling(lambda ps: [*right(ps[:1]), OSError("bus")][: len(ps)]), {"on_compile_error": "next"})
                )
            ),
        ),
    ]
)
