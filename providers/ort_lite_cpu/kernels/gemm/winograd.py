"""Winograd F(4x4, 3x3): a 3x3 convolution with a quarter of the multiplications, channels last.

A tile of 4x4 outputs sees 6x6 inputs. Both sides are transformed to 36 numbers, in which the convolution is a product; over
channels and tiles these are 36 matrix products. Tiles are taken in blocks whose transforms stay in the cache. The error is
about 1e-5 of the largest magnitude. Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import aligned_empty
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitted, like, native, null, shift, span
from ort_lite_cpu.kernels.gemm.activation import activate
from ort_lite_cpu.kernels.gemm.convolution import copy_run
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, CLIP, RESIDUAL, Tile, panel
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.once import run_once

GAP = 16
"""Elements between the rows of a transform, so that its 36 planes do not fall on the same cache lines."""


def transformed_filters(weight: Array, columns: int, tile: Tile, target: Target) -> Array:
    """G g G' of (O, C, 3, 3), flat: for each `columns` outputs panels (36, some, C, tile.columns), in the order of their use.

    O(36 * size), in float64 before rounding.
    """
    outputs, channels = weight.shape[:2]
    whole, rest = divmod(outputs, columns)
    count = whole * -(-columns // tile.columns) + -(-rest // tile.columns)
    u = aligned_empty((36 * count * channels * tile.columns,), weight.dtype)
    sizes = {"outputs": outputs, "channels": channels, "columns": columns, "count": count}
    run_once(transform_filters, [np.ascontiguousarray(weight), u], target, **sizes, width=tile.columns, lanes=tile.lanes)
    return u


@native
@extents(w="outputs * channels * 9", u="36 * count * channels * width")
def transform_filters(
    w: Ptr, u: Ptr, outputs: int, channels: int, columns: int, width: int, count: int, lanes: Static, part: int, parts: int
) -> int:
    """As `transformed_filters`; parts share the `count` panels of a plane. `lanes` outputs at a time, the rest one by one."""
    each = (columns + width - 1) // width
    for panel_number in span(count, part, parts):
        block, local = panel_number // each, panel_number % each
        some = min(columns, outputs - block * columns)
        plane = (some + width - 1) // width * channels * width
        first, filled = block * columns + local * width, min(width, some - local * width)
        for c in range(channels):
            target = (36 * block * each + local) * channels * width + c * width
            source = shift(w, (first * channels + c) * 9)
            i = 0
            while i + lanes <= filled:
                _transform_filter(shift(source, i * channels * 9), channels * 9, shift(u, target + i), plane, lanes)
                i += lanes
            while i < filled:
                _transform_filter(shift(source, i * channels * 9), channels * 9, shift(u, target + i), plane, 1)
                i += 1
            for j in range(filled, width):
                for k in range(36):
                    u[target + k * plane + j] = like(u, 0)
    return OK


@emitted("void(*F,i64,*F,i64,static)")
def _transform_filter(builder: Any, g: Any, depth: Any, u: Any, plane: Any, lanes: int) -> None:
    """u[plane * k], k < 36, of `lanes` filters that lie `depth` apart.

    The planes of a model's usual sizes are a power of two apart and so fall on the same lines of the cache: whole lines are written.
    """
    narrow = Vectors(builder, u.type.pointee, lanes)
    emit = Vectors(builder, narrow.ir.DoubleType(), lanes)

    def taken(tap: int) -> Any:
        vector = narrow.zero
        for lane in range(lanes):
            place = emit.move(g, builder.add(emit.mul(depth, lane), emit.integer(tap)))
            vector = builder.insert_element(vector, builder.load(place), narrow.ir.Constant(narrow.ir.IntType(32), lane))
        return vector if narrow.nbytes == 8 else builder.fpext(vector, emit.type)

    columns = [_times_g(emit, [taken(3 * i + j) for i in range(3)]) for j in range(3)]
    for i in range(6):
        for j, value in enumerate(_times_g(emit, [column[i] for column in columns])):
            rounded = value if narrow.nbytes == 8 else builder.fptrunc(value, narrow.type)
            narrow.store(rounded, emit.move(u, emit.mul(plane, 6 * i + j)), 0)


def _times_g(emit: Vectors, g: Sequence[Any]) -> list[Any]:
    """G g."""
    outer, middle = emit.fma(g[0], emit.constant(1 / 6), emit.times(g[2], 1 / 6)), emit.times(g[1], 1 / 6)
    far, half = emit.fma(g[0], emit.constant(1 / 24), emit.times(g[2], 1 / 6)), emit.times(g[1], 1 / 12)
    return [
        emit.times(g[0], 1 / 4),
        emit.times(emit.add(outer, middle), -1.0),
        emit.sub(middle, outer),
        emit.add(far, half),
        emit.sub(far, half),
        g[2],
    ]


def scratch_size(tiles: int, channels: int, columns: int) -> int:
    """Elements that one part needs: both transforms of a block, and a patch for tiles at the border."""
    return 36 * (tiles * (channels + GAP) + tiles * (columns + GAP) + channels)


@native
@extents(
    x="n * ih * iw * c",
    u="36 * (o // columns * ceildiv(columns, vectors * lanes) + ceildiv(o % columns, vectors * lanes)) * c * vectors * lanes",
    bias="o",
    residual="n * oh * ow * o",
    y="n * oh * ow * o",
    scratch="(parts - 1) * size + 36 * (block * (c + GAP) + block * (columns + GAP) + c)",
)
def winograd(
    x: Ptr,
    u: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    c: int,
    id_: int,
    ih: int,
    iw: int,
    o: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    dd: int,
    dh: int,
    dw: int,
    block: int,
    columns: int,
    size: int,
    low: float,
    high: float,
    alpha: float,
    beta: float,
    kind: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """As `convolution.conv` for a 3x3 kernel, strides and dilations 1.

    c, o, `columns` and what is left of o behind the last of them are a vector at least. block: tiles, columns: output channels taken
    together, size: what `scratch_size` says of both. Parts share blocks and columns.
    """
    width = vectors * lanes
    each = (columns + width - 1) // width * width
    down, across = (oh + 3) // 4, (ow + 3) // 4
    tiles = n * down * across
    v = shift(scratch, part * size)
    m = shift(v, 36 * block * (c + GAP))
    lda, line = c + GAP, columns + GAP
    patch = shift(m, 36 * block * line)
    clips = low > -math.inf or high < math.inf
    mode = (0 if null(bias) else BIAS) + (0 if null(residual) else RESIDUAL) + (CLIP if clips else 0)
    top, bottom, left, right = grid((tiles + block - 1) // block, (o + columns - 1) // columns, 1, 0, part, parts)
    for number in range(top, bottom):
        first = number * block
        count = min(block, tiles - first)
        _transform_inputs(x, v, patch, first, count, down, across, c, ih, iw, ph, pw, block * (c + GAP), lanes)
        for j in range(left * columns, min(right * columns, o), columns):
            some = min(columns, o - j)
            filters = shift(u, 36 * (j // columns) * each * c)
            for plane in range(36):
                for p in range(0, some, width):
                    a, into = shift(v, plane * block * lda), shift(m, plane * block * line + p)
                    now, filters = filters, shift(filters, c * width)
                    panel(
                        a,
                        lda,
                        0,
                        1,
                        now,
                        filters,
                        into,
                        line,
                        count,
                        some - p,
                        c,
                        0,
                        bias,
                        bias,
                        0.0,
                        0.0,
                        rows,
                        vectors,
                        lanes,
                    )
            out, b, r, plane_size = shift(y, j), shift(bias, j), shift(residual, j), block * line
            _transform_outputs(
                m, out, b, r, first, count, down, across, some, o, oh, ow, line, plane_size, mode, low, high, alpha, beta,
                kind, lanes,
            )  # fmt: skip
    return OK


@native(inline=False)
def _transform_inputs(
    x: Ptr,
    v: Ptr,
    patch: Ptr,
    first: int,
    count: int,
    down: int,
    across: int,
    c: int,
    ih: int,
    iw: int,
    ph: int,
    pw: int,
    plane: int,
    lanes: Static,
) -> None:
    """v (36, count, c): tiles `first` and following, transformed; those at the border by way of a copy with zeros."""
    for tile in range(count):
        number = first + tile
        batch = number // (down * across)
        h, w = number // across % down * 4 - ph, number % across * 4 - pw
        target = shift(v, tile * (c + GAP))
        start = ((batch * ih + h) * iw + w) * c
        if h >= 0 and w >= 0 and h + 6 <= ih and w + 6 <= iw:
            _input_tile(shift(x, start), iw * c, c, target, plane, c, lanes)
        else:
            for i in range(6):
                for j in range(6):
                    at = (i * 6 + j) * c
                    if h + i < 0 or h + i >= ih or w + j < 0 or w + j >= iw:
                        for k in range(c):
                            patch[at + k] = like(patch, 0)
                    else:
                        copy_run(shift(patch, at), shift(x, start + (i * iw + j) * c), c, lanes)
            _input_tile(patch, 6 * c, c, target, plane, c, lanes)


@emitted("void(*F,i64,i64,*F,i64,i64,static)")
def _input_tile(builder: Any, x: Any, line: Any, pixel: Any, v: Any, plane: Any, c: Any, lanes: int) -> None:
    """v[6 i + j] = (B' d B)[i, j] for d[i, j] = x[i * line + j * pixel], for every channel.

    Row by row of B', or two that share their sums: more of it at once than the registers hold would go to the stack and back.
    The last vector ends with the channels: some of them are computed twice.
    """
    emit = Vectors(builder, x.type.pointee, lanes)

    def body(start: Any, _: Any) -> list[Any]:
        at = _within(emit, start, c)
        first, target = emit.move(x, at), emit.move(v, at)
        for taken, times in _B:
            columns, source = [], first
            for _ in range(6):
                columns.append(times(emit, {i: emit.load(emit.move(source, emit.mul(line, i)), 0) for i in taken}))
                source = emit.after(emit.move(source, pixel), list(columns[-1].values())[-1])
            for i in columns[0]:
                for _taken, again in _B:
                    for j, value in again(emit, dict(enumerate(column[i] for column in columns))).items():
                        emit.store(value, emit.move(target, emit.mul(plane, j)), 0)
                target = emit.opaque(emit.move(target, emit.mul(plane, 6)))
        return []

    emit.loop(emit.integer(0), builder.add(c, emit.integer(lanes - 1)), lanes, [], body)


def _within(emit: Vectors, at: Any, count: Any) -> Any:
    """`at`, or where the last whole vector of `count` elements begins."""
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


_B = (((0, 2, 4), _b_first), ((1, 2, 3, 4), _b_sums), ((1, 2, 3, 4), _b_differences), ((1, 3, 5), _b_last))
"""B' d by elements: which of d some elements of the result are made of, and a function that makes them."""


@native(inline=False)
def _transform_outputs(
    m: Ptr,
    y: Ptr,
    bias: Ptr,
    residual: Ptr,
    first: int,
    count: int,
    down: int,
    across: int,
    some: int,
    o: int,
    oh: int,
    ow: int,
    line: int,
    plane: int,
    mode: int,
    low: float,
    high: float,
    alpha: float,
    beta: float,
    kind: Static,
    lanes: Static,
) -> None:
    """`some` channels of y from m (36, count, some), tiles `first` and following; bias, residual, limits and activation."""
    for tile in range(count):
        number = first + tile
        h, w = number // across % down * 4, number % across * 4
        at = ((number // (down * across) * oh + h) * ow + w) * o
        lines, pixels = min(oh - h, 4), min(ow - w, 4)
        source, out, other = shift(m, tile * line), shift(y, at), shift(residual, at)
        _output_tile(source, plane, out, ow * o, o, some, lines, pixels, mode, bias, other, low, high, lanes)
        if kind != "":
            for i in range(lines):
                activate(shift(y, at + i * ow * o), o, pixels, some, alpha, beta, kind)


@emitted("void(*F,i64,*F,i64,i64,i64,i64,i64,i64,*F,*F,F,F,static)")
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
    mode: Any,
    bias: Any,
    residual: Any,
    low: Any,
    high: Any,
    lanes: int,
) -> None:
    """y[i * line + j * pixel] = (A' m A)[i, j] for i < lines, j < pixels, for every channel, vectors as in `_input_tile`."""
    emit = Vectors(builder, m.type.pointee, lanes)
    limits = emit.splat(low), emit.splat(high)

    def inside(at: Any, count: Any) -> Any:
        return builder.icmp_signed("<", emit.integer(at), count)

    def body(start: Any, _: Any) -> list[Any]:
        at = _within(emit, start, c)
        for taken, times in _A:
            columns, source = [], emit.move(m, at)
            for _ in range(6):
                columns.append(times(emit, {i: emit.load(emit.move(source, emit.mul(plane, 6 * i)), 0) for i in taken}))
                source = emit.after(emit.move(source, plane), list(columns[-1].values())[-1])
            for i in columns[0]:
                given = dict(enumerate(column[i] for column in columns))
                row = dict(item for _taken, again in _A for item in again(emit, given).items())
                finish(at, i, [row[j] for j in range(4)])
        return []

    def finish(at: Any, i: int, values: list[Any]) -> None:
        added = emit.when(emit.bit(mode, BIAS), values, lambda v: emit.add_all(v, [emit.load(emit.move(bias, at), 0)] * 4))
        for j, value in enumerate(added):
            with builder.if_then(builder.and_(inside(i, lines), inside(j, pixels))):
                position = builder.add(at, builder.add(emit.mul(line, i), emit.mul(pixel, j)))
                place, other = emit.move(y, position), emit.move(residual, position)
                final = emit.when(emit.bit(mode, RESIDUAL), [value], _plus(emit, other))
                final = emit.when(emit.bit(mode, CLIP), final, lambda v: [emit.clip(v[0], *limits)])
                emit.store(final[0], place, 0)

    emit.loop(emit.integer(0), builder.add(c, emit.integer(lanes - 1)), lanes, [], body)


def _plus(emit: Vectors, other: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [emit.add(values[0], emit.load(other, 0))]


def _a_even(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    near, far = emit.add(m[1], m[2]), emit.add(m[3], m[4])
    return {0: emit.add(emit.add(m[0], near), far), 2: emit.fma(far, emit.constant(4.0), near)}


def _a_odd(emit: Vectors, m: Mapping[int, Any]) -> dict[int, Any]:
    near, far = emit.sub(m[1], m[2]), emit.sub(m[3], m[4])
    return {1: emit.fma(far, emit.constant(2.0), near), 3: emit.add(emit.fma(far, emit.constant(8.0), near), m[5])}


_A = (((0, 1, 2, 3, 4), _a_even), ((1, 2, 3, 4, 5), _a_odd))
"""A' m, as _B."""
