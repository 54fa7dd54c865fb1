"""Integer operations that are defined for all operands and never trap. The type is that of the first operand."""

from typing import Any

from ort_lite.native.marks import arithmetic


@arithmetic("I(I,I)")
def idiv(a: Any, b: Any) -> Any:
    """Return a / b, rounded towards zero. Division by 0 gives 0; the smallest integer / -1 wraps. Spec: ONNX Div-14."""
    zero = b.equals(0)
    if not a.is_signed:
        return zero.choose(a.const(0), _udiv(a, zero.choose(b.const(1), b)))
    minus = b.equals(-1)
    quotient = a._with(a.builder.sdiv(a.raw, (zero | minus).choose(b.const(1), b).raw))
    return zero.choose(a.const(0), minus.choose(-a, quotient))


@arithmetic("I(I,I)")
def imod(a: Any, b: Any) -> Any:
    """Return the remainder of idiv, with the sign of a as in C. 0 for b = 0. Spec: ONNX Mod-13, fmod=1."""
    return _remainder(a, b)


@arithmetic("I(I,I)")
def ifloormod(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of b, as in Python. 0 for b = 0. Spec: ONNX Mod-13, fmod=0."""
    rest = _remainder(a, b)
    if not a.is_signed:
        return rest
    crossed = rest.differs(0) & ((rest ^ b) < 0)
    return crossed.choose(rest + b, rest)


def _udiv(a: Any, b: Any) -> Any:
    return a._with(a.builder.udiv(a.raw, b.raw))


def _remainder(a: Any, b: Any) -> Any:
    bad = b.equals(0)
    if a.is_signed:
        bad = bad | b.equals(-1)
    safe = bad.choose(b.const(1), b)  # x % 1 is 0, which is correct for -1 too
    divide = a.builder.srem if a.is_signed else a.builder.urem
    return a._with(divide(a.raw, safe.raw))


@arithmetic("I(I,I)")
def shl(a: Any, n: Any) -> Any:
    """Return a << n; 0 if n is negative or not below the width. Spec: ONNX BitShift-11."""
    inside = _inside(n)
    return inside.choose(a << inside.choose(n, 0), 0)


@arithmetic("I(I,I)")
def shr(a: Any, n: Any) -> Any:
    """Return a >> n, filled with the sign. A negative n, or one not below the width, counts as a larger shift."""
    inside = _inside(n)
    if a.is_signed:
        return a >> inside.choose(n, a.width - 1)
    return inside.choose(a >> inside.choose(n, 0), 0)


def _inside(n: Any) -> Any:
    return n._with(n.builder.icmp_unsigned("<", n.raw, n.const(n.width).raw), "b1")


@arithmetic("T(T,T)")
def wadd(a: Any, b: Any) -> Any:
    """Return a + b in the operands' own type; integers wrap."""
    return a + b


@arithmetic("T(T,T)")
def wsub(a: Any, b: Any) -> Any:
    """Return a - b in the operands' own type; integers wrap."""
    return a - b


@arithmetic("T(T,T)")
def wmul(a: Any, b: Any) -> Any:
    """Return a * b in the operands' own type; integers wrap."""
    return a * b


@arithmetic("T(T)")
def wneg(a: Any) -> Any:
    """Return -a in the operand's own type; integers wrap."""
    return -a


@arithmetic("I(I)")
def iabs(a: Any) -> Any:
    """Return |a|; the smallest integer is unchanged."""
    return (a < 0).choose(-a, a) if a.is_signed else a


@arithmetic("I(I,I)")
def imin(a: Any, b: Any) -> Any:
    """Return the smaller integer."""
    return a.smallest(b)


@arithmetic("I(I,I)")
def imax(a: Any, b: Any) -> Any:
    """Return the larger integer."""
    return a.largest(b)


@arithmetic("@1(A,static)")
def cast(a: Any, name: str) -> Any:
    """Return the value converted to the named type, as in `cast(x[i], "i32")`.

    Floats are truncated. Out of range, and for NaN, the result is the smallest i32 (i64 for 64-bit types and u32), cut to the
    type's bits, like x86 code compiled from C. Spec: ONNX Cast-13 leaves it undefined.
    """
    return a.to(name)


@arithmetic("T(*T,A)", "T(T,A)")
def like(x: Any, v: Any) -> Any:
    """Return v converted to the element type of pointer x, or to the type of value x, as by `cast`."""
    return v.to(x.name.lstrip("*"))
