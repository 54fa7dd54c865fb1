"""Symbolic integers: a dimension is an `int` or an `Expr` over the free dimensions of a graph.

An `Expr` is a polynomial in canonical form over atoms; an atom is a `Symbol` or a `Call` (floor division, maximum, ...) that
no rule could simplify. Equal polynomials are equal objects by `==` and hash, so `4 * n - n == 3 * n` holds, and the lowered
program shares their evaluation. Symbols are non-negative unless made with `signed=True` (contents of integer tensors).
Nothing here ever returns an `Expr` that is a constant: constants are `int`.
"""

import struct
from collections.abc import Callable, Container, Iterable, Mapping

from ort_lite.shapes.expr import Atom, Call, Dim, Expr, Symbol, call, floordiv, least, modulo, scale

Shape = tuple[Dim, ...]


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


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Division, rounded up. Of the forms it could have, the one in which convolutions with "same" padding come too."""
    return floordiv(a + (b - 1), b) if isinstance(b, int) and b > 0 else -floordiv(-a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger of two dimensions."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if at_least(a, b):
        return a
    return b if at_least(b, a) else call("max", *sorted((a, b), key=_text))


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if at_least(a, b):
        return b
    return a if at_least(b, a) else call("min", *sorted((a, b), key=_text))


def equal(a: Dim, b: Dim) -> Dim:
    """1 where equal, else 0; an Expr while that is open."""
    if same(a, b):
        return 1
    return 0 if differ(a, b) else call("eq", *sorted((a, b), key=_text))


def less(a: Dim, b: Dim) -> Dim:
    """1 where a < b, else 0; an Expr while that is open."""
    if isinstance(a, int) and isinstance(b, int):
        return int(a < b)
    gap = b - a
    if at_least(gap, 1):
        return 1
    return 0 if at_least(-gap, 0) else call("lt", a, b)


def select(condition: Dim, a: Dim, b: Dim) -> Dim:
    """`a` where the condition is not zero, else `b`."""
    if isinstance(condition, int):
        return a if condition else b
    return a if same(a, b) else call("select", condition, a, b)


def scale_dim(dim: Dim, factor: float) -> Dim:
    """floor(dim * factor), for Resize's scales."""
    bits = struct.unpack("<q", struct.pack("<d", float(factor)))[0]
    if isinstance(dim, int):
        return scale(dim, bits)
    if float(factor).is_integer():
        return dim * int(factor)
    return call("scale", dim, bits)


scaled = scale_dim
"""The name in earlier releases."""


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; 1 for none."""
    number = 1
    out: Dim | None = None
    for dim in dims:
        if not isinstance(dim, int):
            out = dim if out is None else out * dim
        elif dim == 0:
            return 0
        else:
            number *= dim
    return number if out is None else out * number


def same(a: Dim, b: Dim) -> bool:
    """Equal for every value of the symbols."""
    return a == b


def differ(a: Dim, b: Dim) -> bool:
    """Different for every value of the symbols, as far as the terms show."""
    gap = a - b
    if isinstance(gap, int):
        return gap != 0
    return ((low := least(gap)) is not None and low > 0) or ((low := least(-gap)) is not None and low > 0)


def at_least(a: Dim, b: Dim) -> bool:
    """a >= b for every value of the symbols, as far as the terms show."""
    if isinstance(b, int):
        low = least(a)
        return low is not None and low >= b
    low = least(a - b)
    return low is not None and low >= 0


def symbols(dims: Iterable[Dim]) -> list[Symbol]:
    """The symbols of all dims, each once, in order of appearance. O(size of the expressions)."""
    return [atom for atom in atoms(dims) if isinstance(atom, Symbol)]


def atoms(dims: Iterable[Dim]) -> list[Atom]:
    """The symbols and calls of all dims, each once, in order of appearance. O(size of the expressions)."""
    found: dict[Atom, None] = {}
    left = _atoms_in(dims)[::-1]
    while left:
        atom = left.pop()
        if atom not in found:
            found[atom] = None
            if isinstance(atom, Call):
                left += _atoms_in(atom.args)[::-1]
    return list(found)


def inner_first(dim: Dim, known: Container[Atom] = ()) -> list[Atom]:
    """The symbols and calls of `dim`, each once, behind those that it is made of. Those that are known are left out."""
    found: dict[Atom, None] = {}
    left = _atoms_in([dim])
    while left:
        atom = left[-1]
        inner = _atoms_in(atom.args) if isinstance(atom, Call) and atom not in found else []
        missing = [one for one in inner if one not in found and one not in known]
        if missing:
            left += missing
        else:
            left.pop()
            if atom not in known:
                found[atom] = None
    return list(found)


def _atoms_in(dims: Iterable[Dim]) -> list[Atom]:
    """The factors of all terms of the dims."""
    return [atom for dim in dims if isinstance(dim, Expr) for monomial, _ in dim.terms for atom in monomial]


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
        return _BUILD[atom.op](*map(rebuild, atom.args))

    def rebuild(dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        total: Dim = 0
        for monomial, coefficient in dim.terms:
            term: Dim = coefficient
            for atom in monomial:
                term = term * done[atom]
            total = total + term
        return total

    for atom in inner_first(dim):
        done[atom] = new(atom)
    return rebuild(dim)


def _text(dim: Dim) -> str:
    return str(dim)


def _rescale(dim: Dim, bits: int) -> Dim:
    return scale_dim(dim, struct.unpack("<d", struct.pack("<q", bits))[0])


_BUILD: dict[str, Callable[..., Dim]] = {
    "floordiv": floordiv,
    "mod": modulo,
    "max": maximum,
    "min": minimum,
    "eq": equal,
    "lt": less,
    "select": select,
    "scale": _rescale,
    "whole": lambda dim: dim,
}
