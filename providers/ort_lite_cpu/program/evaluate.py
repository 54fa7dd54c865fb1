"""The native half of the binder: evaluates three-address code; what is beyond +-2**62 stays there."""

from typing import Any

from ort_lite.native.lang import emitter, floor, fmax, fmin, load64, store64, wadd, wmul
from ort_lite_cpu.program.code import ADD, EQ, FLOORDIV, LT, MAX, MIN, MOD, MUL, SCALE

LIMIT = 1 << 62
"""No size is that large. Contents may be: INT64_MAX as the end of a slice means "to the end"."""

_LIMIT = float(LIMIT)


@emitter("f64(i64)")
def as_float(builder: Any, bits: Any) -> Any:
    """The float64 whose bits these are."""
    from llvmlite import ir

    return builder.bitcast(bits, ir.DoubleType())


@emitter("f64(i64)")
def to_float(builder: Any, value: Any) -> Any:
    """Emit the conversion of an integer to a double."""
    from llvmlite import ir

    return builder.sitofp(value, ir.DoubleType())


@emitter("i64(f64)")
def to_int(builder: Any, value: Any) -> Any:
    """Truncates; the caller has checked the range."""
    from llvmlite import ir

    return builder.fptosi(value, ir.IntType(64))


@emitter("f64(f64)")
def as_float32(builder: Any, value: Any) -> Any:
    """Rounded to float32: `ort_lite.shapes` says why."""
    from llvmlite import ir

    return builder.fpext(builder.fptrunc(value, ir.FloatType()), ir.DoubleType())


def saturate(exact: int, near: float) -> int:
    """exact, or +-2**62 where `near`, which is about the same, is beyond."""
    if near >= _LIMIT:
        return LIMIT
    if near <= -_LIMIT:
        return -LIMIT
    return exact


def evaluate(code: int, count: int, slots: int) -> None:
    """Runs `count` operations of five int64s at `code` over the slots. Division by zero gives 0."""
    for i in range(count):
        at = code + 40 * i
        op = load64(at)
        a = load64(slots + 8 * load64(at + 8))
        b = load64(slots + 8 * load64(at + 16))
        v = 0
        if op == ADD:
            v = saturate(wadd(a, b), to_float(a) + to_float(b))
        elif op == MUL:
            v = saturate(wmul(a, b), to_float(a) * to_float(b))
        elif op == FLOORDIV:
            v = a // b if b != 0 else 0
        elif op == MOD:
            v = a % b if b != 0 else 0
        elif op == MAX:
            v = max(a, b)
        elif op == MIN:
            v = min(a, b)
        elif op == EQ:
            v = 1 if a == b else 0
        elif op == LT:
            v = 1 if a < b else 0
        elif op == SCALE:
            scaled = floor(as_float32(to_float(a) * as_float(b)))
            v = saturate(to_int(fmin(fmax(scaled, -_LIMIT), _LIMIT)), scaled)
        else:
            v = b if a != 0 else load64(slots + 8 * load64(at + 24))
        store64(slots + 8 * load64(at + 32), v)
