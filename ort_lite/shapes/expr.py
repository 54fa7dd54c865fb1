"""Expr: a polynomial with integer coefficients over free dimensions, and what `ort_lite.shapes`, where these names are, builds on.

Everything is kept canonical: terms in order, nothing that is a constant an Expr, what a divisor divides exactly divided.
"""

import os
import struct
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from threading import Lock
from typing import Any, Union
from weakref import WeakValueDictionary
from zlib import crc32

Dim = Union[int, "Expr"]


class Symbol:
    """A free dimension, by name. `least` is its lower bound, None where it may be negative.

    There is one object for each name: expressions, which compare and hash their symbols all the time, do so without Python.
    """

    __slots__ = ("__weakref__", "least", "name", "signed")

    name: str
    signed: bool
    least: int | None

    def __new__(cls, name: str, signed: bool = False) -> "Symbol":
        found = _SYMBOLS.get((name, signed))
        if found is None:
            made = super().__new__(cls)
            made.name, made.signed, made.least = name, signed, None if signed else 0
            with _MAKING:  # or two threads would have one each
                found = _SYMBOLS.setdefault((name, signed), made)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Symbol, (self.name, self.signed)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


_SYMBOLS: WeakValueDictionary[tuple[str, bool], Symbol] = WeakValueDictionary()
_CALLS: "WeakValueDictionary[tuple[str, tuple[Dim, ...]], Call]" = WeakValueDictionary()
_MAKING = Lock()

if hasattr(os, "register_at_fork"):
    # A forked child must not inherit the lock from a thread that it does not have.
    os.register_at_fork(before=_MAKING.acquire, after_in_parent=_MAKING.release, after_in_child=_MAKING.release)


class Call:
    """An operation that stays: `op` is one of `OPERATIONS`. `least` is its lower bound, None where it may be negative.

    `name` is its text, shortened where it is long: expressions that share parts would need text without end. There is one object for
    each operation on the same arguments: to compare two that are thousands of operations deep takes no recursion.
    """

    __slots__ = ("__weakref__", "args", "least", "name", "op")

    op: str
    args: tuple[Dim, ...]
    name: str
    least: int | None

    def __new__(cls, op: str, args: tuple[Dim, ...]) -> "Call":
        found = _CALLS.get((op, args))
        if found is None:
            made = super().__new__(cls)
            made.op, made.args = op, args
            name = f"{'' if op == 'whole' else op}({', '.join(map(str, args))})"
            made.name = name if len(name) <= _LONG else f"{name[: _LONG // 2]}...{crc32(name.encode()):08x})"
            made.least = _least_of(op, args)
            with _MAKING:
                found = _CALLS.setdefault((op, args), made)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.op, self.args)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


Atom = Symbol | Call
Monomial = tuple[Atom, ...]  # sorted by name; () is the constant term

_LONG = 240  # characters of a Call's name

_MOST_TERMS = 128
"""The most terms of an expression. Sizes of real models have a few; those of a model of n axes can be made to have 2**n."""
_MOST_FACTORS = 64
"""The most factors of a term. A model that squares a size again and again would double their number each time."""


def scale(value: int, bits: int) -> int:
    """floor(value * f), f a float32 as Resize's scales are; `bits` are those of the float64 that holds it.

    The product is rounded to float32, as onnxruntime does it: 10 * 0.7 is 7, though 0.7 as float32 is less than 0.7.
    """
    exact: float = value * struct.unpack("<d", struct.pack("<q", bits))[0]
    if abs(exact) < 2**62:  # beyond that nothing is allocated anyway, and float32 has an end
        exact = struct.unpack("<f", struct.pack("<f", exact))[0]
    return int(exact // 1)


# How a Call evaluates; the native binder implements the same table. Division by zero gives 0: the caller guards it.
OPERATIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
    "eq": lambda a, b: int(a == b),
    "lt": lambda a, b: int(a < b),
    "select": lambda c, a, b: a if c else b,
    "scale": scale,
    "whole": lambda a: a,
}


