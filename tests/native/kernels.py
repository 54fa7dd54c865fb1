"""Kernels that the tests of this folder compile."""

import math
from typing import Any, NamedTuple

from ort_lite.native import lang
from ort_lite.native.halves import _narrow_f16, _widen_f16
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    REDUCE,
    Ptr,
    Static,
    StaticInt,
    address,
    bf16_to_f32,
    emitter,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    failure_status,
    from_end,
    like,
    load64,
    native,
    null,
    pointer_i64,
    read_once,
    shift,
    span,
    store64,
)

__all__ = ["_narrow_f16", "_widen_f16", "bf16_to_f32", "f16_to_f32", "f32_to_bf16", "f32_to_f16"]

SCALE = 3


@native
def pick(x: Ptr, index: Ptr, y: Ptr, n: int, size: int, part: int, parts: int) -> int:
    """y[i] = x[index[i]], each index read once."""
    for i in span(n, part, parts):
        k = int(read_once(index, i))
        if k < 0 or k >= size:
            return failure_status(INDEX_OUT_OF_RANGE, i)
        y[i] = x[k]
    return OK


@native
def add(x: Ptr, y: Ptr, z: Ptr, n: int, part: int, parts: int) -> int:
    for i in span(n, part, parts):
        z[i] = x[i] + y[i]
    return OK


@native
def gather(x: Ptr, index: Ptr, y: Ptr, outer: int, axis: int, count: int, inner: int, part: int, parts: int) -> int:
    for row in span(outer * count, part, parts):
        j = from_end(index[row % count], axis)
        if not 0 <= j < axis:
            return failure_status(INDEX_OUT_OF_RANGE, row % count)
        source = (row // count * axis + j) * inner
        for i in range(inner):
            y[row * inner + i] = x[source + i]
    return OK


@native(fastmath=REDUCE)
def total(x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    s = like(x, 0)
    for i in range(n):
        s += x[i]
    y[0] = s
    return OK


@native
def scaled(x: Ptr, bias: Ptr, y: Ptr, n: int, alpha: float, kind: Static, limit: Static, part: int, parts: int) -> int:
    """Uses every kind of parameter: an optional operand, a float, Static text and number, a helper, a module's name."""
    for i in span(n, part, parts):
        v = x[i] * like(x, alpha) * like(x, SCALE)
        if kind == "relu":
            v = lang.fmax(v, like(x, limit))
        if not null(bias):
            v = plus(v, bias, i)
        y[i] = v
    return OK


def plus(v: float, bias: Ptr, i: int) -> float:
    return float_of(shift(bias, i)) + v


def float_of(p: Ptr) -> float:
    value: float = p[0]
    return value


@native
def raises(x: Ptr, part: int, parts: int) -> int:
    if x[0] < 0:
        raise ValueError
    return OK


@native
def swap_words(a: int, b: int) -> int:
    """The two words at addresses a and b change places; returns their sum."""
    kept = load64(a)
    store64(a, load64(b))
    pointer_i64(b)[0] = kept
    total: int = load64(a) + load64(b) + address(pointer_i64(a)) - a
    return total


@emitter("i64(i64,static)")
def _times(builder: Any, x: object, factor: int) -> object:
    from llvmlite import ir

    return builder.mul(x, ir.Constant(ir.IntType(64), factor))


def _times_static(x: int, factor: Static) -> int:
    result: int = _times(x, factor)
    return result


@native
def twelve_times(x: int) -> int:
    return _times_static(_times_static(x, 4), 3)


@native(inline=False)
def large(x: int) -> int:
    return x * x + 1


@native
def calls_large(x: int) -> int:
    return large(x) + large(x + 1)


@native
def curved(x: int) -> int:
    """Calls a function of the mathematical library."""
    return int(math.pow(x + 0.5, 2.5))


@native
def thirteen_times(x: int) -> int:
    return _times_static(x, 13)


class Band(NamedTuple):
    rows: int
    step: int
    low: float


@native
def grouped(y: Ptr, band: Band, n: int, part: int, parts: int) -> int:
    """y[i * step] = low + i, for rows * n elements."""
    for i in span(band.rows * n, part, parts):
        y[i * band.step] = like(y, band.low + i)
    return OK


class Factors(NamedTuple):
    """A record with a number that the compiler knows, and a pointer in what helpers get."""

    plain: int
    static: StaticInt


class Addend(NamedTuple):
    at: Ptr
    twice: float


@emitter("F(*F,F)")
def _add_twice(builder: Any, addend: Any) -> object:
    """Return at[0] + 2 * twice."""
    return builder.fadd(builder.load(addend.at), builder.fadd(addend.twice, addend.twice))


@native
def with_records(x: Ptr, y: Ptr, factors: Factors, low: float, part: int, parts: int) -> int:
    """y[0] = x[0] + 2 low, y[1] = plain * static."""
    y[0] = _add_twice(Addend(x, low))
    y[1] = like(y, _times_static(factors.plain, factors.static))
    return OK
