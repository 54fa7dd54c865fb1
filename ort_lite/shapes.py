"""Symbolic integers: a dimension is an `int` or an `Expr` over the free dimensions of a graph.

An `Expr` is a polynomial in canonical form over atoms; an atom is a `Symbol` or a `Call` (floor division, maximum, ...) that
no rule could simplify. Equal polynomials are equal objects by `==` and hash, so `4 * n - n == 3 * n` holds, and the lowered
program shares their evaluation. Symbols are non-negative unless made with `signed=True` (contents of integer tensors).
Nothing here ever returns an `Expr` that is a constant: constants are `int`.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Union
from zlib import crc32

Dim = Union[int, "Expr"]
Shape = tuple[Dim, ...]


class Symbol:
    """A free dimension, by name. `least` is its lower bound, None where it may be negative."""

    __slots__ = ("_hash", "least", "name", "signed")

    def __init__(self, name: str, signed: bool = False) -> None:
        self.name, self.signed = name, signed
        self.least = None if signed else 0
        self._hash = hash((name, signed))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbol) and (self.name, self.signed) == (other.name, other.signed))

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class Call:
    """An operation that stays: `op` is one of `OPERATIONS`. `least` is its lower bound, None where it may be negative.

    `name` is its text, shortened where it is long: expressions that share parts would need text without end.
    """

    __slots__ = ("_hash", "args", "least", "name", "op")

    def __init__(self, op: str, args: tuple[Dim, ...]) -> None:
        self.op, self.args = op, args
        self._hash = hash((op, args))
        name = f"{op}({', '.join(map(str, args))})"
        self.name = name if len(name) <= _LONG else f"{name[: _LONG // 2]}...{crc32(name.encode()):08x})"
        self.least = _least_of(op, args)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Call) and self._hash == other._hash and self.op == other.op and self.args == other.args
        )

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


Atom = Symbol | Call
Monomial = tuple[Atom, ...]  # sorted by name; () is the constant term

_LONG = 240  # characters of a Call's name


def _scale(value: int, bits: int) -> int:
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
    "scale": _scale,
}


class Expr:
    """A polynomial with integer coefficients. Arithmetic costs O(terms)."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _sum(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _sum(other, self, -1)

    def __neg__(self) -> Dim:
        return _sum(0, self, -1)

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return Expr(tuple([(monomial, a * other) for monomial, a in self.terms])) if other else 0
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


def symbol(name: str, signed: bool = False) -> Expr:
    """A free dimension; `signed` ones may be negative."""
    return Expr((((Symbol(name, signed),), 1),))


