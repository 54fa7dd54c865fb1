"""ReverseSequence and BitCast: bytes that move, or stay and are called something else."""

from typing import TYPE_CHECKING

from ort_lite.dtypes import itemsize
from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, native, read_once, span
from ort_lite.shapes import product
from ort_lite_cpu.costs import work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.registry import MOVABLE, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


@native
@extents(x="rows * columns * inner", lengths="columns if time == 0 else rows", y="rows * columns * inner")
def reverse_sequence(
    x: Ptr, lengths: Ptr, y: Ptr, rows: int, columns: int, inner: int, time: int, part: int, parts: int
) -> int:
    """y (rows, columns, inner) = x with the first lengths[b] entries along axis `time`, 0 or 1, reversed; b along the other."""
    for row in span(rows * columns, part, parts):
        i, j = row // columns, row % columns
        length = read_once(lengths, j if time == 0 else i)
        steps = rows if time == 0 else columns
        if length < 0 or length > steps:
            return failure_status(INDEX_OUT_OF_RANGE, j if time == 0 else i)
        step = i if time == 0 else j
        if step < length:
            step = length - 1 - step
        source = (step * columns + j if time == 0 else i * columns + step) * inner
        for k in range(inner):
            y[row * inner + k] = x[source + k]
    return OK


@operator("ReverseSequence", since=10, types=MOVABLE, moves=True)
def lower_reverse_sequence(op: NodeLowering) -> None:
    """Emit ReverseSequence."""
    x, lengths, y = op.input(0), op.input(1), op.output(0)
    time, batch = op.attr("time_axis", 0), op.attr("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise op.reject(f"time_axis {time} and batch_axis {batch}; they are 0 and 1, or 1 and 0")
    rows, columns, *rest = x.shape
    operands = [bits(x), lengths, bits(y)]
    op.emit(
        reverse_sequence,
        operands,
        rows=rows,
        columns=columns,
        inner=product(rest),
        time=time,
        work=y.size // 2,
        message=_wrong_length,
    )


def _wrong_length(failure: "Failure") -> str:
    steps = failure.scalar("rows" if failure.scalar("time") == 0 else "columns")
    return failure.outside("length", 1, 0, steps + 1)


@operator("BitCast", since=26, types=MOVABLE | {"complex128"})
def bit_cast(op: NodeLowering) -> None:
    """Read bytes as elements of another type of the same size: a copy, in place if x is not needed any more."""
    if op.info().dtype == op.raw(0).dtype:
        op.pass_on(op.raw(0))
        return
    x, y = op.input(0), op.output(0)
    if itemsize(x.dtype) != itemsize(y.dtype):
        raise op.reject(f"{x.dtype} and {y.dtype} are not of one size")
    op.emit(primitives.copy, [bits(x), bits(y)], count=x.size, work=work_of_copy(x.dtype, x.size), inplace=(1, 0))
