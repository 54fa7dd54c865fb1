"""Winograd F(4x4, 3x3) and F(2x2, 3x3): a 3x3 convolution with a quarter, or 4 ninths, of the multiplications, channels last. And
F(2x2, 5x5): a 5x5 convolution with 36 hundredths of them.

A tile of 4x4 outputs sees 6x6 inputs, one of 2x2 sees 4x4, or 6x6 with five taps. Both sides are transformed to as many numbers, in
which the convolution is a product; over channels and tiles these are 36, or 16, matrix products: the planes. Tiles are taken in blocks
whose transforms stay in the cache. The error is about 1e-5 of the largest magnitude where 6x6 are seen, 1e-6 for F(2x2, 3x3), whose
inputs and outputs are only added. Below, `edge` is 4 or 2, and `taps` 3 or 5. Inputs are transformed alike where as many are seen.
Groups are convolutions of their own.

With a stride of 2 and three taps, the even numbers of a line meet two taps and the odd ones the third: F(2, 2) for the former, 3
products, and 2 for the latter, where the definition has 6. A tile of 2x2 outputs sees 5x5 inputs, 25 planes for 36 products. Both odd
numbers meet the same tap: of 25 planes some share their filters, and filters are 16, as those of F(2x2). All transforms are sums.

Along one axis, as over sound and text, F(4, 3), F(2, 3) and F(2, 5) are the same transforms once: 6 or 4 planes, and two thirds to half
of the multiplications.
Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.

Long, and one file: seven forms of one algorithm, which share all but the sums of their transforms.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import allocate_in_huge_pages
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, like, native, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.convolution import copy_run
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.geometry import ImageShape, ResultPlace
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, LeftOperand, Tile, TileEpilogue, add_and_clip, further, mode_of, panel
from ort_lite_cpu.kernels.gemm.pack import in_panels
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.run.kernels import Kernels

GAP = 16
"""Elements between the rows of a transform, and between its planes, so that they do not fall on the same cache lines."""


def planes_of(edge: int, taps: int, stride: int = 1, axes: int = 2) -> int:
    """Return how many numbers a tile of `edge` outputs along each axis sees, and is transformed to."""
    seen: int = input_extent(edge, taps, stride)
    return seen * seen if axes == 2 else seen


@native
def input_extent(edge: int, taps: int, stride: int) -> int:
    """Return how many numbers of a line `edge` outputs see."""
    return (edge - 1) * stride + taps


@native
def downwards(number: int, axes: int) -> int:
    """Return how much of an image's height a tile takes that is `number` wide: 1 if it lies along one axis."""
    return number if axes == 2 else 1


