"""Heaps of numbers of at most 32 bits: each is a 64-bit entry with its index, so that a comparison is that of two integers."""

from typing import Any

from ort_lite.native.lang import STRICT, Ptr, Static, bits, cast, emitter, like, native, select
from ort_lite_cpu.kernels.gemm.vectors import Vectors

LANES = 16
"""The elements that are compared with a limit at a time."""
MOST = 2**32
"""The most elements whose index fits an entry."""

_LAST = 4294967295
_HIGHEST = 2147483647


@native(fastmath=STRICT)
def entry_of(value: Any, index: int, kind: Static, largest: Static) -> int:
    """Return an integer that orders values, the selected one and then the first one highest. A NaN is the largest (decision 0076).

    kind: "float", "signed" or "unsigned".
    """
    if kind == "float":
        pattern = int(cast(bits(value + like(value, 0)), "i32"))  # -0 becomes 0
        rank = select(pattern < 0, -_HIGHEST - 2 - pattern, pattern)
        rank = select(value != value, _HIGHEST, rank)
    elif kind == "signed":
        rank = int(value)
    else:
        rank = int(value) - _HIGHEST - 1
    if not largest:
        rank = -1 - rank
    entry: int = rank * (_LAST + 1) + (_LAST - index)
    return entry


def index_of(entry: int) -> int:
    """Return the index of an entry."""
    return _LAST - (entry & _LAST)


def settle(heap: Ptr, first: int, at: int, n: int, entry: int) -> int:
    """Put an entry into the free place `at` of a heap of n entries, or below: larger children move up, and then the entry does."""
    start, child = at, 2 * at + 2
    while child < n:
        a, b = heap[first + child - 1], heap[first + child]
        heap[first + at] = select(a > b, a, b)
        at = select(a > b, child - 1, child)
        child = 2 * at + 2
    if child == n:
        heap[first + at] = heap[first + child - 1]
        at = child - 1
    while at > start:
        parent = (at - 1) // 2
        if heap[first + parent] >= entry:
            break
        heap[first + at] = heap[first + parent]
        at = parent
    heap[first + at] = entry
    return at


def heapify(heap: Ptr, first: int, n: int) -> int:
    """Make a heap of n entries, the highest first."""
    for i in range(n // 2):
        at = n // 2 - 1 - i
        settle(heap, first, at, n, heap[first + at])
    return n


@emitter("i64(*f32,f32,static)")
def beyond(builder: Any, x: Any, limit: Any, order: str) -> Any:
    """Return a bit for each of LANES elements of x, set if it is > or < the limit. "?" in the order: also for a NaN."""
    emit = Vectors(builder, limit.type, LANES)
    compare = builder.fcmp_unordered if order.endswith("?") else builder.fcmp_ordered
    mask = compare(order[0], emit.load(x, 0), emit.splat(limit))
    return builder.zext(builder.bitcast(mask, emit.ir.IntType(LANES)), emit.ir.IntType(64))


@emitter("i64(i64)")
def lowest_bit(builder: Any, mask: Any) -> Any:
    """Return the number of the lowest bit that is set, of a mask that has one."""
    from llvmlite import ir

    return builder.cttz(mask, ir.Constant(ir.IntType(1), 1))
