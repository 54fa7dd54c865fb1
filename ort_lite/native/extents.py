"""Extents: the parts of its operands that a kernel may access, declared in terms of its scalars and checked before calls.

    @native
    @extents(x="outer * axis * inner", index="count", y="outer * count * inner")
    def gather(x: Ptr, index: Ptr, y: Ptr, outer: int, axis: int, count: int, inner: int, part: int, parts: int) -> int:

An extent is an expression over the kernel's scalar and Static parameters, fields of its records (`shape.ih`), constants of its
module, and `parts`, the most parts that a call is split into. Its value is the number of elements that may be accessed, starting at
the pointer, or a `Reach` between two bounds. It covers the reads and writes of all parts. It also covers elements whose position
depends on data (indices, tables): the kernel compares them with its scalars, or the extent is "given" and the caller knows what the
data allow. Callers compare extents with the operands' sizes once, before the first call, so that a call itself costs nothing more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from ort_lite.native.spec import StaticValue, is_record, parameters, signature
from ort_lite.record import Record
from ort_lite.shapes.dims import at_least, ceildiv, equal, less, maximum, minimum, same, select
from ort_lite.shapes.expr import Dim

F = TypeVar("F", bound=Callable[..., Any])
Scalar = Dim | float

MOST_FIELDS = 12
"""A record of more is no single concept."""
GIVEN = "given"
"""The extent of an operand that the caller determines, because it alone knows the data on which the extent depends."""


_TEXTS = "__extents__"
"""The attribute of a kernel that holds its declaration."""


class Reach(NamedTuple):
    """The elements from `low` to `high`, exclusive, or none if `turns` is 0."""

    low: Dim
    high: Dim
    turns: Dim


Extent = Dim | Reach


class KernelParameter(Record):
    """A parameter of a kernel that is no pointer: a scalar, a Static value, or a record of these."""

    name: str
    record: type[Any] | None
    """Its NamedTuple, or None."""
    fields: tuple[tuple[str, str], ...]
    """(name, "i64", "f64" or "static") of each field, called "record.field"; of a scalar, its own."""

    def values(self, given: Any) -> Sequence[Any]:
        """Return the values of the fields. Raises TypeError if `given` is another record."""
        if self.record is None:
            return (given,)
        if type(given) is not self.record:
            raise TypeError(f"{self.name!r} is {given!r}, expected a {self.record.__name__}")
        return cast(Sequence[Any], given)


class Contract(Record):
    """The requirements for calling a kernel. `extents` is None for a kernel without a declaration."""

    name: str
    pointers: tuple[str, ...]
    parameters: tuple[KernelParameter, ...]
    """Without pointers, `part` and `parts`."""
    scalars: tuple[tuple[str, str], ...]
    """(name, "i64" or "f64") of each scalar in these."""
    floats: list[bool]
    """True for each scalar that is a float."""
    extents: Callable[..., tuple[Extent | None, ...]] | None
    named: frozenset[str]
    """The names of the parameters."""

    def reaches(self, scalars: Sequence[Scalar], statics: Mapping[str, Any], parts: int) -> tuple[Extent | None, ...]:
        """Return the extent of each operand for these values; None for one that the caller determines.

        Raises TypeError for invalid arguments.
        """
        self.check_scalars(scalars)
        if self.extents is None:
            raise TypeError(f"kernel {self.name} does not say what it touches: @extents({', '.join(self.pointers)})")
        rest, given = iter(scalars), []
        for parameter in self.parameters:
            values = [statics[name] if kind == "static" else next(rest) for name, kind in parameter.fields]
            given.append(values[0] if parameter.record is None else parameter.record(*values))
        return self.extents(*given, parts=parts)

    def check_scalars(self, scalars: Sequence[Scalar]) -> None:
        """Raise TypeError if scalars are missing, superfluous or of the wrong type."""
        if [type(value) is float for value in scalars] == self.floats:
            return
        if len(scalars) != len(self.scalars):
            names = ", ".join(name for name, _ in self.scalars)
            raise TypeError(f"kernel {self.name}: {len(scalars)} scalars came, {len(self.scalars)} are expected: {names}")
        for value, (name, kind) in zip(scalars, self.scalars, strict=True):
            if isinstance(value, float) != (kind == "f64"):
                expected = "a float" if kind == "f64" else "an integer"
                raise TypeError(f"kernel {self.name}: {name!r} is {value!r} ({type(value).__name__}), expected {expected}")

    def arrange(self, given: Mapping[str, Any]) -> tuple[tuple[Scalar, ...], dict[str, StaticValue]]:
        """Return (scalars in the kernel's order, statics) for arguments by name. Raises TypeError for missing and unknown ones."""
        if given.keys() != self.named:
            names = [parameter.name for parameter in self.parameters]
            missing = [name for name in names if name not in given]
            extra = [name for name in given if name not in names]
            said = [
                f"{', '.join(map(repr, found))} {what}" for found, what in ((missing, "missing"), (extra, "unknown")) if found
            ]
            raise TypeError(f"kernel {self.name}: {'; '.join(said)}; it takes {', '.join(names)}")
        scalars: list[Scalar] = []
        statics: dict[str, StaticValue] = {}
        for parameter in self.parameters:
            for (name, kind), value in zip(parameter.fields, parameter.values(given[parameter.name]), strict=True):
                if kind == "static":
                    statics[name] = value
                else:
                    scalars.append(value)
        return tuple(scalars), statics


def extents(**texts: str) -> Callable[[F], F]:
    """Declare the parts of its operands that a kernel accesses, by an expression for every pointer.

    Only `contract` checks the declaration: importing an operator family must cost nothing.
    """

    def mark(function: F) -> F:
        setattr(function, _TEXTS, texts)
        return function

    return mark


@cache
def contract(function: Callable[..., Any]) -> Contract:
    """Return the requirements for calling a function. O(parameters), once per function.

    Raises TypeError for extents whose names are not those of the function's pointers or parameters.
    """
    found = parameters(function)
    pointers = tuple(name for name, kind in found if kind == "pointer")
    for name, kind in signature(function):
        if is_record(kind) and len(kind._fields) > MOST_FIELDS:
            raise TypeError(
                f"{function.__qualname__}: record {name!r} has {len(kind._fields)} fields, {MOST_FIELDS} are allowed"
            )
    if any("." in name for name in pointers):
        raise TypeError(
            f"{function.__qualname__}: a kernel's records have no pointers; these are in some: {', '.join(pointers)}"
        )
    leaves = iter([each for each in found if each[1] != "pointer"])
    own = [(name, kind) for name, kind in signature(function) if name not in pointers]
    described = [
        KernelParameter(
            name, kind if is_record(kind) else None, tuple(islice(leaves, len(kind._fields) if is_record(kind) else 1))
        )
        for name, kind in own
    ]
    named = tuple(parameter for parameter in described if parameter.name not in ("part", "parts"))
    scalars = tuple(each for parameter in named for each in parameter.fields if each[1] != "static")
    texts: Mapping[str, str] | None = getattr(function, _TEXTS, None)
    made = None
    if texts is not None:
        if tuple(texts) != pointers:
            raise TypeError(f"{function.__qualname__}: extents of {list(texts)}, its pointers are {list(pointers)}")
        made = _compile(function, texts, {parameter.name: parameter.record for parameter in named})
    floats = [kind == "f64" for _, kind in scalars]
    names = frozenset(parameter.name for parameter in named)
    return Contract(f"{function.__module__}.{function.__qualname__}", pointers, named, scalars, floats, made, names)


def _compile(
    function: Callable[..., Any], texts: Mapping[str, str], records: Mapping[str, type[Any] | None]
) -> Callable[..., tuple[Extent | None, ...]]:
    """Return a function of the kernel's parameters without pointers, and of `parts`, that returns the extents."""
    values = "".join("None," if text == GIVEN else f"({text})," for text in texts.values())
    names = ", ".join([*records, "*", "parts"])
    found = eval(f"lambda {names}: ({values})", {**function.__globals__, "__builtins__": {}, **_LANGUAGE})
    _check(function, texts, records, found.__code__.co_names)
    return cast(Callable[..., tuple[Extent | None, ...]], found)


def _check(
    function: Callable[..., Any], texts: Mapping[str, str], records: Mapping[str, type[Any] | None], read: Iterable[str]
) -> None:
    """Check the names `read` in the texts that are not parameters: constants of the module, and fields of records."""
    fields = {field for kind in records.values() if kind is not None for field in kind._fields}
    for name in read:
        if name not in _LANGUAGE and name not in fields and not isinstance(function.__globals__.get(name), int):
            text = next((text for text in texts.values() if name in text), "")
            raise TypeError(f"{function.__qualname__}: {text!r} names {name!r}, which is no parameter")


def walk(at: Dim, *steps: Dim) -> Reach:
    """Return the extent of nested loops that start at `at`. Steps are n0, s0, n1, s1, ...: n0 steps of s0 elements, and so on.

    Negative counts, whose product a kernel might treat as positive, give a reach that fits nothing.
    """
    if {int}.issuperset(map(type, (at, *steps))):
        return _walk_numbers(cast(int, at), cast(Sequence[int], steps))
    low = high = at
    turns: Dim = 1
    doubtful: list[Dim] = []
    for n, step in zip(steps[::2], steps[1::2], strict=True):
        if type(n) is int and n == 1:
            continue  # true for most loops
        turns = turns * n
        if not at_least(n, 0):
            doubtful.append(n)
        if type(step) is int and step == 0:
            continue
        last = n * step - step
        if at_least(step, 0):
            high = high + last
        elif at_least(0, step):
            low = low + last
        else:
            low, high = low + minimum(last, 0), high + maximum(last, 0)
    for n in doubtful:
        low = select(less(n, 0), -1, low)
    return Reach(low, high + 1, turns)


def _walk_numbers(at: int, steps: Sequence[int]) -> Reach:
    low = high = at
    turns = 1
    for n, step in zip(steps[::2], steps[1::2], strict=True):
        turns *= n
        if step >= 0:
            high += (n - 1) * step
        else:
            low += (n - 1) * step
    return Reach(-1 if min(steps[::2], default=0) < 0 else low, high + 1, turns)


def within(extent: Extent, nbytes: Dim, width: int) -> Dim:
    """Return 1 if all elements, of `width` bytes each, are within `nbytes` bytes, 0 if not; an Expr while undecided."""
    if not isinstance(extent, Reach):
        return _fits(extent * width, nbytes)
    inside = (1 - less(extent.low, 0)) * _fits(extent.high * width, nbytes)
    return 1 if same(inside, 1) else select(equal(extent.turns, 0), 1, inside)


def _fits(touched: Dim, nbytes: Dim) -> Dim:
    return 1 if same(touched, nbytes) else 1 - less(nbytes, touched)


def _most(*dims: Dim) -> Dim:
    return reduce(maximum, dims)


def _least(*dims: Dim) -> Dim:
    return reduce(minimum, dims)


_LANGUAGE: dict[str, Any] = {
    "max": _most,
    "min": _least,
    "ceildiv": ceildiv,
    "select": select,
    "equal": equal,
    "less": less,
    "walk": walk,
}