class Expr:
    """A polynomial with integer coefficients. Arithmetic costs O(terms)."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash: int | None = None  # most expressions are terms of others, and nobody's key

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.terms,)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.terms)
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self.terms == other.terms)

    def __add__(self, other: Dim) -> Dim:
        return _plus(self, other) if isinstance(other, int) else _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _plus(self, -other) if isinstance(other, int) else _sum(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _plus(-self, other)

    def __neg__(self) -> "Expr":
        return Expr(tuple([(monomial, -a) for monomial, a in self.terms]))

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            if other == 1:
                return self
            if len(self.terms) == 1 and other:
                ((monomial, a),) = self.terms
                return Expr(((monomial, a * other),))
            return Expr(tuple([(monomial, a * other) for monomial, a in self.terms])) if other else 0
        if len(self.terms) * len(other.terms) > _MOST_TERMS or _degree(self) + _degree(other) > _MOST_FACTORS:
            return whole(self) * whole(other)
        if len(self.terms) == len(other.terms) == 1:  # most: a dimension, or a product of some
            ((left, a),), ((right, b),) = self.terms, other.terms
            return Expr(((tuple(sorted(left + right, key=_name)) if left and right else left or right, a * b),))
        out: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                product = tuple(sorted(left + right, key=_name)) if left and right else left or right
                out[product] = out.get(product, 0) + a * b
        return _make(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return modulo(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return modulo(other, self)

    def __bool__(self) -> bool:
        raise TypeError(f"whether {self} is zero is not known before a shape is; compare with same()")

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            name = "*".join(map(_name, monomial))
            parts.append(str(coefficient) if not name else name if coefficient == 1 else f"{coefficient}*{name}")
        return " + ".join(parts).replace("+ -", "- ")

    __repr__ = __str__


def whole(dim: Dim) -> Dim:
    """Return `dim` as one factor: its terms are not multiplied out with those of others, which bounds the work of doing so."""
    if isinstance(dim, int) or (len(dim.terms) == 1 and _degree(dim) <= 1):
        return dim
    return call("whole", dim)


def _degree(dim: Expr) -> int:
    """Return the number of factors of the first term, which has the most."""
    return len(dim.terms[0][0])


def floordiv(a: Dim, b: Dim) -> Dim:
    """Floor division; the part of `a` that `b` divides exactly is divided. `b` must not evaluate to zero."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATIONS["floordiv"](a, b)
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(a, int) and a == 0:
        return 0
    if a == b:
        return 1
    exact, rest = _divide(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return _sum(exact, rest // b, 1)
    if isinstance(rest, int) and rest == 0:
        return exact
    return _sum(exact, call("floordiv", rest, b), 1)


def modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of `b`, as Python's."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATIONS["mod"](a, b)
    _, rest = _divide(a, b)
    if isinstance(rest, int) and (rest == 0 or isinstance(b, int)):
        return OPERATIONS["mod"](rest, b) if isinstance(b, int) else 0
    return call("mod", rest, b)


def least(dim: Dim) -> int | None:
    """A lower bound of `dim`, or None where none is known. O(terms)."""
    if isinstance(dim, int):
        return dim
    low = 0
    for monomial, coefficient in dim.terms:
        if monomial and coefficient < 0:
            return None
        for atom in monomial:
            if atom.least is None:
                return None
            coefficient *= atom.least
        low += coefficient
    return low


def _least_of(op: str, args: tuple[Dim, ...]) -> int | None:
    """A lower bound of a call, None where it may be negative."""
    if op in ("eq", "lt"):
        return 0
    bounds = [least(arg) for arg in (args[1:] if op == "select" else args[:1] if op == "scale" else args)]
    known = [bound for bound in bounds if bound is not None and bound >= 0]
    if op == "max":
        return max(known, default=None)
    if op == "mod":
        return 0 if bounds[1] is not None and bounds[1] >= 0 else None
    if len(known) < len(bounds):
        return None
    if op == "floordiv":
        return known[0] // args[1] if isinstance(args[1], int) and args[1] > 0 else 0
    return scale(known[0], _int(args[1])) if op == "scale" else min(known)


_name: Callable[[Atom], str] = attrgetter("name")


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Higher degrees first, then by name."""
    return -len(term[0]), list(map(_name, term[0]))


def _int(dim: Dim) -> int:
    assert isinstance(dim, int)
    return dim


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    return dim.terms if isinstance(dim, Expr) else (((), dim),) if dim else ()


def _make(terms: dict[Monomial, int]) -> Dim:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if not kept:
        return 0
    if len(kept) == 1:
        return kept[0][1] if not kept[0][0] else Expr((kept[0],))
    kept.sort(key=_order)
    return Expr(tuple(kept))


def _sum(a: Dim, b: Dim, sign: int) -> Dim:
    if isinstance(b, int):
        return a + b * sign if isinstance(a, int) else _plus(a, b * sign)
    if isinstance(a, int) and sign == 1:
        return _plus(b, a)
    out = dict(_terms(a))
    for monomial, coefficient in _terms(b):
        out[monomial] = out.get(monomial, 0) + sign * coefficient
    made = _make(out)
    if isinstance(made, Expr) and len(made.terms) > _MOST_TERMS:
        return _sum(whole(a), whole(b), sign)
    return made


def _plus(a: Expr, b: int) -> Expr:
    """The constant term is the last one."""
    if b == 0:
        return a
    monomial, constant = a.terms[-1]
    if monomial:
        return Expr((*a.terms, ((), b)))
    return Expr((*a.terms[:-1], ((), constant + b)) if constant + b else a.terms[:-1])


def _divide(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(quotient, rest) with a == quotient * b + rest, taking every term that the single term of `b` divides."""
    if len(_terms(b)) != 1:
        quotient = _quotient(a, b)
        return (0, a) if quotient is None else (quotient, 0)
    divisor, unit = _terms(b)[0]
    exact: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(a):
        left = _without(monomial, divisor)
        quotient = coefficient // unit if left is not None else 0
        if left is not None and quotient and (monomial or not divisor):
            exact[left] = quotient
        if remainder := coefficient - quotient * unit:
            rest[monomial] = remainder
    return _make(exact), _make(rest)


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b where `b` has several terms and divides `a` without rest, else None."""
    if isinstance(b, int):
        return None
    divisor, unit = b.terms[0]
    total: Dim = 0
    for _ in range(len(_terms(a))):  # each step takes the leading term away
        if isinstance(a, int):
            break
        monomial, coefficient = a.terms[0]
        left = _without(monomial, divisor)
        if left is None or coefficient % unit:
            return None
        step = _make({left: coefficient // unit})
        total, a = total + step, a - step * b
    return total if isinstance(a, int) and a == 0 else None


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


@lru_cache(maxsize=1024, typed=True)
def call(op: str, *args: Dim) -> Expr:
    """The operation on arguments that no rule simplifies. Programs have the same few again and again: they are one object."""
    return Expr((((Call(op, args),), 1),))