def filter_panels(
    weight: Array, groups: int, edge: int, columns: int, tile: Tile, kernels: Kernels, stride: int = 1, axes: int = 2
) -> Array:
    """G g G' of (O, C / groups, taps, taps), a row a group: for each `columns` outputs panels (kinds, some, C / groups, tile.columns),
    in the order of their use. Kinds are (edge + taps - 1) x (edge + taps - 1), one a plane where the stride is 1.

    Along one axis G g of (O, C / groups, ..., taps). O(planes * size), in float64 before rounding.
    """
    outputs, channels, taps = len(weight) // groups, weight.shape[1], max(weight.shape[2:])
    whole, rest = divmod(outputs, columns)
    count = whole * -(-columns // tile.columns) + -(-rest // tile.columns)
    u = allocate_in_huge_pages((groups, planes_of(edge, taps, axes=axes) * count * channels * tile.columns), weight.dtype)
    sizes = {"outputs": outputs, "channels": channels, "columns": columns, "count": count, "width": tile.columns}
    for own, made in zip(np.ascontiguousarray(weight).reshape(groups, outputs, -1), u, strict=True):
        statics = {"edge": edge, "taps": taps, "stride": stride, "axes": axes, "lanes": tile.lanes}

        def otherwise(own: Array = own, made: Array = made) -> None:
            planes = _transform(own.reshape(outputs, channels, -1), edge, taps, stride, axes)
            _in_blocks(planes, made, columns, tile.columns)

        run_once(transform_filters, [own, made], kernels, otherwise, **sizes, **statics)
    return u


def _transform(w: Array, edge: int, taps: int, stride: int, axes: int) -> Array:
    """(planes, channels, outputs) of (outputs, channels, taps); the operations of `_transform_filter`, with NumPy."""
    times, g = _G[edge, taps, stride], w.astype(np.float64).transpose(2, 1, 0)
    columns = [times(_NUMPY, [g[taps * i + j] for i in range(taps)]) if axes == 2 else [g[j]] for j in range(taps)]
    rows = zip(*columns, strict=True)
    return np.stack([value for row in rows for value in times(_NUMPY, row)]).astype(w.dtype)


def _in_blocks(planes: Array, u: Array, columns: int, width: int) -> None:
    """Write planes (kinds, channels, outputs) as `filter_panels` has those of one group."""
    kinds, channels, outputs = planes.shape
    at = 0
    for first in range(0, outputs, columns):
        some = planes[:, :, first : first + columns]
        shape = kinds, -(-some.shape[-1] // width), channels, width
        in_panels(some, u[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)


class _Arithmetic:
    """Arithmetic of arrays, with the methods by which `Vectors` emits it."""

    def times(self, x: Any, factor: float) -> Any:
        return x * factor

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def sub(self, x: Any, y: Any) -> Any:
        return x - y


_NUMPY = _Arithmetic()


@native(fastmath=())  # no fused operations: NumPy has none
@extents(
    w="outputs * channels * taps * (1 + (axes - 1) * (taps - 1))",
    u="(edge + taps - 1) * (1 + (axes - 1) * (edge + taps - 2)) * count * channels * width",
)
def transform_filters(
    w: Ptr,
    u: Ptr,
    outputs: int,
    channels: int,
    columns: int,
    width: int,
    count: int,
    edge: Static,
    taps: Static,
    stride: Static,
    axes: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """u (planes, count, channels, width) = G w G' of one group: see `filter_panels`. Parts share the `count` panels of a plane.

    `lanes` outputs are transformed at a time, the rest one by one.
    """
    numbers, own = edge + taps - 1, taps * downwards(taps, axes)
    each, kinds, depth = (columns + width - 1) // width, numbers * downwards(numbers, axes), channels * own
    for panel_number in span(count, part, parts):
        block, local = panel_number // each, panel_number % each
        some = min(columns, outputs - block * columns)
        plane = (some + width - 1) // width * channels * width
        first, filled = block * columns + local * width, min(width, some - local * width)
        for c in range(channels):
            target = (kinds * block * each + local) * channels * width + c * width
            source = shift(w, first * depth + c * own)
            i = 0
            while i + lanes <= filled:
                _transform_filter(shift(source, i * depth), depth, shift(u, target + i), plane, edge, taps, stride, axes, lanes)
                i += lanes
            while i < filled:
                _transform_filter(shift(source, i * depth), depth, shift(u, target + i), plane, edge, taps, stride, axes, 1)
                i += 1
            for j in range(filled, width):
                for k in range(kinds):
                    u[target + k * plane + j] = like(u, 0)
    return OK


@emitter("void(*F,i64,*F,i64,static,static,static,static,static)")
def _transform_filter(
    builder: Any, g: Any, depth: Any, u: Any, plane: Any, edge: int, taps: int, stride: int, axes: int, lanes: int
) -> None:
    """u[plane * k], k < kinds, of `lanes` filters that lie `depth` apart.

    The planes of a model's usual sizes are a power of two apart and so fall on the same lines of the cache: whole lines are written.
    """
    narrow = Vectors(builder, u.type.pointee, lanes)
    emit = Vectors(builder, narrow.ir.DoubleType(), lanes)

    def load_tap(tap: int) -> Any:
        vector = narrow.zero
        for lane in range(lanes):
            place = emit.move(g, builder.add(emit.mul(depth, lane), emit.integer(tap)))
            vector = builder.insert_element(vector, builder.load(place), narrow.ir.Constant(narrow.ir.IntType(32), lane))
        return vector if narrow.nbytes == 8 else builder.fpext(vector, emit.type)

    times, kinds = _G[edge, taps, stride], edge + taps - 1
    columns = [times(emit, [load_tap(taps * i + j) for i in range(taps)]) if axes == 2 else [load_tap(j)] for j in range(taps)]
    for i in range(downwards(kinds, axes)):
        for j, value in enumerate(times(emit, [column[i] for column in columns])):
            rounded = value if narrow.nbytes == 8 else builder.fptrunc(value, narrow.type)
            narrow.store(rounded, emit.move(u, emit.mul(plane, kinds * i + j)), 0)


def _g_of_4(emit: Vectors | _Arithmetic, g: Sequence[Any]) -> list[Any]:
    outer, middle = emit.add(emit.times(g[0], 1 / 6), emit.times(g[2], 1 / 6)), emit.times(g[1], 1 / 6)
    far, half = emit.add(emit.times(g[0], 1 / 24), emit.times(g[2], 1 / 6)), emit.times(g[1], 1 / 12)
    return [
        emit.times(g[0], 1 / 4),
        emit.times(emit.add(outer, middle), -1.0),
        emit.sub(middle, outer),
        emit.add(far, half),
        emit.sub(far, half),
        g[2],
    ]


def _g_of_2(emit: Vectors | _Arithmetic, g: Sequence[Any]) -> list[Any]:
    outer, middle = emit.times(emit.add(g[0], g[2]), 1 / 2), emit.times(g[1], 1 / 2)
    return [g[0], emit.add(outer, middle), emit.sub(outer, middle), g[2]]


def _g_of_five(emit: Vectors | _Arithmetic, g: Sequence[Any]) -> list[Any]:
    """Return G g for five taps, at the points of `_g_of_4`."""
    outer, middle = emit.times(emit.add(g[0], emit.add(g[2], g[4])), -1 / 6), emit.times(emit.add(g[1], g[3]), 1 / 6)
    far = emit.add(emit.times(g[4], 2 / 3), emit.add(emit.times(g[0], 1 / 24), emit.times(g[2], 1 / 6)))
    half = emit.add(emit.times(g[3], 1 / 3), emit.times(g[1], 1 / 12))
    return [
        emit.times(g[0], 1 / 4),
        emit.sub(outer, middle),
        emit.add(outer, middle),
        emit.add(far, half),
        emit.sub(far, half),
        g[4],
    ]


def _g_of_strides(emit: Vectors | _Arithmetic, g: Sequence[Any]) -> list[Any]:
    return [g[0], emit.add(g[0], g[2]), g[2], g[1]]


_G = {(4, 3, 1): _g_of_4, (2, 3, 1): _g_of_2, (2, 5, 1): _g_of_five, (2, 3, 2): _g_of_strides}
"""G g, by edge, taps and stride."""


class WinogradForm(NamedTuple):
    """The compile-time sizes of F(edge, taps) with a stride, along `axes` axes, and the register tile of its products."""

    edge: StaticInt
    taps: StaticInt
    stride: StaticInt
    axes: StaticInt
    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    shares: StaticInt
    """See `microkernel.panel`."""


class WinogradBlocks(NamedTuple):
    """Sizes of blocks: the tiles and outputs that are taken together, and the elements of scratch that a part needs for them.

    `tiles` is the usual number, a multiple of `step_of`: see `block_of`.
    """

    tiles: int
    columns: int
    size: int
    """See `scratch_size`."""


class TileRun(NamedTuple):
    """Tiles `first` to `first + tiles` of images that have down x across of them."""

    first: int
    tiles: int
    down: int
    across: int


def scratch_size(edge: int, taps: int, stride: int, axes: int, tiles: int, channels: int, columns: int) -> int:
    """Return the elements that one part needs: both transforms of a block of one group, and a patch for tiles at the border."""
    most = tiles + tiles // 2
    return planes_of(edge, taps, stride, axes) * (most * (channels + GAP) + most * (columns + GAP) + channels + 2 * GAP)


@native
def step_of(rows: int) -> int:
    """Return the number of tiles of whose multiples parts and blocks begin, so that results do not depend on where they do.

    Every product of four or more rows is one chain of sums, and those of one and two rows are the last of all images (see `panel`).
    """
    return 4 if rows % 4 == 0 else rows


@native
def block_of(tiles: int, usual: int, rows: int) -> int:
    """Return the size of the blocks of so many tiles: about as large, because each reads all filters, and whole register tiles.

    It is a multiple of `step_of(rows)`, and at most one and a half times `usual`, which is one too.
    """
    step = step_of(rows)
    steps, about, whole = (tiles + step - 1) // step, usual // step, rows // step
    count = max((steps + about // 2) // about, 1)
    alike = max((steps + count - 1) // count, 1)
    rounded = (alike + whole - 1) // whole * whole
    return (rounded if count > 1 and steps - (count - 1) * rounded >= whole else alike) * step


@native
def share_of(tiles: int, sets: int, planes: int, filters: int, rows: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """Return this part's first and last tile, first and last set of columns; a set reads `filters` for each channel.

    Parts that share the tiles read the filters again, those that share the columns transform the tiles again: twice the time a number.
    """
    step = step_of(rows)
    top, bottom, left, right = grid((tiles + step - 1) // step, sets, 2 * planes * step, filters, part, parts)
    return top * step, min(bottom * step, tiles), left, right


def shares_for(block: int, tile: Tile) -> int:
    """Return the number of shares in which tiles ask for the next filters: about that of a block's tiles, 2 or 4."""
    return 4 if block >= 4 * tile.rows else 2


@native
@extents(
    x="g.n * g.ih * g.iw * g.c",
    u="g.groups * (form.edge + form.taps - 1) * (1 + (form.axes - 1) * (form.edge + form.taps - 2)) * g.channels"
    " * form.vectors * form.lanes * (g.outputs // blocks.columns * ceildiv(blocks.columns, form.vectors * form.lanes)"
    " + ceildiv(g.outputs % blocks.columns, form.vectors * form.lanes))",
    bias="g.o",
    residual="walk(0, g.n * g.oh * g.ow, place.ldy, g.o, 1)",
    y="walk(place.at, g.n * g.oh * g.ow, place.ldy, g.o, 1)",
    scratch="(parts - 1) * blocks.size"
    " + ((blocks.tiles + blocks.tiles // 2) * (g.channels + GAP + blocks.columns + GAP) + g.channels + 2 * GAP)"
    " * ((form.edge - 1) * form.stride + form.taps) * (1 + (form.axes - 1) * ((form.edge - 1) * form.stride + form.taps - 1))",
)
def winograd(
    x: Ptr,
    u: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ImageShape,
    place: ResultPlace,
    blocks: WinogradBlocks,
    act: ActivationParameters,
    kind: Static,
    form: WinogradForm,
    part: int,
    parts: int,
) -> int:
    """y[place.at:] (n, oh, ow, o) = kind(clip(conv(x (n, ih, iw, c), w) + bias (o,) + residual, low, high)), u from `filter_panels`.

    The kernel is taps x taps with both strides `form.stride` and dilations of 1; along one axis, 1 x taps with strides of 1. The
    channels, outputs and `blocks.columns` of a group, and the outputs left behind the last columns, are a vector at least. Parts
    share tiles, and columns of all groups; each has blocks of its own. Spec: ONNX Conv-22.
    """
    columns = blocks.columns
    width, seen, kinds = form.vectors * form.lanes, input_extent(form.edge, form.taps, form.stride), form.edge + form.taps - 1
    planes, depth, outputs = seen * downwards(seen, form.axes), g.channels, g.outputs
    each, sets = (columns + width - 1) // width * width, (outputs + columns - 1) // columns
    kinds = kinds * downwards(kinds, form.axes)
    filters_of_group = kinds * depth * (outputs // columns * each + (outputs % columns + width - 1) // width * width)
    height = downwards(form.edge, form.axes)
    down, across = (g.oh + height - 1) // height, (g.ow + form.edge - 1) // form.edge
    tiles = g.n * down * across
    first, last, left, right = share_of(tiles, g.groups * sets, planes, kinds * each, form.rows, part, parts)
    block = block_of(last - first, blocks.tiles, form.rows)
    v = shift(scratch, part * blocks.size)
    m = shift(v, planes * (block * (depth + GAP) + GAP))
    line, far, near = columns + GAP, block * (depth + GAP) + GAP, block * (columns + GAP) + GAP
    patch = shift(m, planes * near)
    mode = mode_of(True, True, bias, residual, act.low, act.high)
    for start in range(first, last, block):
        run = TileRun(start, min(block, last - start), down, across)
        for i in range(left, right):
            group, j = i // sets, i % sets * columns
            if i == left or j == 0:
                _transform_inputs(shift(x, group * depth), v, patch, run, g, far, form)
            some, plane = min(columns, outputs - j), near
            filters = shift(u, group * filters_of_group + kinds * (j // columns) * each * depth)
            _multiply(v, filters, m, run.tiles, some, depth, far, plane, line, form)
            own = group * outputs + j
            end = TileEpilogue(mode, shift(bias, own), shift(residual, own), act.low, act.high)
            _transform_outputs(m, shift(y, place.at + own), end, run, some, g, place.ldy, line, plane, act, kind, form)
    return OK


@native(inline=False)
def _multiply(
    v: Ptr, u: Ptr, m: Ptr, count: int, some: int, depth: int, plane: int, result: int, line: int, form: WinogradForm
) -> None:
    """m (planes, count, some) = v (planes, count, depth) times u (kinds, some, depth): planes of v lie `plane` apart, of m `result`.

    The last of the kinds of a direction meets all of the numbers that are left.
    """
    width, seen, kinds = form.vectors * form.lanes, input_extent(form.edge, form.taps, form.stride), form.edge + form.taps - 1
    tall, lines = downwards(seen, form.axes), downwards(kinds, form.axes)
    for number in range(lines * kinds):
        top, first = number // kinds, number % kinds
        for p in range(0, some, width):
            f, u = u, shift(u, depth * width)
            end = TileEpilogue(0, f, f, 0.0, 0.0)
            for i in range(top, tall if top == lines - 1 else top + 1):
                for j in range(first, seen if first == kinds - 1 else first + 1):
                    left = LeftOperand(shift(v, (i * seen + j) * plane), depth + GAP, 0, 1)
                    y, rest = shift(m, (i * seen + j) * result + p), some - p
                    panel(left, f, u, y, line, count, rest, depth, end, form.rows, form.vectors, form.lanes, form.shares)


@native(inline=False)
def _transform_inputs(x: Ptr, v: Ptr, patch: Ptr, run: TileRun, g: ImageShape, plane: int, form: WinogradForm) -> None:
    """v (planes, run.tiles, channels) = B' d B of a group's tiles; those at the border by way of a copy with zeros."""
    channels, seen, step = g.channels, input_extent(form.edge, form.taps, form.stride), form.edge * form.stride
    tall = downwards(seen, form.axes)
    for tile in range(run.tiles):
        number = run.first + tile
        batch = number // (run.down * run.across)
        h, w = number // run.across % run.down * downwards(step, form.axes) - g.ph, number % run.across * step - g.pw
        target = shift(v, tile * (channels + GAP))
        start = ((batch * g.ih + h) * g.iw + w) * g.c
        if h >= 0 and w >= 0 and h + tall <= g.ih and w + seen <= g.iw:
            _input_tile(shift(x, start), g.iw * g.c, g.c, target, plane, channels, form)
        else:
            for i in range(tall):
                for j in range(seen):
                    at = (i * seen + j) * channels
                    if h + i < 0 or h + i >= g.ih or w + j < 0 or w + j >= g.iw:
                        for k in range(channels):
                            patch[at + k] = like(patch, 0)
                    else:
                        copy_run(shift(patch, at), shift(x, start + (i * g.iw + j) * g.c), channels, form.lanes)
            _input_tile(patch, seen * channels, channels, target, plane, channels, form)


@emitter("void(*F,i64,i64,*F,i64,i64,static,static,static,static,static,static,static,static)")
def _input_tile(builder: Any, x: Any, line: Any, pixel: Any, v: Any, plane: Any, c: Any, form: WinogradForm) -> None:
    """v[seen * i + j] = (B' d B)[i, j] for d[i, j] = x[i * line + j * pixel], for every channel.

    Row by row of B', or two that share their sums: more of it at once than the registers hold would go to the stack and back.
    The last vector ends with the channels: some of them are computed twice.
    """
    emit, seen = Vectors(builder, x.type.pointee, form.lanes), input_extent(form.edge, form.taps, form.stride)

    def body(start: Any, _: Any) -> list[Any]:
        at = _within(emit, start, c)
        first, target = emit.move(x, at), emit.move(v, at)
        if form.axes == 1:
            for taken, times in _B[seen]:
                for j, value in times(emit, {j: emit.load(emit.move(first, emit.mul(pixel, j)), 0) for j in taken}).items():
                    emit.store(value, emit.move(target, emit.mul(plane, j)), 0)
            return []
        for taken, times in _B[seen]:
            columns, source = [], first
            for _ in range(seen):
                columns.append(times(emit, {i: emit.load(emit.move(source, emit.mul(line, i)), 0) for i in taken}))
                source = emit.after(emit.move(source, pixel), list(columns[-1].values())[-1])
            for i in columns[0]:
                for _taken, again in _B[seen]:
                    for j, value in again(emit, dict(enumerate(column[i] for column in columns))).items():
                        emit.store(value, emit.move(target, emit.mul(plane, j)), 0)
                target = emit.opaque(emit.move(target, emit.mul(plane, seen)))
        return []

    emit.loop(emit.integer(0), builder.add(c, emit.integer(form.lanes - 1)), form.lanes, [], body)


def _within(emit: Vectors, at: Any, count: Any) -> Any:
    """Return `at`, or the start of the last whole vector of `count` elements."""
    last = emit.builder.sub(count, emit.integer(emit.lanes))
    return emit.builder.select(emit.builder.icmp_signed("<", last, at), last, at)


def _b_first(emit: Vectors, d: Mapping[int, Any]) -> dict[int, Any]:
    return {0: emit.fma(d[2], emit.constant(-5.0), emit.fma(d[0], emit.constant(4.0), d[4]))}


def _b_sums(emit: Vectors, d: Mapping[int, Any]) -> dict[int, Any]:
    even, odd = emit.fma(d[2], emit.constant(-4.0), d[4]), emit.fma(d[1], emit.constant(-4.0), d[3])
    return {1: emit.add(even, odd), 2: emit.sub(even, odd)}


def _b_differences(emit: Vectors, d: Mapping[int, Any]) -> dict[int, Any]:
    far, near = emit.sub(d[3], d[1]), emit.sub(d[4], d[2])
    return {3: emit.fma(far, emit.constant(2.0), near), 4: emit.fma(far, emit.constant(-2.0), near)}


def _b_last(emit: Vectors, d: Mapping[int, Any]) -> dict[int, Any]:
    return {5: emit.fma(d[3], emit.constant(-5.0), emit.fma(d[1], emit.constant(4.0), d[5]))}


_Step = tuple[tuple[int, ...], Callable[[Vectors, Mapping[int, Any]], dict[int, Any]]]
_B: dict[int, tuple[_Step, ...]] = {
    6: (((0, 2, 4), _b_first), ((1, 2, 3, 4), _b_sums), ((1, 2, 3, 4), _b_differences), ((1, 3, 5), _b_last)),
    4: (
        ((0, 2), lambda emit, d: {0: emit.sub(d[0], d[2])}),
        ((1, 2), lambda emit, d: {1: emit.add(d[1], d[2]), 2: emit.sub(d[2], d[1])}),
        ((1, 3), lambda emit, d: {3: emit.sub(d[1], d[3])}),
    ),
    5: (
        ((0, 2), lambda emit, d: {0: emit.sub(d[0], d[2])}),
        ((2, 4), lambda emit, d: {1: d[2], 2: emit.sub(d[4], d[2])}),
        ((1,), lambda emit, d: {3: d[1]}),
        ((3,), lambda emit, d: {4: d[3]}),
    ),
}
"""B' d by elements, by what a tile sees: which of d some elements of the result are made of, and a function that makes them."""


@native(inline=False)
def _transform_outputs(
    m: Ptr,
    y: Ptr,
    end: TileEpilogue,
    run: TileRun,
    some: int,
    g: ImageShape,
    ldy: int,
    line: int,
    plane: int,
    act: ActivationParameters,
    kind: Static,
    form: WinogradForm,
) -> None:
    """y (n, oh, ow, some) = kind(end(A' m A)) for tiles of m (planes, run.tiles, some); pixels of y lie `ldy` apart."""
    row, height = g.ow * ldy, downwards(form.edge, form.axes)
    for tile in range(run.tiles):
        number = run.first + tile
        h, w = number // run.across % run.down * height, number % run.across * form.edge
        at = ((number // (run.down * run.across) * g.oh + h) * g.ow + w) * ldy
        lines, pixels = min(g.oh - h, height), min(g.ow - w, form.edge)
        own = further(end, 0, at)
        _output_tile(shift(m, tile * line), plane, shift(y, at), row, ldy, some, lines, pixels, own, form)
        if kind != "":
            for i in range(lines):
                activate(shift(y, at + i * row), ldy, pixels, some, act.alpha, act.beta, kind)


@emitter("void(*F,i64,*F,i64,i64,i64,i64,i64,i64,*F,*F,F,F,static,static,static,static,static,static,static,static)")
def _output_tile(
    builder: Any,
    m: Any,
    plane: Any,
    y: Any,
    line: Any,
    pixel: Any,
    c: Any,
    lines: Any,
    pixels: Any,
    end: Any,
    form: WinogradForm,
) -> None:
    """y[i * line + j * pixel] = (A' m A)[i, j] for i < lines, j < pixels, for every channel, vectors as in `_input_tile`."""
    mode, bias, residual, low, high = end
    edge, taps, stride, axes, lanes = form.edge, form.taps, form.stride, form.axes, form.lanes
    emit = Vectors(builder, m.type.pointee, lanes)
    seen, limits = input_extent(edge, taps, stride), (emit.splat(low), emit.splat(high))

    def inside(at: Any, count: Any) -> Any:
        return builder.icmp_signed("<", emit.integer(at), count)

    def body(start: Any, _: Any) -> list[Any]:
        at = _within(emit, start, c)
        if axes == 1:
            row: dict[int, Any] = {}
            for taken, times in _A[edge, taps, stride]:
                row |= times(emit, {j: emit.load(emit.move(m, builder.add(at, emit.mul(plane, j))), 0) for j in taken})
            finish(at, 0, [row[j] for j in range(edge)])
            return []
        for taken, times in _A[edge, taps, stride]:
            columns, source = [], emit.move(m, at)
            for _ in range(seen):
                columns.append(times(emit, {i: emit.load(emit.move(source, emit.mul(plane, seen * i)), 0) for i in taken}))
                source = emit.after(emit.move(source, plane), list(columns[-1].values())[-1])
            for i in columns[0]:
                given = dict(enumerate(column[i] for column in columns))
                row = dict(item for _taken, again in _A[edge, taps, stride] for item in again(emit, given).items())
                finish(at, i, [row[j] for j in range(edge)])
        return []

    def finish(at: Any, i: int, values: list[Any]) -> None:
        added = emit.when(emit.bit(mode, BIAS), values, lambda v: emit.add_all(v, [emit.load(emit.move(bias, at), 0)] * edge))
        for j, value in enumerate(added):
            with builder.if_then(builder.and_(inside(i, lines), inside(j, pixels))):
                position = builder.add(at, builder.add(emit.mul(line, i), emit.mul(pixel, j)))
                place, other = emit.move(y, position), emit.move(residual, position)

                def load(other: Any = other) -> list[Any]:
                    return [emit.load(other, 0)]

                emit.store(add_and_clip(emit, [value], mode, limits, load)[0], place, 0)

    emit.loop(emit.integer(0), builder.add(c, emit.integer(form.lanes - 1)), form.lanes, [], body)


def _a_even(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    near, far = emit.add(m[1], m[2]), emit.add(m[3], m[4])
    return {0: emit.add(emit.add(m[0], near), far), 2: emit.fma(far, emit.constant(4.0), near)}


def _a_odd(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    near, far = emit.sub(m[1], m[2]), emit.sub(m[3], m[4])
    return {1: emit.fma(far, emit.constant(2.0), near), 3: emit.add(emit.fma(far, emit.constant(8.0), near), m[5])}


def _a_of_2(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    return {0: emit.add(m[0], emit.add(m[1], m[2])), 1: emit.sub(emit.sub(m[1], m[2]), m[3])}


def _a_first(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    return {0: emit.add(emit.add(m[0], emit.add(m[1], m[2])), emit.add(m[3], m[4]))}


def _a_second(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    return {1: emit.add(emit.fma(emit.sub(m[3], m[4]), emit.constant(2.0), emit.sub(m[1], m[2])), m[5])}


def _a_of_strides(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    return {0: emit.add(emit.add(m[0], m[1]), m[3]), 1: emit.add(emit.add(m[1], m[2]), m[4])}


_A: dict[tuple[int, int, int], tuple[_Step, ...]] = {
    (4, 3, 1): (((0, 1, 2, 3, 4), _a_even), ((1, 2, 3, 4, 5), _a_odd)),
    (2, 3, 1): (((0, 1, 2, 3), _a_of_2),),
    (2, 5, 1): (((0, 1, 2, 3, 4), _a_first), ((1, 2, 3, 4, 5), _a_second)),
    (2, 3, 2): (((0, 1, 2, 3, 4), _a_of_strides),),
}
"""A' m, as _B, by edge, taps and stride."""
