"""Lengths and positions that an input gives: the run fails where one is out of range."""

from functools import partial
from typing import TYPE_CHECKING

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, native, read_once, span
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


@native
@extents(x="count")
def find_beyond(x: Ptr, count: int, most: int, part: int, parts: int) -> int:
    """Fail at the first element of this part of x (count,) that is not in [0, most].

    Kernels that read x afterwards read it again, and so must not trust it: another thread may have written to it.
    """
    for i in span(count, part, parts):
        element = int(read_once(x, i))
        if element < 0 or element > most:
            return failure_status(INDEX_OUT_OF_RANGE, i)
    return OK


def require_within(op: NodeLowering, index: int, what: str, most: Dim) -> None:
    """Make the run fail for an element of input `index` that is negative or beyond `most`. Known elements are checked once."""
    known = op.constant(index)
    if known is not None and isinstance(most, int) and bool(((known >= 0) & (known <= most)).all()):
        return
    x = op.input(index)
    op.emit(find_beyond, [x], count=x.size, most=most, work=x.size, message=partial(_beyond, index, what))


def _beyond(index: int, what: str, failure: "Failure") -> str:
    return failure.outside(what, 0, 0, failure.scalar("most") + 1, index)
