"""MaxPool, AveragePool, LpPool and their global forms, over 1 to 3 spatial axes, on channels-last activations.

Spatial axes are padded to three: x is (N, D, H, W, C) in memory, and every loop over C is contiguous.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, fabs, fmax, imax, like, native, power, span, sqrt
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, floordiv, maximum, product
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.lowering.attributes import check_fit, check_windows, spatial
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, channels_last
from ort_lite_cpu.registry import REAL, operator

INFINITY = float("inf")
MANY = 1 << 20
"""Pixels of a window that count as work: what is beyond is shared by threads in any case."""
INTEGER_BYTES = frozenset({"int8", "uint8"})


class Windows(NamedTuple):
    """Sizes of a pooling. k: window, s: stride, p: padding in front, d: dilation, e: padded extent."""

    n: int
    c: int
    xd: int
    xh: int
    xw: int
    yd: int
    yh: int
    yw: int
    kd: int
    kh: int
    kw: int
    sd: int
    sh: int
    sw: int
    pd: int
    ph: int
    pw: int
    dd: int
    dh: int
    dw: int
    ed: int
    eh: int
    ew: int


@native
@extents(x="n * xd * xh * xw * c", y="n * yd * yh * yw * c")
def pool(x: Ptr, y: Ptr, g: Windows, p: float, kind: Static, rows: Static, columns: Static, part: int, parts: int) -> int:
    """y (n, yd, yh, yw, c) from x (n, xd, xh, xw, c). k: window, s: stride, p: padding in front, d: dilation, e: padded extent.

    kind: "max", "max_integer", "average" (of what lies inside x), "average_padded" (padding counts as zeros, up to the extent),
    "norm" (the p-norm). A window that lies in the padding altogether gives the least number, 0 for norms and averages.
    rows, columns: the window where it is small, plane and not dilated, so that it is unrolled away from the edges; else 0.
    Windows, strides and dilations are positive: `check_windows`.
    """
    for row in span(g.n * g.yd * g.yh, part, parts):
        d0 = ((row // g.yh) % g.yd) * g.sd - g.pd
        h0 = (row % g.yh) * g.sh - g.ph
        batch = (row // g.yh) // g.yd
        i0, i1, j0, j1 = (
            _before(0, d0, g.dd, g.kd),
            _before(g.xd, d0, g.dd, g.kd),
            _before(0, h0, g.dh, g.kh),
            _before(g.xh, h0, g.dh, g.kh),
        )
        for column in range(g.yw):
            w0 = column * g.sw - g.pw
            out = (row * g.yw + column) * g.c
            if rows > 0 and h0 >= 0 and w0 >= 0 and h0 + rows <= g.xh and w0 + columns <= g.xw:
                _pool_inside(
                    x, y, out, (((batch * g.xd + d0) * g.xh + h0) * g.xw + w0) * g.c, g.c, g.xw * g.c, p, kind, rows, columns
                )
                continue
            count = 0
            k0, k1 = _before(0, w0, g.dw, g.kw), _before(g.xw, w0, g.dw, g.kw)
            for i in range(i0, i1):
                d = d0 + i * g.dd
                for j in range(j0, j1):
                    h = h0 + j * g.dh
                    for k in range(k0, k1):
                        w = w0 + k * g.dw
                        _add_tap(x, y, out, (((batch * g.xd + d) * g.xh + h) * g.xw + w) * g.c, g.c, count, p, kind)
                        count += 1
            if count == 0:
                for q in range(g.c):
                    y[out + q] = _nothing(y[out + q], kind)
            if kind == "average_padded":
                count = (
                    _before(g.ed - g.pd, d0, g.dd, g.kd)
                    * _before(g.eh - g.ph, h0, g.dh, g.kh)
                    * _before(g.ew - g.pw, w0, g.dw, g.kw)
                )
            count = max(count, 1)
            for q in range(g.c):
                y[out + q] = _last(y[out + q], count, p, kind)
    return OK


def _pool_inside(
    x: Ptr, y: Ptr, out: int, source: int, c: int, line: int, p: float, kind: Static, rows: Static, columns: Static
) -> int:
    """One output position whose window lies inside: every channel is read, joined and written once."""
    for q in range(c):
        total = _first(fetch(x, source + q), p, kind)
        for j in range(rows):
            for k in range(columns):
                if j > 0 or k > 0:
                    total = _join(total, fetch(x, source + j * line + k * c + q), p, kind)
        put(y, out + q, _last(total, rows * columns, p, kind))
    return 0


def _add_tap(x: Ptr, y: Ptr, out: int, source: int, c: int, count: int, p: float, kind: Static) -> int:
    """Joins one pixel of the window into the output position; the first one starts it."""
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


def _before(limit: int, first: int, dilation: int, window: int) -> int:
    """Return how many of a window's positions first, first + dilation, ... are below `limit`."""
    if first >= limit:
        return 0
    if first + (window - 1) * dilation < limit:
        return window
    return (limit - first + dilation - 1) // dilation


