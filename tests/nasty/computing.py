"""What compiled partitions return, raise, keep and write."""

import asyncio
import collections
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ort_lite.errors import InvalidGraph, ProviderError, RuntimeException
from tests.nasty.cases import NASTY, compiled_to, computing, feeds, options, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, differs, table

TAKES = "Abs Identity"
WHO = rf"{NASTY}_0 \({NASTY}\)"
KINDS = {kind: kind for kind in ("open", "double", "integer", "half", "bool", "string", "scalar", "empty", "matrix", "joined")}


class Sub(np.ndarray[Any, Any]):
    """A subclass whose items are as they are."""


class Liar:
    """Says that it is an array."""

    shape, dtype, ndim, size, nbytes = (3,), np.dtype(np.float32), 1, 3, 12

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError("no array after all")


class Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


def longer(y: Any) -> Any:
    return np.zeros([size + 1 for size in y.shape] or [1], y.dtype)


WRONG: dict[str, Callable[[Any], Any]] = {
    "none": says(None),
    "list": lambda y: y.tolist() if y.ndim else [y.item()],
    "object": says(object()),
    "text": says("y"),
    "map": lambda y: {"y": y},
    "type": says(np.float32),
    "another-type": lambda y: np.zeros(y.shape, np.uint16),
    "complex": lambda y: np.zeros(y.shape, np.complex64),
    "records": lambda y: np.zeros(y.shape, [("a", np.float32)]),
    "dates": lambda y: np.zeros(y.shape, "M8[s]"),
    "bytes": lambda y: np.zeros(y.shape, "S3"),
    "another-rank": lambda y: y[None],
    "longer": longer,
    "says-it-is-an-array": says(Liar()),
    "function": lambda y: lambda: y,
}
PLAIN: dict[str, Callable[[Any], Any]] = {
    "strided": lambda y: np.repeat(y[..., None], 2, -1)[..., 0],
    "backwards": lambda y: y[..., ::-1].copy()[..., ::-1] if y.ndim else y,
    "in-columns": lambda y: np.asfortranarray(y) if y.ndim else y,
    "swapped": lambda y: y.astype(y.dtype.newbyteorder(">")),
    "subclass": lambda y: y.view(Sub),
    "masked": np.ma.masked_array,
    "locked": lambda y: np.require(y.copy(), requirements="W").view() if y.flags.writeable else y,
    "broadcast": lambda y: np.broadcast_to(y, y.shape),
}
# What a call returns in the place of a list of outputs.
RETURNED: dict[str, tuple[Callable[[list[Any]], Any], bool]] = {
    "none": (says(None), False),
    "number": (says(3), False),
    "text": (says("y"), False),
    "bytes": (says(b"y"), False),
    "map": (lambda ys: dict(enumerate(ys)), False),
    "set": (lambda ys: {1}, False),
    "array": (lambda ys: ys[0], False),
    "generator": (lambda ys: (y for y in ys), False),
    "nothing": (says([]), False),
    "too-few": (lambda ys: ys[1:], False),
    "too-many": (lambda ys: [*ys, ys[0]], False),
    "nested": (lambda ys: [ys for _ in ys], False),
    "tuple": (tuple, True),
    "deque": (collections.deque, False),
    "user-list": (collections.UserList, True),
}
ERRORS: dict[str, BaseException] = {
    "os": OSError("bus"),
    "memory": MemoryError(),
    "stop": StopIteration(3),
    "key": KeyError("k"),
    "assertion": AssertionError(),
    "recursion": RecursionError("deep"),
    "text": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "group": ExceptionGroup("two", [OSError("a"), OSError("b")]),
    "warning": UserWarning("an error too"),
    "wordless": Wordless(),
    "provider": ProviderError("ours"),
    "graph": InvalidGraph("ours"),
}


def returning(change: Callable[[Any], Any]) -> Any:
    return computing(lambda inputs, ys: [change(y) for y in ys], TAKES)


def changed_in_place(inputs: Sequence[Any], ys: list[Any]) -> Any:
    inputs[0][...] = 0
    return ys


def unlocked(inputs: Sequence[Any], ys: list[Any]) -> Any:
    inputs[0].setflags(write=True)
    return changed_in_place(inputs, ys)


def through_base(inputs: Sequence[Any], ys: list[Any]) -> Any:
    """The array behind the view: what a run was fed."""
    behind = inputs[0].base if inputs[0].base is not None else inputs[0]
    behind[...] = 0
    return ys


def writes(write: Callable[[Sequence[Any], list[Any]], Any], model: str) -> Any:
    return ran(model, computing(write, "Abs Mul"), times=2)


def constants_written() -> Any:
    def make(partition: Any) -> Any:
        def run(inputs: Sequence[Any]) -> Any:
            partition.constants[0].constant[...] = 0
            return [inputs[0] * 0]

        return run

    return ran("weights", compiled_to(make, "Mul"))


def keeps_results() -> Any:
    """It changes, in a later run, the array that it returned and the next partition read."""
    kept: list[Any] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        for y in kept:
            y[...] = 77
        kept.extend(ys)
        return ys

    made = session("open", computing(function))
    first = made.run(None, feeds("open"))
    made.run(None, feeds("open"))
    return [(first, wanted("open"))]


