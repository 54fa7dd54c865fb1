"""GridSample and AffineGrid: images read at positions between their pixels.

Most images are sampled in planes: offsets and weights of a block of positions are in tables, and serve all channels. Otherwise
channels are last, space is padded to three axes, and a position and its weights serve all channels.
"""

from typing import Any, NamedTuple

from ort_lite.dtypes import INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, cast, floor, imax, imin, like, native, read_once, rint, select, shift, span
from ort_lite.shapes import less, product
from ort_lite_cpu.costs import linear_work, nominal
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.lowering.attributes import Volume, choice, volume
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.operators.resize import BOOL, as_float, round_to_type
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import HALVES

CUBIC = -0.75
"""The free parameter of cubic interpolation, as in PyTorch."""
BLOCK = 4096
"""The most positions that are in tables at a time: few enough for a cache, and channels of a small image stay in one as well."""
MANY = 32
"""Channels from which on planes are slower in cubic mode, for images with channels last, and in linear mode without AVX-512."""
OUTSIDE = -(1 << 62)
"""The offset of a pixel that is none. The sum with any other offset is negative."""
POSITION, SAMPLE = 2.5, 0.3
"""The nanoseconds of a position's entries in the tables, and of a pixel that counts for an element of the result."""


def position(v: Any, n: int, align: Static) -> Any:
    """Return the pixel coordinate of v in [-1, 1] among n pixels; -1 and 1 are the outer pixels' centres (align) or edges."""
    one = like(v, 1)
    if align:
        return (v + one) / like(v, 2) * like(v, n - 1)
    return ((v + one) * like(v, n) - one) / like(v, 2)


def reflect(v: Any, n: int, align: Static) -> Any:
    """Return v, mirrored at the edges until it lies among n pixels."""
    low = like(v, 0 if align else -0.5)
    length = like(v, n - 1 if align else n)
    if length == like(v, 0):
        return like(v, 0)
    distance = low - v if v < low else v - low
    times = floor(distance / length)
    rest = distance - times * length
    return low + rest if cast(times, "i64") % 2 == 0 else low + length - rest


def inside(v: Any, n: int, padding: Static, align: Static, taps: Static) -> Any:
    """Return the coordinate after padding: outside ones move to the edge, are mirrored, or stay where they are ("zeros").

    With four taps and "border" they stay too: the pixels that they read are moved, as in PyTorch (decision 0076).
    """
    low = like(v, 0 if align else -0.5)
    high = like(v, n - 1) - low
    if padding == "zeros" or (padding == "border" and taps == 4) or (v >= low and v <= high):
        return v
    if padding == "border":
        return min(max(v, like(v, 0)), like(v, n - 1))
    return reflect(v, n, align)


def pixel(i: int, n: int, padding: Static, align: Static) -> int:
    """Return the index that tap i reads, or -1 for none. If n is 0 it is always -1."""
    if i >= 0 and i < n:
        return i
    if padding == "zeros":
        return -1
    if padding == "reflection":
        i = cast(reflect(cast(i, "f64"), n, align), "i64")
    inside: int = imin(imax(i, 0), n - 1)
    return inside


def weight(fraction: Any, tap: int, taps: Static) -> Any:
    """Return the weight of tap 0, 1, ... for a position `fraction` past tap (taps - 1) // 2."""
    one = like(fraction, 1)
    if taps == 1:
        return one
    if taps == 2:
        return fraction if tap == 1 else one - fraction
    a = like(fraction, CUBIC)
    d = fraction + one - like(fraction, tap)
    d = -d if d < like(fraction, 0) else d
    if d <= one:
        return ((a + like(a, 2)) * d - (a + like(a, 3))) * d * d + one
    return ((a * d - like(a, 5) * a) * d + like(a, 8) * a) * d - like(a, 4) * a


