"""TensorScatter: rows of a cache are overwritten, from a position of its own in every sample on."""

from typing import TYPE_CHECKING

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, Static, failure_status, native, null, read_once, span
from ort_lite.shapes import less, product
from ort_lite_cpu.costs import work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.registry import MOVABLE, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


@native
@extents(update="outer * rows * inner", starts="ceildiv(outer, each)", y="outer * length * inner")
def write_rows(
    update: Ptr,
    starts: Ptr,
    y: Ptr,
    outer: int,
    each: int,
    rows: int,
    length: int,
    inner: int,
    circular: Static,
    part: int,
    parts: int,
) -> int:
    """y[o, starts[o // each] + r, :] = update[o, r, :] for update (outer, rows, inner), y (outer, length, inner).

    starts: null is zeros. circular: positions wrap around, else what does not fit fails. Spec: ONNX TensorScatter-24.
    each is not 0 and rows are at most `length`: `tensor_scatter` sees to it.
    """
    for job in span(outer * rows, part, parts):
        o = job // rows
        position = job % rows
        start = 0 if null(starts) else int(read_once(starts, o // each))
        position += start
        if circular:
            position = position % length
        if start < 0 or position < 0 or position >= length:
            return failure_status(INDEX_OUT_OF_RANGE, o // each)
        for i in range(inner):
            y[(o * length + position) * inner + i] = update[job * inner + i]
    return OK


@operator("TensorScatter", since=24, types=MOVABLE, moves=True)
def tensor_scatter(op: NodeLowering) -> None:
    """Write updates to a cache, which is copied first unless nobody else reads it. Spec: ONNX TensorScatter-24."""
    cache, update, y = op.input(0), op.input(1), op.output(0)
    rank = len(cache.shape)
    axis = op.attr("axis", -2)
    if len(update.shape) != rank or not -rank <= axis < rank or axis in (0, -rank):
        raise op.reject(f"axis {axis} of a cache of rank {rank} and an update of rank {len(update.shape)}; axis 0 is the batch")
    axis %= rank
    rows, length, outer = update.shape[axis], cache.shape[axis], product(cache.shape[:axis])
    others = [k for k in range(rank) if k != axis]
    op.agree([update.shape[k] for k in others], [cache.shape[k] for k in others], "the update does not fit the cache")
    op.require(less(rows, length + 1), "an update of {0} rows for a cache of {1}", rows, length)
    starts = op.optional(2)
    circular = op.attr("mode", "linear") == "circular"
    old, new, width = bits(cache), bits(y), bits(y).native
    work = work_of_copy(cache.dtype, cache.size)
    op.emit(primitives.copy, [old, new], count=cache.size, work=work, inplace=(1, 0), over=(1, 0))
    op.emit(
        write_rows,
        [bits(update), starts, new],
        outer=outer,
        each=product(cache.shape[1:axis]),
        rows=rows,
        length=length,
        inner=product(cache.shape[axis + 1 :]),
        circular=circular,
        types=[width, "i64", width],
        work=update.size,
        message=_does_not_fit,
    )


def _does_not_fit(failure: "Failure") -> str:
    start = failure.element(1) if failure.has_operand(1) else 0
    rows, length = failure.scalar("rows"), failure.scalar("length")
    return f"the {rows} rows of sample {failure.at} do not fit a cache of {length} from row {start} on"
