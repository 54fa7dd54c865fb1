"""HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix: weights for spectra."""

from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import FLOATS, INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    cast,
    cos,
    expm1,
    failure_status,
    floor,
    imax,
    like,
    log1p,
    native,
    read_once,
    span,
)
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.targets import round_targets, wide_target_of
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

PI = 3.141592653589793
LOG10 = 2.302585092994046

_TERMS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25.0 / 46.0, 21.0 / 46.0, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@native
@extents(y="n")
def cosine_window(y: Ptr, n: int, period: int, a: float, b: float, c: float, part: int, parts: int) -> int:
    """y[i] = a + c cos(4 pi i / period) - b cos(2 pi i / period): in this order the ends and the middle are exact."""
    for i in span(n, part, parts):
        angle = 2.0 * PI * i / imax(period, 1)
        y[i] = like(y, a + c * cos(2.0 * angle) - b * cos(angle))
    return OK


@operator(*_TERMS, since=17, types=INTEGERS)
def window(op: NodeLowering) -> None:
    """Emit a window, symmetric if `periodic` is 0. Spec: ONNX HannWindow-17, HammingWindow-17, BlackmanWindow-17."""
    y = wide_target_of(op, 0)
    if len(y.shape) != 1:
        raise op.reject(f"a size of {len(y.shape)} numbers, expected one")
    [n] = y.shape
    period = n if op.attr("periodic", 1) else n - 1
    a, b, c = _TERMS[op.node.op_type]
    op.emit(cosine_window, [y], n=n, period=period, a=a, b=b, c=c, work=n * 20)
    round_targets(op, {0: y})


@native
@extents(rate="1", low="1", high="1", y="rows * bins")
def mel_weights(rate: Ptr, low: Ptr, high: Ptr, y: Ptr, rows: int, bins: int, length: int, part: int, parts: int) -> int:
    """y (rows, bins) = triangles that each rise from the edge before to their own and fall to the one behind."""
    for i in span(bins, part, parts):
        for row in range(rows):
            y[row * bins + i] = like(y, 0)
        first = edge(i, rate, low, high, bins, length)
        centre = edge(i + 1, rate, low, high, bins, length)
        last = edge(i + 2, rate, low, high, bins, length)
        if first < 0 or centre < first or last < centre or last > rows:
            return failure_status(INDEX_OUT_OF_RANGE, i)
        if centre < rows:
            y[centre * bins + i] = like(y, 1)
        for row in range(first, centre):
            y[row * bins + i] = like(y, (row - first) / (centre - first))
        for row in range(centre, last):
            y[row * bins + i] = like(y, (last - row) / (last - centre))
    return OK


def mel(hertz: Any) -> Any:
    """Return a frequency on the mel scale."""
    return 2595.0 * log1p(hertz / 700.0) / LOG10


def edge(k: int, rate: Ptr, low: Ptr, high: Ptr, bins: int, length: int) -> Any:
    """Return the row of edge k of bins + 2, which are evenly spaced in mel."""
    bottom = mel(cast(read_once(low, 0), "f64"))
    step = (mel(cast(read_once(high, 0), "f64")) - bottom) / (bins + 2)
    hertz = 700.0 * expm1((k * step + bottom) / 2595.0 * LOG10)
    return cast(floor((length + 1) * hertz / cast(read_once(rate, 0), "f64")), "i64")


@operator("MelWeightMatrix", since=17, types=INTEGERS | FLOATS)
def mel_weight_matrix(op: NodeLowering) -> None:
    """Emit the matrix (length // 2 + 1, bins). Spec: ONNX MelWeightMatrix-17."""
    length, *more = op.contents(1)
    if more:
        raise op.reject(f"a length of {1 + len(more)} numbers, expected one")
    y = wide_target_of(op, 0)
    low, high = (x if x.dtype in REAL else op.cast(x, "float64") for x in (op.input(3), op.input(4)))
    operands = [op.input(2), low, high, y]
    rows, bins = y.shape
    op.emit(mel_weights, operands, rows=rows, bins=bins, length=length, work=y.size * 4, message=_no_triangle)
    round_targets(op, {0: y})


def _no_triangle(failure: "Failure") -> str:
    beyond = f"reaches beyond the {failure.scalar('rows')} rows of the spectrum"
    return f"triangle {failure.at} {beyond}, or falls before it rises"