@native
@extents(x="n * space.d * space.h * space.w * c", grid="n * points * axes", y="n * points * c")
def grid_sample(
    x: Ptr,
    grid: Ptr,
    y: Ptr,
    n: int,
    c: int,
    space: Volume,
    points: int,
    axes: Static,
    taps: Static,
    padding: Static,
    align: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, points, c) = x (n, *space, c) at grid (n, points, axes), the innermost axis first.

    taps: pixels that count along an axis, 1, 2 or 4. Whatever a position is, only pixels inside of x are read: `pixel`.
    """
    depth, height, width = space.d, space.h, space.w
    for row in span(n * points, part, parts):
        at = row * axes
        u = inside(near(position(read_once(grid, at), width, align), taps), width, padding, align, taps)
        v = inside(near(position(read_once(grid, at + 1), height, align), taps), height, padding, align, taps)
        w = like(u, 0)
        if axes == 3:
            w = inside(near(position(read_once(grid, at + 2), depth, align), taps), depth, padding, align, taps)
        u0, v0, w0 = floor(u), floor(v), floor(w)
        first = (taps - 1) // 2
        left, top, front = cast(u0, "i64") - first, cast(v0, "i64") - first, cast(w0, "i64")
        if axes == 3:
            front -= first
        out = row * c
        for q in range(c):
            y[out + q] = like(y, 0)
        for i in range(taps if axes == 3 else 1):
            d = pixel(front + i, depth, padding, align)
            wd = weight(w - w0, i, taps if axes == 3 else 1)
            for j in range(taps):
                h = pixel(top + j, height, padding, align)
                wh = wd * weight(v - v0, j, taps)
                for k in range(taps):
                    p = pixel(left + k, width, padding, align)
                    if d >= 0 and h >= 0 and p >= 0:
                        factor = like(y, wh * weight(u - u0, k, taps))
                        source = (((row // points * depth + d) * height + h) * width + p) * c
                        for q in range(c):
                            y[out + q] += x[source + q] * factor
    return OK


class SampledPlanes(NamedTuple):
    """The sizes of images (n, c, height, width) that are read at `points` positions each."""

    n: int
    c: int
    height: int
    width: int
    points: int


@native
@extents(
    x="g.n * g.c * g.height * g.width",
    grid="g.n * g.points * 2",
    y="g.n * g.c * g.points",
    table="parts * 2 * taps * BLOCK",
    weights="parts * 2 * taps * BLOCK",
)
def grid_sample_planes(
    x: Ptr,
    grid: Ptr,
    y: Ptr,
    table: Ptr,
    weights: Ptr,
    g: SampledPlanes,
    taps: Static,
    padding: Static,
    align: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, c, points) = x (n, c, height, width) at grid (n, points, 2). The numbers are those of `grid_sample`.

    The kernel fills table and weights (parts, 2 axes, taps, BLOCK) for a block of positions, and all channels read them.
    """
    table, weights = shift(table, part * 2 * taps * BLOCK), shift(weights, part * 2 * taps * BLOCK)
    total, size = imax(g.n * g.points, 1), g.height * g.width
    shares = (total + parts * BLOCK - 1) // (parts * BLOCK) * parts
    length = (total + shares - 1) // shares
    blocks = (g.points + length - 1) // length
    for block in span(g.n * blocks, part, parts):
        image, first = block // blocks, block % blocks * length
        count = imin(length, g.points - first)
        at = (image * g.points + first) * 2
        for i in range(count):
            weights[i] = read_once(grid, at + 2 * i)
            weights[taps * BLOCK + i] = read_once(grid, at + 2 * i + 1)
        _tabulate(table, weights, g.width, 1, count, taps, padding, align)
        _tabulate(shift(table, taps * BLOCK), shift(weights, taps * BLOCK), g.height, g.width, count, taps, padding, align)
        for plane in range(image * g.c, image * g.c + g.c):
            _blend(shift(x, plane * size), shift(y, plane * g.points + first), table, weights, count, size, taps)
    return OK


def _tabulate(table: Ptr, weights: Ptr, n: int, step: int, count: int, taps: Static, padding: Static, align: Static) -> int:
    """table (taps, BLOCK) = the offsets of the pixels that each position reads, weights = theirs.

    Before, the first row of weights has the positions. The offset of no pixel is OUTSIDE.
    """
    for i in range(count):
        u = inside(near(position(weights[i], n, align), taps), n, padding, align, taps)
        low = floor(u)
        left = cast(low, "i64") - (taps - 1) // 2
        for k in range(taps):
            p = pixel(left + k, n, padding, align)
            table[k * BLOCK + i] = select(p < 0, OUTSIDE, p * step)
            weights[k * BLOCK + i] = weight(u - low, k, taps)
    return 0


def _blend(x: Ptr, y: Ptr, table: Ptr, weights: Ptr, count: int, size: int, taps: Static) -> int:
    """y (count,) = the weighted sums of the pixels of x (size,) in the table. One outside does not count."""
    if size == 0:
        for i in range(count):
            y[i] = like(y, 0)
    else:
        for i in range(count):
            total = like(y, 0)
            for j in range(taps, 2 * taps):
                for k in range(taps):
                    at = fetch(table, j * BLOCK + i) + fetch(table, k * BLOCK + i)
                    factor = like(y, fetch(weights, j * BLOCK + i) * fetch(weights, k * BLOCK + i))
                    total = select(at < 0, total, total + fetch(x, imax(at, 0)) * factor)
            put(y, i, total)
    return 0


def near(v: Any, taps: Static) -> Any:
    """Return the position, rounded to the nearest pixel if there is one tap."""
    return rint(v) if taps == 1 else v


