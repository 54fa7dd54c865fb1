"""NumPy broadcasting of symbolic shapes. `ort_lite.inference` has these names."""

from ort_lite.shapes.dims import Shape, as_symbol, differ, equal, same, select, substitute
from ort_lite.shapes.expr import Call, Dim, Expr


def broadcast(*shapes: Shape) -> Shape:
    """NumPy broadcasting of symbolic shapes. Raises ValueError for dims that can never agree."""
    out = shapes[0]
    for shape in shapes[1:]:
        if shape != out:
            longer, shorter = (out, shape) if len(out) >= len(shape) else (shape, out)
            front = len(longer) - len(shorter)
            merged = [merge(a, b) for a, b in zip(longer[front:], shorter, strict=True)]
            out = (*longer[:front], *merged)
    return out


def merge(a: Dim, b: Dim) -> Dim:
    """One dim of a broadcast: `b` where `a` is 1, else `a`. Raises ValueError where that can never be.

    Dims that are open and not known to be equal agree, or one of them is 1, or the run fails with the node's name.
    """
    if isinstance(a, int):
        if a == 1:
            return b
        if isinstance(b, int) and b not in (1, a):
            raise ValueError(f"dimensions {a} and {b} do not broadcast")
        return a
    if isinstance(b, int):
        return a if b == 1 else b
    if same(a, b) or differ(a, 1):
        return a
    if differ(b, 1) or b in _merge(a):
        return b if differ(b, 1) else a
    if a in _merge(b) or _is_one_with(b, a):
        return b
    return a if _is_one_with(a, b) else select(equal(a, 1), b, a)


def _merge(dim: Expr) -> tuple[Dim, ...]:
    """The dims that `merge` made `dim` from."""
    monomial, coefficient = dim.terms[0]
    call = monomial[0]
    if not len(dim.terms) == len(monomial) == coefficient == 1 or not isinstance(call, Call) or call.op != "select":
        return ()
    condition, other, one = call.args
    return (one, other, *(() if isinstance(one, int) else _merge(one))) if same(condition, equal(one, 1)) else ()


def _is_one_with(dim: Dim, other: Dim) -> bool:
    """Return True if `other` is 1 whenever `dim` is: then they agree only if both are `dim`."""
    found = as_symbol(dim)
    return found is not None and same(substitute(other, {found.name: 1}), 1)