def as_symbol(dim: Dim) -> Symbol | None:
    """The Symbol that `dim` is, or None when it is anything else."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0]
    return None


def floordiv(a: Dim, b: Dim) -> Dim:
    """Floor division; the part of `a` that `b` divides exactly is divided. `b` must not evaluate to zero."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATIONS["floordiv"](a, b)
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(a, int) and a == 0:
        return 0
    if same(a, b):
        return 1
    exact, rest = _divided(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return _sum(exact, rest // b, 1)
    if isinstance(rest, int) and rest == 0:
        return exact
    return _sum(exact, _call("floordiv", rest, b), 1)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Division, rounded up. Of the forms it could have, the one in which convolutions with "same" padding come too."""
    return floordiv(a + (b - 1), b) if isinstance(b, int) and b > 0 else -floordiv(-a, b)


def modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of `b`, as Python's."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATIONS["mod"](a, b)
    _, rest = _divided(a, b)
    if isinstance(rest, int) and (rest == 0 or isinstance(b, int)):
        return OPERATIONS["mod"](rest, b) if isinstance(b, int) else 0
    return _call("mod", rest, b)


def maximum(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if at_least(a, b):
        return a
    return b if at_least(b, a) else _call("max", *sorted((a, b), key=_text))


def minimum(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if at_least(a, b):
        return b
    return a if at_least(b, a) else _call("min", *sorted((a, b), key=_text))


def equal(a: Dim, b: Dim) -> Dim:
    """1 where equal, else 0; an Expr while that is open."""
    if same(a, b):
        return 1
    return 0 if differ(a, b) else _call("eq", *sorted((a, b), key=_text))


def less(a: Dim, b: Dim) -> Dim:
    """1 where a < b, else 0; an Expr while that is open."""
    if isinstance(a, int) and isinstance(b, int):
        return int(a < b)
    if at_least(a, b):
        return 0
    return 1 if at_least(b, a + 1) else _call("lt", a, b)


def select(condition: Dim, a: Dim, b: Dim) -> Dim:
    """`a` where the condition is not zero, else `b`."""
    if isinstance(condition, int):
        return a if condition else b
    return a if same(a, b) else _call("select", condition, a, b)


def scaled(dim: Dim, factor: float) -> Dim:
    """floor(dim * factor), for Resize's scales."""
    bits = struct.unpack("<q", struct.pack("<d", float(factor)))[0]
    if isinstance(dim, int):
        return _scale(dim, bits)
    if float(factor).is_integer():
        return dim * int(factor)
    return _call("scale", dim, bits)


def product(dims: Iterable[Dim]) -> Dim:
    out: Dim = 1
    for dim in dims:
        out = out * dim
    return out


def same(a: Dim, b: Dim) -> bool:
    """Equal for every value of the symbols."""
    return a == b


def differ(a: Dim, b: Dim) -> bool:
    """Different for every value of the symbols, as far as the terms show."""
    gap = _sum(a, b, -1)
    if isinstance(gap, int):
        return gap != 0
    return ((low := least(gap)) is not None and low > 0) or ((low := least(-gap)) is not None and low > 0)


def at_least(a: Dim, b: Dim) -> bool:
    """a >= b for every value of the symbols, as far as the terms show."""
    low = least(_sum(a, b, -1))
    return low is not None and low >= 0


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
    return _scale(known[0], _int(args[1])) if op == "scale" else min(known)


def symbols(dims: Iterable[Dim]) -> list[Symbol]:
    """The symbols of all dims, each once, in order of appearance. O(size of the expressions)."""
    return [atom for atom in atoms(dims) if isinstance(atom, Symbol)]


def atoms(dims: Iterable[Dim]) -> list[Atom]:
    """The symbols and calls of all dims, each once, in order of appearance. O(size of the expressions)."""
    found: dict[Atom, None] = {}

    def visit(dim: Dim) -> None:
        if isinstance(dim, Expr):
            for monomial, _ in dim.terms:
                for atom in monomial:
                    if atom not in found:
                        found[atom] = None
                        if isinstance(atom, Call):
                            for arg in atom.args:
                                visit(arg)

    for dim in dims:
        visit(dim)
    return list(found)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The value of `dim`. Raises KeyError for a symbol without a value."""
    result = substitute(dim, values)
    if not isinstance(result, int):
        raise KeyError(symbols([result])[0].name)
    return result


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with symbols replaced by name; those without a value stay. O(size of the expression), shared parts once."""
    done: dict[Atom, Dim] = {}

    def new(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            value = values.get(atom.name)
            return Expr((((atom,), 1),)) if value is None else value
        return _BUILD[atom.op](*map(replaced, atom.args))

    def replaced(dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        total: Dim = 0
        for monomial, coefficient in dim.terms:
            term: Dim = coefficient
            for atom in monomial:
                if atom not in done:
                    done[atom] = new(atom)
                term = term * done[atom]
            total = total + term
        return total

    return replaced(dim)


def _name(atom: Atom) -> str:
    return atom.name


def _text(dim: Dim) -> str:
    return str(dim)


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Higher degrees first, then by name."""
    return -len(term[0]), [atom.name for atom in term[0]]


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
    return _make(out)


def _plus(a: Expr, b: int) -> Expr:
    """The constant term is the last one."""
    if b == 0:
        return a
    monomial, constant = a.terms[-1]
    if monomial:
        return Expr((*a.terms, ((), b)))
    return Expr((*a.terms[:-1], ((), constant + b)) if constant + b else a.terms[:-1])


def _divided(a: Dim, b: Dim) -> tuple[Dim, Dim]:
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


def _call(op: str, *args: Dim) -> Expr:
    return Expr((((Call(op, args),), 1),))


def _rescale(dim: Dim, bits: Dim) -> Dim:
    return scaled(dim, struct.unpack("<d", struct.pack("<q", _int(bits)))[0])


_BUILD: dict[str, Callable[..., Dim]] = {
    "floordiv": floordiv,
    "mod": modulo,
    "max": maximum,
    "min": minimum,
    "eq": equal,
    "lt": less,
    "select": select,
    "scale": _rescale,
}