_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@operator("GridSample", since=16, types=REAL | INTEGERS | BOOL, moves=True)
@operator("GridSample", domain="com.microsoft", types=REAL)
def lower_grid_sample(op: NodeLowering) -> None:
    """Emit GridSample over 2 or 3 axes, in every mode; integers are interpolated as floats and rounded. O(outputs * taps).

    Spec: ONNX GridSample-22, onnxruntime GridSample-1.
    """
    rank = len(op.raw(0).shape)
    if rank not in (4, 5):
        raise op.reject(f"an input of rank {rank}; there are 4 and 5")
    op.agree([len(op.raw(1).shape)], [rank], "the ranks of grid and input differ")
    taps, dtype = _TAPS[choice(op, "mode", "linear", _TAPS)], op.raw(0).dtype
    given = {"taps": taps, "padding": choice(op, "padding_mode", "zeros", ("zeros", "border", "reflection"))}
    given["align"] = bool(op.attr("align_corners", 0))
    last, shape, grid = channels_last(rank), op.info().shape, op.input(1)
    assert shape is not None
    gathers = taps == 1 or (taps == 2 and op.target.has("avx512f"))
    planes = rank == 4 and (nominal(op.raw(0).shape[1]) < MANY or (gathers and op.raw(0).perm != last))
    x = op.input(0, None if planes else last)
    x = x if taps == 1 else as_float(op, x)
    wide = x.dtype == "float64" and taps > 1
    grid = op.cast(grid, "float64" if wide else "float32") if wide or grid.dtype in HALVES else grid
    y = op.builder.new(x.dtype, shape, None if planes else last)
    (_emit_planes if planes else _emit_channels)(op, x, grid, y, given)
    op.pass_on(round_to_type(op, y, dtype))


def _emit_planes(op: NodeLowering, x: Tensor, grid: Tensor, y: Tensor, given: dict[str, Any]) -> None:
    """Emit y = x at the positions of grid. All are in logical order."""
    taps, points = given["taps"], product(y.shape[2:])
    scratch = [op.temporary(dtype, (op.most_parts, 2 * taps * BLOCK)) for dtype in ("int64", grid.dtype)]
    work = linear_work(x.shape[0] * points, POSITION) + linear_work(y.size * taps * taps, SAMPLE)
    sizes: Any = (*x.shape, points)
    op.emit(grid_sample_planes, [x, grid, y, *scratch], g=SampledPlanes(*sizes), **given, work=work)


def _emit_channels(op: NodeLowering, x: Tensor, grid: Tensor, y: Tensor, given: dict[str, Any]) -> None:
    """Emit y = x at the positions of grid. Channels of x and y are last."""
    n, c, *space = x.shape
    sizes: dict[str, Any] = {"n": n, "c": c, "space": volume(space), "points": product(y.shape[2:]), "axes": len(space)}
    op.emit(grid_sample, [x, grid, y], **sizes, **given, work=y.size * given["taps"] ** len(space))


@native
@extents(theta="n * axes * (axes + 1)", y="n * space.d * space.h * space.w * axes")
def affine_grid(theta: Ptr, y: Ptr, n: int, space: Volume, axes: Static, align: Static, part: int, parts: int) -> int:
    """y[b, d, h, w] = theta[b] (axes, axes + 1) times the position (x, y[, z], 1) in [-1, 1]. Sums in float64."""
    depth, height, width = space.d, space.h, space.w
    for row in span(n * depth * height, part, parts):
        h, d = row % height, row // height % depth
        batch = row // (height * depth) * axes * (axes + 1)
        for w in range(width):
            for r in range(axes):
                at = batch + r * (axes + 1)
                total = cast(theta[at + axes], "f64") + theta[at] * normalize_position(w, width, align)
                total += theta[at + 1] * normalize_position(h, height, align)
                if axes == 3:
                    total += theta[at + 2] * normalize_position(d, depth, align)
                y[(row * width + w) * axes + r] = like(y, total)
    return OK


def normalize_position(i: int, n: int, align: Static) -> float:
    """Return the position of pixel i of n, in -1 to 1."""
    if align:
        return 2.0 * i / (n - 1) - 1.0 if n > 1 else 0.0
    return (2.0 * i + 1.0) / n - 1.0


@operator("AffineGrid", since=20, types=REAL)
def lower_affine_grid(op: NodeLowering) -> None:
    """Emit AffineGrid over 2 or 3 axes. Spec: ONNX AffineGrid-20."""
    theta, y = op.input(0), op.output(0)
    axes = len(y.shape) - 2
    op.require(int(axes in (2, 3)), "a size of {0} numbers; there are 4 and 5", axes + 2)
    op.agree(theta.shape[:1], y.shape[:1], "theta and size are of different batches")
    for dim in y.shape:
        op.require(less(0, dim), "a size of {0} along an axis, expected 1 or more", dim)
    space, align = volume(y.shape[1:-1]), bool(op.attr("align_corners", 0))
    op.emit(affine_grid, [theta, y], n=y.shape[0], space=space, axes=axes, align=align, work=y.size * 4)
