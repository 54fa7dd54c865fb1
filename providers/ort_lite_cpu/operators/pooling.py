"""MaxPool, AveragePool, LpPool and their global forms, over 1 to 3 spatial axes: the choice among kernels, and those of channels last.

There spatial axes are padded to three: x is (N, D, H, W, C) in memory, and every loop over C is contiguous.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, fabs, fmax, imax, like, native, power, span, sqrt
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, floordiv, maximum, product
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import nominal
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.kernels.folds import fold_rows, reduce_middle, reduce_rows
from ort_lite_cpu.kernels.gemm.geometry import Window
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.pooled_planes import PooledPlanes, PoolForm, pixels_before, pool_planes
from ort_lite_cpu.kernels.streams import RowForm, fits_streams
from ort_lite_cpu.lowering.attributes import check_fit, check_windows, volume, window_of
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, channels_last, storage_order
from ort_lite_cpu.operators.conv_layouts import moves_of_channels, moves_of_planes
from ort_lite_cpu.operators.reduction_costs import PoolNumbers, work_of_pool, work_of_pooled_planes, work_of_unrolled_pool
from ort_lite_cpu.registry import REAL, operator

INFINITY = float("inf")
UNROLLED_TAPS = 16
"""The most pixels of a window that is unrolled."""
MANY = 1 << 20
"""The most pixels of a window that count as work: threads share larger ones in any case."""
MAX_STRIDE, UNROLLED_LINES = 4, 5
"""The largest stride along rows of planes that there is code for, and the most lines of a window that is unrolled there."""
PLANE_KINDS = frozenset({"max", "average", "average_padded"})
INTEGER_BYTES = frozenset({"int8", "uint8"})


class PoolShape(NamedTuple):
    """Shapes of a pool, channels last: x (n, xd, xh, xw, c), y (n, yd, yh, yw, c), and the padded extent (ed, eh, ew) of x."""

    n: int
    c: int
    xd: int
    xh: int
    xw: int
    yd: int
    yh: int
    yw: int
    ed: int
    eh: int
    ew: int


@native
@extents(x="g.n * g.xd * g.xh * g.xw * g.c", y="g.n * g.yd * g.yh * g.yw * g.c")
def pool(
    x: Ptr, y: Ptr, g: PoolShape, window: Window, p: float, kind: Static, rows: Static, columns: Static, part: int, parts: int
) -> int:
    """y (n, yd, yh, yw, c) = kind over windows of x (n, xd, xh, xw, c).

    kind: "max", "max_integer", "average" (of the pixels inside x), "average_padded" (padding counts as zeros, up to the extent),
    "norm" (the p-norm). A window that lies entirely in the padding gives the least number, 0 for norms and averages.
    rows, columns: those of a small, plane window without dilations, which is unrolled away from the edges; else 0.
    Windows, strides and dilations are positive, see `check_windows`.
    """
    for row in span(g.n * g.yd * g.yh, part, parts):
        d0 = ((row // g.yh) % g.yd) * window.sd - window.pd
        h0 = (row % g.yh) * window.sh - window.ph
        batch = (row // g.yh) // g.yd
        i0, i1 = pixels_before(0, d0, window.dd, window.kd), pixels_before(g.xd, d0, window.dd, window.kd)
        j0, j1 = pixels_before(0, h0, window.dh, window.kh), pixels_before(g.xh, h0, window.dh, window.kh)
        for column in range(g.yw):
            w0 = column * window.sw - window.pw
            out = (row * g.yw + column) * g.c
            if rows > 0 and h0 >= 0 and w0 >= 0 and h0 + rows <= g.xh and w0 + columns <= g.xw:
                first = (((batch * g.xd + d0) * g.xh + h0) * g.xw + w0) * g.c
                _pool_inside(x, y, out, first, g.c, g.xw * g.c, p, kind, rows, columns)
                continue
            count = 0
            k0, k1 = pixels_before(0, w0, window.dw, window.kw), pixels_before(g.xw, w0, window.dw, window.kw)
            for i in range(i0, i1):
                d = d0 + i * window.dd
                for j in range(j0, j1):
                    h = h0 + j * window.dh
                    for k in range(k0, k1):
                        w = w0 + k * window.dw
                        _add_tap(x, y, out, (((batch * g.xd + d) * g.xh + h) * g.xw + w) * g.c, g.c, count, p, kind)
                        count += 1
            if count == 0:
                for q in range(g.c):
                    y[out + q] = _nothing(y[out + q], kind)
            if kind == "average_padded":
                count = pixels_before(g.ed - window.pd, d0, window.dd, window.kd) * pixels_before(
                    g.eh - window.ph, h0, window.dh, window.kh
                )
                count *= pixels_before(g.ew - window.pw, w0, window.dw, window.kw)
            count = max(count, 1)
            for q in range(g.c):
                y[out + q] = _last(y[out + q], count, p, kind)
    return OK


def _pool_inside(
    x: Ptr, y: Ptr, out: int, source: int, c: int, line: int, p: float, kind: Static, rows: Static, columns: Static
) -> int:
    """Compute an output position whose window lies inside: every channel is read, joined and written once."""
    for q in range(c):
        total = _first(fetch(x, source + q), p, kind)
        for j in range(rows):
            for k in range(columns):
                if j > 0 or k > 0:
                    total = _join(total, fetch(x, source + j * line + k * c + q), p, kind)
        put(y, out + q, _last(total, rows * columns, p, kind))
    return 0


def _add_tap(x: Ptr, y: Ptr, out: int, source: int, c: int, count: int, p: float, kind: Static) -> int:
    """Join one pixel of the window into the output position; the first one starts it."""
    if count == 0:
        for q in range(c):
            put(y, out + q, _first(fetch(x, source + q), p, kind))
    else:
        for q in range(c):
            put(y, out + q, _join(y[out + q], fetch(x, source + q), p, kind))
    return 0


def _nothing(v: Any, kind: Static) -> Any:
    """Return the value of a window without pixels, in the type of `v`."""
    if kind == "max":
        return like(v, -INFINITY)
    if kind == "max_integer":
        return like(v, 0) if like(v, -1) > like(v, 0) else like(v, -128)
    return like(v, 0)


def _first(v: Any, p: float, kind: Static) -> Any:
    if kind == "norm":
        return fabs(v) if p == 1 else v * v if p == 2 else power(fabs(v), like(v, p))
    return v


def _join(a: Any, v: Any, p: float, kind: Static) -> Any:
    if kind == "max":
        return fmax(a, v)
    if kind == "max_integer":
        return imax(a, v)
    return a + _first(v, p, kind)


def _last(total: Any, count: int, p: float, kind: Static) -> Any:
    if kind == "average" or kind == "average_padded":
        return total / like(total, count)
    if kind == "norm":
        return total if p == 1 else sqrt(total) if p == 2 else power(total, like(total, 1) / like(total, p))
    return total


@native
@extents(x="g.n * g.c * g.xd * g.xh * g.xw", index="g.n * g.c * g.yd * g.yh * g.yw")
def max_indices(x: Ptr, index: Ptr, g: PoolShape, window: Window, column_major: int, part: int, parts: int) -> int:
    """index (n, c, yd, yh, yw) = flat positions of the maxima in x (n, c, xd, xh, xw), contiguous in logical order.

    Windows, strides and dilations are positive, see `check_windows`.
    """
    for plane in span(g.n * g.c, part, parts):
        base = plane * g.xd * g.xh * g.xw
        for at in range(g.yd * g.yh * g.yw):
            best = -1
            bd, bh, bw = 0, 0, 0
            d0, h0, w0 = (
                (at // (g.yh * g.yw)) * window.sd - window.pd,
                ((at // g.yw) % g.yh) * window.sh - window.ph,
                (at % g.yw) * window.sw - window.pw,
            )
            i0, i1 = pixels_before(0, d0, window.dd, window.kd), pixels_before(g.xd, d0, window.dd, window.kd)
            j0, j1 = pixels_before(0, h0, window.dh, window.kh), pixels_before(g.xh, h0, window.dh, window.kh)
            k0, k1 = pixels_before(0, w0, window.dw, window.kw), pixels_before(g.xw, w0, window.dw, window.kw)
            for i in range(i0, i1):
                d = d0 + i * window.dd
                for j in range(j0, j1):
                    h = h0 + j * window.dh
                    for k in range(k0, k1):
                        w = w0 + k * window.dw
                        here = base + (d * g.xh + h) * g.xw + w
                        if best < 0 or x[here] > x[best]:
                            best = here
                            bd, bh, bw = d, h, w
            if column_major != 0:
                best = base + bd + g.xd * (bh + g.xh * bw)
            index[plane * g.yd * g.yh * g.yw + at] = best
    return OK


@operator("MaxPool", types=REAL | INTEGER_BYTES)
def max_pool(op: NodeLowering) -> None:
    """Emit MaxPool, with the indices if they are wanted. Spec: ONNX MaxPool-22."""
    if op.wants(0):
        _own(op, "max" if op.raw(0).dtype in REAL else "max_integer")
    if op.wants(1):
        plain, index = op.input(0), op.output(1)
        g, window = _sizes(op, plain.shape, index.shape)
        column_major = int(op.attr("storage_order", 0))
        op.emit(max_indices, [plain, index], g=g, window=window, column_major=column_major, work=index.size * 16)


@operator("NhwcMaxPool", domain="com.microsoft", types=INTEGER_BYTES)
def nhwc_max_pool(op: NodeLowering) -> None:
    """Emit MaxPool of (N, spatial axes, C). Spec: onnxruntime NhwcMaxPool-1."""
    if min(op.attr("pads") or (0,)) < 0:
        raise op.reject(f"pads {list(op.attr('pads'))} should not be below zero")
    x, y = op.input(0), op.output(0)
    emit_pool(op, as_channels_last(x), as_channels_last(y), "max_integer")


@operator("AveragePool", types=REAL)
def average_pool(op: NodeLowering) -> None:
    """Emit AveragePool. Spec: ONNX AveragePool-22."""
    _own(op, "average_padded" if op.attr("count_include_pad", 0) else "average")


@operator("LpPool", types=REAL)
def lp_pool(op: NodeLowering) -> None:
    """Emit LpPool. Spec: ONNX LpPool-22."""
    _own(op, "norm")


def _own(op: NodeLowering, kind: str) -> None:
    """Emit the pool of a node: of its own images, in the layout of the candidate that is taken."""
    x, y = op.raw(0).shape, op.info().shape
    assert y is not None
    sizes = _sizes(op, x, y)
    whole = list(op.attr("kernel_shape")) == list(x[2:]) and set(y[2:]) == {1} and not any(op.attr("pads") or ())
    if whole and kind != "max_integer":
        _global(op, kind)
    else:
        _choose(PoolCase(op, x, y, kind, *sizes))


class PoolCase(Record, eq=False):
    """A pool of windows from shape x to shape y, for the candidates that may compute it."""

    op: NodeLowering
    x: Shape
    y: Shape
    kind: str
    shape: PoolShape
    window: Window
    given: tuple[Tensor, Tensor] | None = None
    """x and y, channels last, if they are not the node's own."""

    @property
    def numbers(self) -> PoolNumbers:
        """The sizes as numbers. A batch that is open counts as one image."""
        x, y = ([nominal(dim) if axis or isinstance(dim, int) else 1 for axis, dim in enumerate(s)] for s in (self.x, self.y))
        lines, columns = volume(self.op.attr("kernel_shape"))[1:]
        taps = min(math.prod(self.op.attr("kernel_shape")), MANY)
        return PoolNumbers(y[0] * math.prod(y[2:]), y[1], taps, math.prod(x), x[-1], y[-1], lines, columns)

    @property
    def channels_last(self) -> tuple[Tensor, Tensor]:
        """x and y, channels last."""
        last = channels_last(len(self.x))
        return self.given or (self.op.input(0, last), self.op.output(0, last))

    @property
    def form(self) -> RowForm | None:
        """The windows along rows of a plane, None if their padding is not known."""
        op, kernel = self.op, self.op.attr("kernel_shape")
        strides, dilations = op.attr("strides") or [1], op.attr("dilations") or [1]
        front = pads_of(op, self.x[2:], kernel, op.attr("strides") or [1] * len(kernel))[0][-1]
        if not isinstance(front, int):
            return None
        lanes = tile_for(op.raw(0).native, op.target).lanes
        narrow = 2 * nominal(self.y[-1]) <= lanes
        return RowForm(kernel[-1], strides[-1], dilations[-1], front, lanes // 2 if narrow else lanes)


def emit_pool(op: NodeLowering, x: Tensor, y: Tensor, kind: str) -> None:
    """Emit y, channels last, pooled from x, channels last, by the node's attributes."""
    _choose(PoolCase(op, x.shape, y.shape, kind, *_sizes(op, x.shape, y.shape), (x, y)))


def _choose(case: PoolCase) -> None:
    choose(case.op, CANDIDATES, case).emit(case)


def _reject_planes(case: PoolCase) -> str:
    if case.given or case.kind not in PLANE_KINDS:
        return "its images lie channels last, or it is no maximum or average of floats"
    if len(case.x) > 4:
        return "its window spans three axes"
    form = case.form
    if form is None or form.stride > MAX_STRIDE or form.taps > UNROLLED_TAPS or not fits_streams(form):
        return "its padding is not known, or its window or strides are too large"
    if not case.op.target.has("avx2") and not (isinstance(case.x[-1], int) and case.x[-1] >= 4 * form.lanes):
        return "its rows are not known to be as long as four vectors, which the target cannot mask"
    return ""


def _emit_planes(case: PoolCase) -> None:
    op, form, kernel = case.op, case.form, case.op.attr("kernel_shape")
    assert form is not None
    g, window, x, y = case.shape, case.window, op.input(0), op.output(0)
    counts = None if case.kind == "max" else op.temporary(x.dtype, (op.most_parts, g.yw))
    sizes = PooledPlanes(g.n * g.c, g.xh, g.xw, g.yh, g.yw, window.kh, window.sh, window.dh, window.ph, g.eh, g.ew)
    rows = 4 if op.target.vector_registers == 32 else 2
    unrolled = window.kh <= UNROLLED_LINES
    op.emit(
        pool_planes,
        [x, y, counts],
        types=[x.native] * 3,
        g=sizes,
        kind=case.kind,
        unrolled=unrolled,
        form=PoolForm(window.kh if unrolled else 1, window.sh, window.dh, rows),
        along=form,
        work=x.size // 8 + y.size * len(kernel) // 8,
    )


def _reject_unrolling(case: PoolCase) -> str:
    kernel = case.op.attr("kernel_shape")
    if len(kernel) != 2 or set(case.op.attr("dilations") or [1]) != {1}:
        return "its window has dilations, or does not span two axes"
    return "" if math.prod(kernel) <= UNROLLED_TAPS else f"its window has more than {UNROLLED_TAPS} pixels"


def _emit(case: PoolCase, unrolled: bool) -> None:
    op, (x, y), kernel = case.op, case.channels_last, case.op.attr("kernel_shape")
    g, window = case.shape, case.window
    rows, columns = kernel if unrolled else (0, 0)
    p, work = float(op.attr("p", 2)), y.size * min(math.prod(kernel), MANY) // 8
    op.emit(pool, [x, y], g=g, window=window, p=p, kind=case.kind, rows=rows, columns=columns, work=work)


def _moves_of_planes(case: PoolCase) -> float:
    return moves_of_planes(case.op, case.numbers)


def _moves_of_channels(case: PoolCase) -> float:
    return 0.0 if case.given else moves_of_channels(case.op, case.numbers)


CANDIDATES: Final = (
    Candidate[PoolCase](
        "pool_planes", _reject_planes, lambda case: work_of_pooled_planes(case.numbers), _emit_planes, _moves_of_planes
    ),
    Candidate[PoolCase](
        "pool-unrolled",
        _reject_unrolling,
        lambda case: work_of_unrolled_pool(case.numbers),
        partial(_emit, unrolled=True),
        _moves_of_channels,
    ),
    Candidate[PoolCase](
        "pool",
        lambda case: "",
        lambda case: work_of_pool(case.numbers),
        partial(_emit, unrolled=False),
        _moves_of_channels,
    ),
)
"""The ways to pool windows: along the rows of planes; channels last, with a window that is unrolled, and tap by tap."""


def _sizes(op: NodeLowering, x: Shape, y: Shape) -> tuple[PoolShape, Window]:
    """Return the sizes of x and y (N, C, spatial axes), and the window between them by the node's attributes."""
    kernel = op.attr("kernel_shape")
    rank = len(kernel)
    check_windows(op, rank, y[2:])
    check_fit(op, x[2:], kernel, batch=x[0], partly=bool(op.attr("ceil_mode", 0)))
    strides, dilations = op.attr("strides") or [1] * rank, op.attr("dilations") or [1] * rank
    before, after = pads_of(op, x[2:], kernel, strides)
    padded = [b + n + a for b, n, a in zip(before, x[2:], after, strict=True)]
    sizes: Any = (*x[:2], *volume(x[2:]), *volume(y[2:]), *volume(padded))
    return PoolShape(*sizes), window_of(kernel, strides, before, dilations)


def pads_of(op: NodeLowering, x: Sequence[Dim], window: Sequence[int], strides: Sequence[int]) -> tuple[list[Dim], list[Dim]]:
    """Return pads (in front, behind) along the spatial axes, from `pads` or `auto_pad`, which ignores dilations as in onnxruntime."""
    auto = op.attr("auto_pad") or "NOTSET"
    rank = len(window)
    if auto in ("NOTSET", "VALID"):
        pads = (auto == "NOTSET" and op.attr("pads")) or [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    before: list[Dim] = []
    after: list[Dim] = []
    for n, k, s in zip(x, window, strides, strict=True):
        total = maximum(0, (ceildiv(n, s) - 1) * s + k - n)
        front = floordiv(total, 2) if auto == "SAME_UPPER" else ceildiv(total, 2)
        before.append(front)
        after.append(total - front)
    return before, after


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", types=REAL)
def global_pools(op: NodeLowering) -> None:
    """Emit a pool of (N, C, spatial axes) to (N, C, 1, ...). Spec: ONNX GlobalAveragePool-22, GlobalMaxPool-22, GlobalLpPool-22."""
    _global(op, {"GlobalAveragePool": "average", "GlobalMaxPool": "max", "GlobalLpPool": "norm"}[op.node.op_type])


def _global(op: NodeLowering, kind: str) -> None:
    """Emit a pool over all positions: of planes, which are rows, if images lie in ONNX's own order, else channels last."""
    x, last = op.raw(0), channels_last(len(op.raw(0).shape))
    reduction, rows, n = reduction_of(op, kind), product(x.shape[:2]), product(x.shape[2:])
    if not reduction or storage_order(x) is not None or last in x.layouts:
        emit_global(op, op.input(0, last), op.output(0, last), kind)
        return
    operands = [op.input(0), op.output(0, last)]  # one position: all orders are the same
    if reduction == "max":
        op.emit(fold_rows, operands, rows=rows, n=n, lowest=0, kind=reduction, work=x.size // 4)
    else:
        op.emit(reduce_rows, operands, rows=rows, n=n, kind=reduction, work=x.size // 4)


def reduction_of(op: NodeLowering, kind: str) -> str:
    """Return the reduction that a pool over all positions is, "" for a norm that is none."""
    norm = {1.0: "l1", 2.0: "l2"}.get(float(op.attr("p", 2)), "")
    return {"average": "mean", "average_padded": "mean", "max": "max", "norm": norm}[kind]


def emit_global(op: NodeLowering, x: Tensor, y: Tensor, kind: str) -> None:
    """Emit y (N, C, 1, ...) from x, both channels last."""
    n, c, *space = x.shape
    area, p = product(space), float(op.attr("p", 2))
    reduction = reduction_of(op, kind)
    if reduction:
        sizes: dict[str, Any] = {"outer": n, "n": area, "inner": c, "lowest": 0, "kind": reduction}
        op.emit(reduce_middle, [x, y], **sizes, work=x.size // 4)
    else:  # a norm that is no reduction: one window over all pixels
        line: Any = (n, c, *volume([area]), *volume([1]), *volume([area]))
        window = window_of([area], [1], [0], [1])
        op.emit(pool, [x, y], g=PoolShape(*line), window=window, p=p, kind=kind, rows=0, columns=0, work=x.size)
