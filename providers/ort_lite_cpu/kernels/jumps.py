"""Kernels that steer a program: branches, loops, rows of what a loop scans. `run.loop` says what TAKEN does."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, native, span
from ort_lite_cpu.run.loop import TAKEN


@native
@extents(condition="1")
def unless(condition: Ptr, part: int, parts: int) -> int:
    """Jump if the condition is false."""
    return TAKEN if condition[0] == 0 else OK


@native
@extents()
def always(part: int, parts: int) -> int:
    """Jump."""
    return TAKEN


@native
@extents(turn="1", limit="1", going="1")
def begin(turn: Ptr, limit: Ptr, going: Ptr, part: int, parts: int) -> int:
    """turn[0] = 0. Jumps where a loop of limit[0] turns has none."""
    turn[0] = 0
    return TAKEN if going[0] == 0 or limit[0] <= 0 else OK


@native
@extents(turn="1", limit="1", going="1")
def again(turn: Ptr, limit: Ptr, going: Ptr, part: int, parts: int) -> int:
    """Count the turn that has ended, and jump if another one follows."""
    turn[0] += 1
    return TAKEN if going[0] != 0 and turn[0] < limit[0] else OK


@native
@extents(x="outer * turns * inner", turn="1", y="outer * inner")
def take(x: Ptr, turn: Ptr, y: Ptr, outer: int, turns: int, inner: int, back: int, part: int, parts: int) -> int:
    """y[o, i] = x[o, t, i] for x (outer, turns, inner) and t = turn[0], counted from the end where back is 1."""
    t = turn[0]
    if t < 0 or t >= turns:
        return failure_status(INDEX_OUT_OF_RANGE, t)
    if back != 0:
        t = turns - 1 - t
    for o in range(outer):
        for i in span(inner, part, parts):
            y[o * inner + i] = x[(o * turns + t) * inner + i]
    return OK


@native
@extents(x="outer * inner", turn="1", y="outer * turns * inner")
def give(x: Ptr, turn: Ptr, y: Ptr, outer: int, turns: int, inner: int, back: int, part: int, parts: int) -> int:
    """y[o, t, i] = x[o, i] for y (outer, turns, inner) and t = turn[0], counted from the end where back is 1."""
    t = turn[0]
    if t < 0 or t >= turns:
        return failure_status(INDEX_OUT_OF_RANGE, t)
    if back != 0:
        t = turns - 1 - t
    for o in range(outer):
        for i in span(inner, part, parts):
            y[(o * turns + t) * inner + i] = x[o * inner + i]
    return OK


@native
@extents()
def expect(condition: int, part: int, parts: int) -> int:
    """Fail if the condition is 0: the program was lowered for other cases."""
    return OK if condition != 0 else failure_status(1)


@native
@extents()
def refuse(
    condition: int, v0: int, v1: int, v2: int, v3: int, v4: int, v5: int, v6: int, v7: int, part: int, parts: int
) -> int:
    """Fail if the condition is 0; the others are for the message."""
    return OK if condition != 0 else failure_status(1)
