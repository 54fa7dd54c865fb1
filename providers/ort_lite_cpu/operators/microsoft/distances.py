"""CDist of com.microsoft: distances between the rows of two matrices."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, Static, like, native, span, sqrt
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import REAL, operator


@native(fastmath=REDUCE)
@extents(a="m * k", b="n * k", y="m * n")
def distances(a: Ptr, b: Ptr, y: Ptr, m: int, n: int, k: int, squared: Static, part: int, parts: int) -> int:
    """y (m, n) = the distances of rows of a (m, k) and of b (n, k), or their squares."""
    for i in span(m, part, parts):
        for j in range(n):
            total = like(a, 0)
            for p in range(k):
                difference = a[i * k + p] - b[j * k + p]
                total += difference * difference
            y[i * n + j] = total if squared else sqrt(total)
    return OK


@operator("CDist", domain="com.microsoft", types=REAL)
def c_dist(op: NodeLowering) -> None:
    """Emit CDist with the metrics euclidean and sqeuclidean. Spec: onnxruntime CDist-1."""
    metric = op.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise op.reject(f"metric {metric}")
    a, b, y = op.input(0), op.input(1), op.output(0)
    (m, k), n = a.shape, b.shape[0]
    op.emit(distances, [a, b, y], m=m, n=n, k=k, squared=metric == "sqeuclidean", work=y.size * k // 4)
