"""run(verify="partition") of providers that are off, fail, write and answer otherwise each time; `plan` of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import ort_lite
from ort_lite.provider import Device
from tests.load.models import proto
from tests.nasty.cases import (
    MODELS,
    NASTY,
    NastyDevice,
    compiled_to,
    computing,
    feeds,
    nasty,
    options,
    raises,
    ran,
    says,
    session,
    wanted,
)
from tests.nasty.compiling import With
from tests.nasty.computing import WRONG
from tests.nasty.judging import Case, Table, crossed, table

FLOATS = {kind: kind for kind in ("open", "double", "half", "matrix")}
KINDS = {**FLOATS, "integer": "integer"}


def verified(model: str, provider: Any, verify: Any = "partition") -> Any:
    made = session(model, provider)
    return [(made.run(None, feeds(model), verify=verify), wanted(model))]


OFF: dict[str, Callable[[Any], Any]] = {
    "off-by-one": lambda y: y + np.ones((), y.dtype),
    "zeros": np.zeros_like,
    "negative": lambda y: -y,
    "huge": lambda y: np.full_like(y, 60000),
    "first-element": lambda y: np.concatenate([y[:1] + np.ones((), y.dtype), y[1:]]),
}
NOT_A_NUMBER: dict[str, float] = {"nan": float("nan"), "inf": float("inf"), "minus-inf": float("-inf")}


def once_in_two() -> Any:
    calls: list[int] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        calls.append(1)
        return [y + len(calls) % 2 for y in ys]

    return verified("open", computing(function))


def looked_at(look: Callable[[Any], Any], provider: Any, model: str = "open") -> Any:
    made = session(model, provider)
    look(made)
    return [(made.run(None, feeds(model)), wanted(model))]


def planned(provider: Any) -> None:
    str(ort_lite.plan(proto(f"main {MODELS['open'][0]}"), [provider], options()))


def right_compiled(partitions: Sequence[Any]) -> list[Any]:
    return [With(p) for p in partitions]


def compiled_once(error: Exception) -> Any:
    """The search for the bad node compiles parts: this one can only do the whole."""
    made: list[int] = []

    def compile_(self: Any, partitions: Sequence[Any]) -> Any:
        made.append(1)
        if len(made) > 1:
            raise error
        return [lambda inputs: [inputs[0] + 1] for _ in partitions]

    return verified("open", nasty("Abs", compile=compile_))


class Odd:
    """A setting that is none."""


def _cases() -> Iterator[tuple[str, Case]]:
    who = rf"{NASTY}_0 \({NASTY}\)"
    for name, (kind, change) in crossed(kind=KINDS, off=OFF):
        provider = lambda c=change: computing(lambda inputs, ys: [c(y) for y in ys])  # noqa: E731
        yield f"off-{name}", Case(lambda k=kind, p=provider: verified(k, p()), (who, "'a'"))
        yield f"off-first-{name}", Case(lambda k=kind, p=provider: ran(k, p(), verify="first"), (who, "'a'"))
    for name, (kind, number) in crossed(kind=FLOATS, number=NOT_A_NUMBER):
        provider = lambda n=number: computing(lambda inputs, ys: [np.full_like(y, n) for y in ys])  # noqa: E731
        yield f"off-{name}", Case(lambda k=kind, p=provider: verified(k, p()), (who, "'a'"))
    for name, (kind, change) in crossed(kind={"open": "open", "integer": "integer"}, wrong=WRONG):
        provider = lambda c=change: computing(lambda inputs, ys: [c(y) for y in ys])  # noqa: E731
        yield f"wrong-{name}", Case(lambda k=kind, p=provider: verified(k, p()), (NASTY, "'a'"))
    for kind in KINDS:
        yield f"right-{kind}", Case(lambda k=kind: verified(k, nasty()))
        device = lambda k=kind: verified(k, nasty("Abs", NastyDevice))  # noqa: E731
        yield f"right-device-{kind}", Case(device)
    for model in ("branch", "loop", "sequence", "optional", "split", "two"):
        yield f"right-first-{model}", Case(lambda m=model: ran(m, nasty("Abs Neg Relu If Loop Add"), times=2, verify="first"))
        yield f"right-{model}", Case(lambda m=model: verified(m, nasty("Abs Neg Relu If Loop Add")))
    for name, setting in {"text": "everything", "number": 3, "object": Odd(), "true": True}.items():
        yield f"setting-{name}", Case(lambda s=setting: verified("open", nasty(), s), ("verify",))
    for name, error in {"os": OSError("bus"), "stop": StopIteration(), "ours": ort_lite.errors.InvalidGraph("ours")}.items():
        yield f"raises-{name}", Case(lambda e=error: verified("open", computing(raises(e))), (NASTY,))
        yield f"compiles-once-{name}", Case(lambda e=error: compiled_once(e), (NASTY,))
        for hook in ("get_capability", "available_resource"):
            yield f"plan-{hook}-{name}", Case(lambda h=hook, e=error: planned(nasty("Abs", **{h: raises(e)})), (NASTY, hook))


CASES: Table = table(
    [
        *_cases(),
        ("once-in-two", Case(once_in_two, (NASTY,))),
        ("plans", Case(lambda: planned(nasty("Abs")))),
        ("plans-without-compiling", Case(lambda: planned(nasty("Abs", compile=raises(OSError("bus")))))),
        ("explains", Case(lambda: looked_at(lambda made: str(made.explain()), compiled_to(With)))),
        (
            "another-device-without-transfer",
            Case(lambda: planned(nasty("Abs", device=Device("box"))), (NASTY, "data_transfer")),
        ),
        ("returns-nothing", Case(lambda: verified("open", computing(says([]))), (NASTY,))),
        ("compiles-to-objects", Case(lambda: verified("open", nasty("Abs", compile=lambda self, ps: right_compiled(ps))))),
    ]
)