def returns_its_input(view: Callable[[Any], Any]) -> Any:
    """A model's output that is its input is the caller's own."""
    made = session("last", computing(lambda inputs, ys: [view(inputs[0])]))
    fed = feeds("last")
    (y,) = made.run(None, fed)
    y[...] = 5
    made = session("two", computing(lambda inputs, ys: [view(inputs[0])]))
    y, _ = made.run(None, fed)
    y[...] = 5
    return (
        [(fed, feeds("two"))] if differs(fed["x"], feeds("two")["x"]) else [(list(fed.values()), list(feeds("two").values()))]
    )


def one_array_for_all() -> Any:
    same = computing(lambda inputs, ys: [ys[0] for _ in ys], "Abs Neg")
    y, z = session("two", same).run(None, feeds("two"))
    z[...] = 5
    return [([y], wanted("two")[:1])]


def recursive() -> Any:
    def deep(inputs: Sequence[Any], ys: list[Any]) -> Any:
        return deep(inputs, ys)

    return ran("open", computing(deep))


def goes_on_after_an_error() -> Any:
    """One run fails, the next is right."""
    calls: list[int] = []

    def once(inputs: Sequence[Any], ys: list[Any]) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("once")
        return ys

    made = session("open", computing(once))
    with suppress(RuntimeException):
        made.run(None, feeds("open"))
    assert calls == [1]
    return [(made.run(None, feeds("open")), wanted("open"))]


def run_by_another(function: Any, model: str) -> Any:
    return ran(model, (computing(function, TAKES), {"on_run_error": "next"}), times=2)


def nothing() -> Any:
    return []


async def later(inputs: Any) -> Any:
    await asyncio.sleep(0)
    return [inputs[0]]


def changes_the_list(inputs: Any, ys: list[Any]) -> Any:
    inputs[:] = []
    return ys


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (kind, change) in crossed(kind=KINDS, wrong=WRONG):
        yield f"wrong-{name}", Case(lambda k=kind, c=change: ran(k, returning(c)), (WHO, "for 'a'"))
    for name, (kind, change) in crossed(kind=KINDS, form=PLAIN):
        yield f"plain-{name}", Case(lambda k=kind, c=change: ran(k, returning(c), times=2))
    for name, (model, (change, right)) in crossed(model={"open": "open", "two": "two"}, returned=RETURNED):
        takes = "Abs Neg" if model == "two" else "Abs"
        act = lambda m=model, c=change, t=takes: ran(m, computing(lambda inputs, ys: c(ys), t))  # noqa: E731
        yield f"returns-{name}", Case(act, () if right else (WHO,), either=name.endswith("deque"))
    for name, (model, error) in crossed(model={"chain": "chain", "open": "open", "last": "last"}, error=ERRORS):
        yield (
            f"raises-{name}",
            Case(
                lambda m=model, e=error: ran(m, computing(raises(e))),
                (WHO, type(error).__name__ if "wordless" not in name else "Wordless")[
                    : 1 if name.endswith(("provider", "graph")) else 2
                ],
            ),
        )
    for name, error in ERRORS.items():
        yield f"raises-and-another-goes-on-{name}", Case(lambda e=error: run_by_another(raises(e), "open"))
    for name, change in WRONG.items():
        function = lambda inputs, ys, c=change: [c(y) for y in ys]  # noqa: E731
        yield f"wrong-and-another-goes-on-{name}", Case(lambda f=function: run_by_another(f, "open"))
    for name, write in {"input": changed_in_place, "unlocked-input": unlocked}.items():
        forced = name.startswith("un")  # NumPy lets it have its way
        yield f"writes-to-its-{name}", Case(lambda w=write: writes(w, "open"), (WHO, "read-only|WRITEABLE"), forced)
        yield (
            f"writes-to-its-{name}-in-the-middle",
            Case(lambda w=write: writes(w, "last"), (WHO, "read-only|WRITEABLE"), forced),
        )


CASES: Table = table(
    [
        *_cases(),
        ("writes-to-a-constant", Case(constants_written, (WHO, "read-only"), either=True)),
        ("changes-its-list-of-inputs", Case(lambda: ran("open", computing(changes_the_list), times=2))),
        ("keeps-its-results", Case(keeps_results)),
        ("returns-its-input", Case(lambda: returns_its_input(lambda x: x))),
        ("returns-a-view-of-its-input", Case(lambda: returns_its_input(lambda x: x[:]))),
        ("returns-one-array-for-all", Case(one_array_for_all, (WHO,), either=True)),
        ("calls-itself-for-ever", Case(recursive, (WHO, "RecursionError"))),
        ("goes-on-after-an-error", Case(goes_on_after_an_error)),
        ("is-a-coroutine", Case(lambda: ran("open", compiled_to(lambda p: later)), (WHO, "coroutine"))),
        ("takes-no-argument", Case(lambda: ran("open", compiled_to(lambda p: nothing)), (WHO, "TypeError"))),
        ("takes-two-arguments", Case(lambda: ran("open", compiled_to(lambda p: lambda a, b: [])), (WHO, "TypeError"))),
        ("wants-exact-types", Case(lambda: ran("open", computing(lambda i, ys: ys, concurrency="serial"), with_=options()))),
    ]
)
