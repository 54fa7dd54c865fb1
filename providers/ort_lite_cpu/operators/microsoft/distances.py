"""CDist of com.microsoft: distances between the rows of two matrices."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, shift, span, sqrt
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator

BLOCK = 1024
"""The columns whose sums stay in the first cache level while features are added."""
AT_ONCE = 4
"""The features that are added between loading a sum and storing it."""


@native
@extents(a="m * k", b="k * n", y="m * n")
def distances(a: Ptr, b: Ptr, y: Ptr, m: int, n: int, k: int, squared: Static, part: int, parts: int) -> int:
    """y (m, n) = the distances of rows of a (m, k) and columns of b (k, n), or their squares."""
    blocks = (n + BLOCK - 1) // BLOCK
    for job in span(m * blocks, part, parts):
        start = job % blocks * BLOCK
        count = min(n - start, BLOCK)
        row, columns, out = shift(a, job // blocks * k), shift(b, start), shift(y, job // blocks * n + start)
        for j in range(count):
            out[j] = like(y, 0)
        whole = k // AT_ONCE * AT_ONCE
        for p in range(0, whole, AT_ONCE):
            add_four(shift(row, p), shift(columns, p * n), out, n, count)
        for p in range(whole, k):
            for j in range(count):
                gap = row[p] - columns[p * n + j]
                out[j] += gap * gap
        if not squared:
            for j in range(count):
                out[j] = sqrt(out[j])
    return OK


@native
def add_four(a: Ptr, b: Ptr, y: Ptr, n: int, count: int) -> None:
    """y (count,) += the squares of a[p] - b[p] (count,) for four features p; rows of b are n apart."""
    a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
    for j in range(count):
        g0, g1, g2, g3 = a0 - b[j], a1 - b[n + j], a2 - b[2 * n + j], a3 - b[3 * n + j]
        y[j] = y[j] + g0 * g0 + g1 * g1 + g2 * g2 + g3 * g3


ELEMENT, FEATURE = 0.05, 0.03
"""The nanoseconds of a distance, and of each of its features."""


def emit_distances(op: NodeLowering, a: Tensor, b: Tensor, y: Tensor, squared: bool) -> None:
    """Emit y (m, n) = distances of rows of a (m, k) and columns of b (k, n), or their squares."""
    (m, k), n = a.shape, b.shape[1]
    work: Dim = linear_work(y.size, ELEMENT) + linear_work(y.size * k, FEATURE)
    op.emit(distances, [a, b, y], m=m, n=n, k=k, squared=squared, work=work)


@operator("CDist", domain="com.microsoft", types=REAL)
def c_dist(op: NodeLowering) -> None:
    """Emit CDist with the metrics euclidean and sqeuclidean. Spec: onnxruntime CDist-1."""
    metric = op.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise op.reject(f"metric {metric}")
    b, array = op.raw(1), op.constant(1)
    if array is not None:
        columns = op.pack(array, "columns", lambda: array.T)
    else:
        turned = op.input(1, (1, 0))
        columns = Tensor(turned.dtype, (b.shape[1], b.shape[0]), turned.buffer)
    emit_distances(op, op.input(0), columns, op.output(0), metric == "sqeuclidean")