@native
@extents(x="n * c * xd * xh * xw", index="n * c * yd * yh * yw")
def max_indices(x: Ptr, index: Ptr, g: Windows, column_major: int, part: int, parts: int) -> int:
    """index (n, c, yd, yh, yw): flat position of each maximum in x (n, c, xd, xh, xw), contiguous in logical order.

    Windows, strides and dilations are positive: `check_windows`.
    """
    for plane in span(g.n * g.c, part, parts):
        base = plane * g.xd * g.xh * g.xw
        for at in range(g.yd * g.yh * g.yw):
            best = -1
            bd, bh, bw = 0, 0, 0
            d0, h0, w0 = (at // (g.yh * g.yw)) * g.sd - g.pd, ((at // g.yw) % g.yh) * g.sh - g.ph, (at % g.yw) * g.sw - g.pw
            i0, i1, j0, j1 = (
                _before(0, d0, g.dd, g.kd),
                _before(g.xd, d0, g.dd, g.kd),
                _before(0, h0, g.dh, g.kh),
                _before(g.xh, h0, g.dh, g.kh),
            )
            k0, k1 = _before(0, w0, g.dw, g.kw), _before(g.xw, w0, g.dw, g.kw)
            for i in range(i0, i1):
                d = d0 + i * g.dd
                for j in range(j0, j1):
                    h = h0 + j * g.dh
                    for k in range(k0, k1):
                        w = w0 + k * g.dw
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
    """Emit MaxPool, with the indices if they are wanted."""
    x = op.input(0, channels_last(len(op.raw(0).shape)))
    if op.wants(0):
        _own(op, x, "max" if x.dtype in REAL else "max_integer")
    if op.wants(1):
        plain, index = op.input(0), op.output(1)
        windows = _windows(op, plain.shape, index.shape)
        column_major = int(op.attr("storage_order", 0))
        op.emit(max_indices, [plain, index], **windows.scalars, column_major=column_major, work=index.size * 16)


@operator("NhwcMaxPool", domain="com.microsoft", types=INTEGER_BYTES)
def nhwc_max_pool(op: NodeLowering) -> None:
    """(N, spatial axes, C), as MaxPool. Spec: onnxruntime NhwcMaxPool-1."""
    if min(op.attr("pads") or (0,)) < 0:
        raise op.reject(f"pads {list(op.attr('pads'))} should not be below zero")
    x, y = op.input(0), op.output(0)
    emit_pool(op, as_channels_last(x), as_channels_last(y), "max_integer")


@operator("AveragePool", types=REAL)
def average_pool(op: NodeLowering) -> None:
    """Emit AveragePool."""
    x = op.input(0, channels_last(len(op.raw(0).shape)))
    _own(op, x, "average_padded" if op.attr("count_include_pad", 0) else "average")


@operator("LpPool", types=REAL)
def lp_pool(op: NodeLowering) -> None:
    """Emit LpPool."""
    _own(op, op.input(0, channels_last(len(op.raw(0).shape))), "norm")


def _own(op: NodeLowering, x: Tensor, kind: str) -> None:
    emit_pool(op, x, op.output(0, channels_last(len(x.shape))), kind)


def emit_pool(op: NodeLowering, x: Tensor, y: Tensor, kind: str) -> None:
    """y, channels last, pooled from x, channels last, as the attributes say."""
    window = op.attr("kernel_shape")
    windows = _windows(op, x.shape, y.shape)
    plane = len(window) == 2 and math.prod(window) <= 16 and set(op.attr("dilations", [1])) == {1}
    op.emit(
        pool,
        [x, y],
        **windows.scalars,
        p=float(op.attr("p", 2)),
        kind=kind,
        rows=window[0] if plane else 0,
        columns=window[1] if plane else 0,
        work=y.size * min(math.prod(window), MANY) // 8,
    )


class _Windows(Record):
    """Sizes of x and y (N, C, spatial axes), and what the attributes say of the windows in between, along the spatial axes."""

    x: Shape
    y: Shape
    window: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    before: Sequence[Dim]
    after: Sequence[Dim]

    @property
    def scalars(self) -> dict[str, Any]:
        """The sizes, keyed by the fields of the kernels' `Windows`."""
        padded = [b + n + a for b, n, a in zip(self.before, self.x[2:], self.after, strict=True)]
        return {
            "n": self.x[0],
            "c": self.x[1],
            **spatial("x", self.x[2:]),
            **spatial("y", self.y[2:]),
            **spatial("k", self.window),
            **spatial("s", self.strides),
            **spatial("p", self.before, 0),
            **spatial("d", self.dilations),
            **spatial("e", padded),
        }


def _windows(op: NodeLowering, x: Shape, y: Shape) -> _Windows:
    window = op.attr("kernel_shape")
    rank = len(window)
    check_windows(op, rank, y[2:])
    check_fit(op, x[2:], window, batch=x[0], partly=bool(op.attr("ceil_mode", 0)))
    strides, dilations = op.attr("strides") or [1] * rank, op.attr("dilations") or [1] * rank
    before, after = pads_of(op, x[2:], window, strides)
    return _Windows(x, y, window, strides, dilations, before, after)


def pads_of(op: NodeLowering, x: Sequence[Dim], window: Sequence[int], strides: Sequence[int]) -> tuple[list[Dim], list[Dim]]:
    """(in front, behind) along the spatial axes, from `pads` or `auto_pad`, which leaves dilations out as in onnxruntime."""
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


@native
@extents(x="n * area * c", y="n * c")
def global_pool(x: Ptr, y: Ptr, n: int, c: int, area: int, p: float, kind: Static, part: int, parts: int) -> int:
    """y (n, c) from x (n, area, c): `kind` as of pool. Parts share batches and blocks of 16 channels."""
    blocks = (c + 15) // 16
    for job in span(n * blocks, part, parts):
        first = (job % blocks) * 16
        last = min(first + 16, c)
        base = (job // blocks) * area * c
        out = (job // blocks) * c
        for q in range(first, last):
            y[out + q] = _nothing(y[out + q], kind)
        for a in range(area):
            for q in range(first, last):
                y[out + q] = _join(y[out + q], x[base + a * c + q], p, kind)
        for q in range(first, last):
            y[out + q] = _last(y[out + q], area, p, kind)
    return OK


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", types=REAL)
def global_pools(op: NodeLowering) -> None:
    """(N, C, spatial axes) -> (N, C, 1, ...)."""
    kind = {"GlobalAveragePool": "average", "GlobalMaxPool": "max", "GlobalLpPool": "norm"}[op.node.op_type]
    rank = len(op.raw(0).shape)
    if rank < 2:
        raise op.reject(f"an input of rank {rank}; it should be (N, C, ...)")
    emit_global(op, op.input(0, channels_last(rank)), op.output(0, channels_last(rank)), kind)


def emit_global(op: NodeLowering, x: Tensor, y: Tensor, kind: str) -> None:
    """y (N, C, 1, ...) from x, both channels last."""
    n, c, *space = x.shape
    p = float(op.attr("p", 2))
    op.emit(global_pool, [x, y], n=n, c=c, area=product(space), p=p, kind=kind, work=x.size // 4)
