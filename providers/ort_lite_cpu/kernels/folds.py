"""Reductions of rows, whose elements are adjacent, and of the middle axis of (outer, n, inner)."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    REDUCE,
    Ptr,
    Static,
    cast,
    exp,
    fabs,
    fmax,
    fmin,
    iabs,
    imax,
    imin,
    like,
    log,
    native,
    span,
    sqrt,
    wadd,
    wmul,
)

INFINITY = float("inf")
BLOCK = 1024


def start(v: Any, lowest: int, kind: Static) -> Any:
    """Return the result over nothing, in the type of `v`; for the extremes of integers `lowest`, the end of their range."""
    if kind == "max_integer" or kind == "min_integer":
        return like(v, lowest)
    if kind == "prod":
        return like(v, 1)
    if kind == "max":
        return like(v, -INFINITY)
    if kind == "min":
        return like(v, INFINITY)
    return like(v, 0)


def term(v: Any, kind: Static) -> Any:
    """Return the contribution of one element."""
    if kind == "l1":
        return fabs(v)
    if kind == "l1_integer":
        return iabs(v)
    if kind == "l2" or kind == "square":
        return wmul(v, v)
    return v


@native(fastmath=REDUCE)
def join(a: Any, v: Any, kind: Static) -> Any:
    """Combine the accumulator with one term."""
    if kind == "prod":
        return wmul(a, v)
    if kind == "max":
        return fmax(a, v)
    if kind == "min":
        return fmin(a, v)
    if kind == "max_integer":
        return imax(a, v)
    if kind == "min_integer":
        return imin(a, v)
    return wadd(a, v)


def finish(a: Any, n: int, kind: Static) -> Any:
    """Return the result of a reduction over n elements from its accumulator."""
    if kind == "mean":
        return a / like(a, n)
    if kind == "l2":
        return sqrt(a)
    if kind == "log_sum":
        return log(a)
    return a


@native(fastmath=REDUCE)
def block_sum(x: Ptr, at: int, n: int, kind: Static) -> Any:
    """Return the sum of at most BLOCK elements in their own type, vectorized over the machine's lanes."""
    total = like(x, 0)
    for i in range(n):
        total += term(x[at + i], kind)
    return total


@native
@extents(x="rows * n", y="rows")
def reduce_rows(x: Ptr, y: Ptr, rows: int, n: int, kind: Static, part: int, parts: int) -> int:
    """y[r] = reduction of x[r, :]. Sums of floats add blocks of 1,024 in float64; most rows are one."""
    for row in span(rows, part, parts):
        base = row * n
        if n <= BLOCK:
            y[row] = like(y, finish(cast(block_sum(x, base, n, kind), "f64"), n, kind))
            continue
        total = 0.0
        for at in range(0, n, BLOCK):
            total += cast(block_sum(x, base + at, min(BLOCK, n - at), kind), "f64")
        y[row] = like(y, finish(total, n, kind))
    return OK


@native
@extents(x="rows * n", y="rows")
def fold_rows(x: Ptr, y: Ptr, rows: int, n: int, lowest: int, kind: Static, part: int, parts: int) -> int:
    """Reduce rows by anything but a sum of floats: y[r] = x[r, 0] joined with x[r, 1], ..."""
    for row in span(rows, part, parts):
        base = row * n
        a = start(like(x, 0), lowest, kind)
        for i in range(n):
            a = join(a, term(x[base + i], kind), kind)
        y[row] = a
    return OK


@native
@extents(x="rows * n", y="rows")
def log_sum_exp_rows(x: Ptr, y: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """y[r] = log(sum(exp(x[r, :]))), with the largest taken out first."""
    for row in span(rows, part, parts):
        base = row * n
        top = like(x, -INFINITY)
        for i in range(n):
            top = fmax(top, x[base + i])
        shift = like(x, 0)
        if top - top == like(x, 0):
            shift = top
        total = 0.0
        for i in range(n):
            total += cast(exp(x[base + i] - shift), "f64")
        y[row] = log(like(x, total)) + shift
    return OK


@native
@extents(x="outer * n * inner", y="outer * inner")
def reduce_middle(x: Ptr, y: Ptr, outer: int, n: int, inner: int, lowest: int, kind: Static, part: int, parts: int) -> int:
    """y[o, i] = reduction of x[o, :, i]; parts share rows of y, blocks of 64 columns."""
    blocks = (inner + 63) // 64
    for job in span(outer * blocks, part, parts):
        first = (job % blocks) * 64
        last = min(first + 64, inner)
        base = (job // blocks) * n * inner
        out = (job // blocks) * inner
        for i in range(first, last):
            y[out + i] = start(y[out + i], lowest, kind)
        for k in range(n):
            row = base + k * inner
            for i in range(first, last):
                y[out + i] = join(y[out + i], term(x[row + i], kind), kind)
        for i in range(first, last):
            y[out + i] = finish(y[out + i], n, kind)
    return OK
