"""DynamicTimeWarping of com.microsoft: the cheapest path through a matrix of costs."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, span
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_strided_copy
from ort_lite_cpu.registry import REAL, operator

INFINITY = float("inf")
DIAGONAL, UP, LEFT = 0, 1, 2
"""The steps back to the cell before."""


@native
@extents(x="rows * columns", cost="rows + 1", trace="rows * columns", path="2 * (rows + columns)", total="1")
def warp(x: Ptr, cost: Ptr, trace: Ptr, path: Ptr, total: Ptr, rows: int, columns: int, part: int, parts: int) -> int:
    """path (2, rows + columns) ends with the total[0] cells of the cheapest path through x (rows, columns).

    cost (rows + 1,) holds a column of least costs, trace (rows, columns) the last step to each cell. One part.
    """
    for _ in span(1, part, parts):
        for i in range(rows + 1):
            cost[i] = like(x, INFINITY)
        cost[0] = like(x, 0)
        for j in range(columns):
            diagonal = cost[0]
            cost[0] = like(x, INFINITY)
            for i in range(rows):
                up, left = cost[i], cost[i + 1]
                step = DIAGONAL if diagonal < up and diagonal < left else UP if up < diagonal and up < left else LEFT
                before = diagonal if step == DIAGONAL else up if step == UP else left
                trace[i * columns + j] = like(trace, step)
                cost[i + 1] = before + x[i * columns + j]
                diagonal = left
        i, j, count, room = rows, columns, 0, rows + columns
        while i > 0 and j > 0:
            count += 1
            path[room - count] = like(path, i - 1)
            path[2 * room - count] = like(path, j - 1)
            step = int(trace[(i - 1) * columns + j - 1])
            i -= 0 if step == LEFT else 1
            j -= 0 if step == UP else 1
        total[0] = count
    return OK


@operator("DynamicTimeWarping", domain="com.microsoft", types=REAL)
def dynamic_time_warping(op: NodeLowering) -> None:
    """Emit DynamicTimeWarping of costs (M, N) or (1, M, N). O(M * N). Spec: onnxruntime DynamicTimeWarping-1."""
    x = op.input(0)
    rows, columns = x.shape[-2:]
    room = rows + columns
    cost, trace = op.temporary(x.dtype, (rows + 1,)), op.temporary("uint8", (rows, columns))
    path, total = op.temporary("int32", (2, room)), op.temporary("int64", (1,))
    op.emit(warp, [x, cost, trace, path, total], rows=rows, columns=columns, work=x.size * 2, slices=SERIAL)
    shape = op.info().shape
    assert shape is not None
    op.read_dim(shape[1], total)
    y = op.output(0)
    steps = y.shape[1]
    emit_strided_copy(op, path, y, (2, steps), (room, 1), (steps, 1), room - steps, 0)
