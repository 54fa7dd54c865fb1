"""Winograd F(4x4, 3x3) of bytes, exact: a 3x3 convolution with a quarter of the multiplications, each of 16 bits, channels last.

A tile of 4x4 outputs sees 6x6 inputs. Both sides are transformed to 36 numbers, the planes, in which the convolution is a product. With
the points 0, 1, -1, 2, -2 and infinity, and without the fractions of the usual transforms, all numbers are integers:

- An input of 0 to 255 becomes one of at most 17340, a weight of -128 to 127 one of at most 6272: both fit 16 bits.
- Their products are added up modulo 2 ** 32, which loses nothing that counts: the last transform gives 36 * 2 ** s times the output, s
  being 0 to 4. The output itself follows by the inverse of 9 modulo 2 ** 32 and a shift, if it is below 2 ** 25. `fits` says so for a
  weight, whatever the image.

So the sums are those of the definition, bit for bit. Pairs of 16 bits are multiplied at half the rate of fours of bytes, which leaves
half of the time. Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015; the integers are our own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, shift
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.byte_dots import DotPanel, as_sums, dot_panel, few_fill
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, DotTile
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape
from ort_lite_cpu.kernels.gemm.integer import IntegerVectors, beside
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, IntegerEpilogue, Rescaling
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand

EDGE, SEEN, PLANES = 4, 6, 36
"""The outputs of a tile along an axis, the inputs that it sees, and the numbers to which these are transformed."""
GAP = 64
"""Bytes between the transforms of tiles, so that these do not fall on the same cache lines."""
NEEDS = "avx512f,avx512bw|avx2"
"""The CPU features of vectors of 16 bits."""
_INVERSE = pow(9, -1, 1 << 32)
_SHIFTS = 2, 1, 0, 0
"""The powers of two in the four results of `_outputs`, besides 6."""


class TileBlocks(NamedTuple):
    """The most tiles that are transformed together, and the bytes of scratch that each part has for them."""

    tiles: int
    size: int


class TransformRun(NamedTuple):
    """Tiles `first` to `first + tiles` of images that have down x across of them, and the bytes of a transform."""

    first: int
    tiles: int
    down: int
    across: int
    row: int


def fits(weight: Array) -> bool:
    """Return True if no sum of bytes times (O, C, 3, 3) reaches 2 ** 25."""
    wide = weight.reshape(len(weight), -1).astype(np.int16, copy=False)
    sums, magnitudes = wide.sum(1, dtype=np.int32), np.abs(wide).sum(1, dtype=np.int32)
    most = int((magnitudes + np.abs(sums)).max()) // 2  # the sum of the positive or of the negative weights
    return 255 * most < 1 << 25


def filter_planes(weight: Array, tile: DotTile) -> Array:
    """Return G w G' of (O, C, 3, 3), int8, as (planes, ceil(O / columns), ceil(C / 2), columns, 4), zeros at the ends.

    Those are the bytes of two numbers of 16 bits, of neighbouring channels.
    """
    outputs, channels = weight.shape[:2]
    taps = np.ascontiguousarray(weight).reshape(-1, 9).T.astype(np.int16, order="C").reshape(3, 3, -1)
    planes = np.empty((SEEN, SEEN, taps.shape[-1]), np.int16)
    for i, row in enumerate(_filters(taps)):
        for j, numbers in enumerate(_filters(row)):
            planes[i, j] = numbers
    return beside(planes.reshape(PLANES, outputs, channels).swapaxes(1, 2), tile.columns, 2).view(np.int8)


def _filters(g: Array) -> list[Array]:
    """Return G g."""
    outer, far = g[0] + g[2], g[0] + 4 * g[2]
    return [6 * g[0], outer + g[1], outer - g[1], far + 2 * g[1], far - 2 * g[1], 6 * g[2]]


def transform_bytes(channels: int, tile: DotTile) -> int:
    """Return the bytes of the transform of a tile, whose planes are whole vectors."""
    return 2 * PLANES * (-(-channels // (2 * tile.lanes)) * 2 * tile.lanes) + GAP


def most_tiles(channels: int, tile: DotTile) -> int:
    """Return the most tiles of a block: those whose transforms a part of the second cache level holds, in whole register tiles.

    They are at least two register tiles, because each block reads all filters.
    """
    held = BLOCK // 4 // (transform_bytes(channels, tile) + 4 * PLANES * tile.columns) // tile.rows
    return max(held, 2) * tile.rows


def scratch_bytes(tiles: Dim, channels: int, tile: DotTile) -> Dim:
    """Return the bytes of scratch that a part needs: both transforms of some tiles, those of rows beyond them, and zeros."""
    return (tiles + tile.few) * transform_bytes(channels, tile) + 4 * (tiles * PLANES + 1) * tile.columns


@native
@extents(
    x="g.n * (4 * ceildiv(g.oh, 4) + 2) * (4 * ceildiv(g.ow, 4) + 2) * g.c + 2 * tile.lanes",
    w="PLANES * ceildiv(g.o, tile.vectors * tile.lanes) * ceildiv(g.c, 2) * tile.vectors * tile.lanes * 4",
    starts="ceildiv(g.o, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
    factors="(g.o if out.spread else 1) if out.form else 0",
    y="g.n * g.oh * g.ow * g.o",
    scratch="(parts - 1) * blocks.size"
    " + (blocks.tiles + tile.few) * (2 * PLANES * ceildiv(g.c, 2 * tile.lanes) * 2 * tile.lanes + GAP)"
    " + (blocks.tiles * PLANES + 1) * tile.vectors * tile.lanes * 4",
)
def integer_winograd(
    x: Ptr,
    w: Ptr,
    starts: Ptr,
    factors: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    blocks: TileBlocks,
    out: Rescaling,
    tile: DotTile,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, o) = out(conv(x, w) + starts (o,)), x from `pad_image` for whole tiles, w from `filter_planes`.

    The kernel is 3x3 with strides and dilations of 1, without groups. Parts share tiles and panels. Spec: ONNX ConvInteger-10.
    """
    width, wide, depth = tile.vectors * tile.lanes, 2 * tile.lanes, (g.c + 1) // 2
    row, across = 2 * PLANES * ((g.c + wide - 1) // wide * wide) + GAP, (g.o + width - 1) // width
    down, along = (g.oh + EDGE - 1) // EDGE, (g.ow + EDGE - 1) // EDGE
    tiles = g.n * down * along
    v = shift(scratch, part * blocks.size)
    zeros = as_sums(shift(v, (blocks.tiles + tile.few) * row))
    m = shift(zeros, width)
    for j in range(width):
        zeros[j] = like(zeros, 0)
    filters, step = PLANES * depth * width * 4, across * depth * width * 4
    top, bottom, left, right = grid((tiles + tile.rows - 1) // tile.rows, across, tile.rows * row, filters, part, parts)
    first, last = top * tile.rows, min(bottom * tile.rows, tiles)
    block = block_tiles(last - first, blocks.tiles, tile.few)
    while first < last:
        run = TransformRun(first, min(block, last - first), down, along, row)
        _transform_inputs(x, v, run, g.c, tile)
        for p in range(left, right):
            _multiply(v, shift(w, p * depth * width * 4), zeros, m, run, depth, step, factors, tile)
            end = Ending(shift(factors, p * width * out.spread), factors, out.spread, out.zero)
            _transform_outputs(m, shift(starts, p * width), end, shift(y, p * width), run, g, g.o - p * width, out.form, tile)
        first += block
    return OK


@native
def block_tiles(tiles: int, most: int, few: int) -> int:
    """Return the tiles of a block: at most `most`, as many in each block, and a multiple of `few` below that."""
    pieces = max((tiles + most - 1) // max(most, 1), 1)
    return min(((tiles + pieces - 1) // pieces + few - 1) // few * few, most)


@native(inline=False)
def _multiply(
    v: Ptr, w: Ptr, zeros: Ptr, m: Ptr, run: TransformRun, depth: int, step: int, factors: Ptr, tile: DotTile
) -> None:
    """m (run.tiles, planes, columns of a panel) = v times w, plane by plane; planes of w lie `step` bytes apart.

    The first register tiles of a plane ask for a half of the next filters each, which are read for the first time.
    """
    width, plane = tile.vectors * tile.lanes, (run.row - GAP) // PLANES
    end, share = Ending(factors, factors, 0, 0.0), depth * width // 2
    for k in range(PLANES):
        ahead = as_sums(shift(w, (k + 1) * step))
        i = 0
        while i < run.tiles:
            left = LeftOperand(shift(v, i * run.row + k * plane), run.row, 0, 1)
            right = DotPanel(shift(w, k * step), zeros, depth, zeros, 0, shift(ahead, share if i > 0 else 0))
            count = tile.rows if run.tiles - i >= tile.rows + tile.few else run.tiles - i
            if few_fill(count, tile):
                count = 2 * tile.few
            dot_panel(left, right, end, shift(m, (i * PLANES + k) * width), PLANES * width, count, width, 0, tile)
            i += count


@native(inline=False)
def _transform_inputs(x: Ptr, v: Ptr, run: TransformRun, channels: int, tile: DotTile) -> None:
    """v (run.tiles, planes, channels) = B' d B of the tiles of x (n, 4 * down + 2, 4 * across + 2, channels)."""
    h, w = EDGE * run.down + SEEN - EDGE, EDGE * run.across + SEEN - EDGE
    for i in range(run.tiles):
        number = run.first + i
        image, line = number // (run.down * run.across), number // run.across % run.down * EDGE
        source = shift(x, ((image * h + line) * w + number % run.across * EDGE) * channels)
        _input_tile(source, w * channels, channels, shift(v, i * run.row), (run.row - GAP) // PLANES, tile.lanes)


_Values = Mapping[int, Any]
_Step = tuple[Sequence[int], Callable[[Any, _Values], dict[int, Any]]]


@emitter("void(*u8,i64,i64,*u8,i64,static)", needs=NEEDS)
def _input_tile(builder: Any, x: Any, line: Any, channels: Any, v: Any, plane: Any, lanes: int) -> None:
    """v[6 * i + j] = (B' d B)[i, j], 16 bits, for d[i, j] = x[i * line + j * channels], for every channel, whole vectors at a time.

    The rows of B' are computed in two groups: more at once than the registers hold would go to the stack and back.
    """
    emit = IntegerVectors(builder, lanes)
    kind = emit.ir.VectorType(emit.ir.IntType(16), 2 * lanes)

    def body(at: Any, _: Any) -> list[Any]:
        for taken, times in _INPUTS:
            columns, source = [], emit.move(x, at)
            for _ in range(SEEN):
                d = {i: emit.load_as(emit.move(source, emit.mul(line, i)), kind, signed=False) for i in taken}
                columns.append(times(builder, d))
                source = emit.after(emit.move(source, channels), list(columns[-1].values())[-1])
            for i in columns[0]:
                row = dict(enumerate(column[i] for column in columns))
                for _taken, again in _INPUTS:
                    for j, value in again(builder, row).items():
                        emit.store_as(value, emit.move(v, builder.add(emit.mul(plane, SEEN * i + j), emit.mul(at, 2))))
        return []

    emit.loop(emit.integer(0), builder.add(channels, emit.integer(2 * lanes - 1)), 2 * lanes, [], body)


def _by(builder: Any, x: Any, power: int) -> Any:
    """Return a vector of integers times 2 ** power."""
    return builder.shl(x, x.type([x.type.element(power)] * x.type.count)) if power else x


def _inner(builder: Any, d: _Values) -> dict[int, Any]:
    even, odd = builder.sub(_by(builder, d[2], 2), d[4]), builder.sub(_by(builder, d[1], 2), d[3])
    near, far = builder.sub(d[4], d[2]), _by(builder, builder.sub(d[3], d[1]), 1)
    sums, differences = builder.add(even, odd), builder.sub(even, odd)
    return {1: sums, 2: differences, 3: builder.add(near, far), 4: builder.sub(near, far)}


def _outer(builder: Any, d: _Values) -> dict[int, Any]:
    first = builder.add(_by(builder, builder.sub(d[0], d[2]), 2), builder.sub(d[4], d[2]))
    return {0: first, 5: builder.add(_by(builder, builder.sub(d[1], d[3]), 2), builder.sub(d[5], d[3]))}


_INPUTS: tuple[_Step, ...] = ((range(1, 5), _inner), (range(SEEN), _outer))
"""B' d: the inputs that a function needs, and what it returns."""


@native(inline=False)
def _transform_outputs(
    m: Ptr,
    starts: Ptr,
    end: Ending,
    y: Ptr,
    run: TransformRun,
    g: ConvolutionShape,
    n: int,
    form: Static,
    tile: DotTile,
) -> None:
    """y (n, oh, ow, o) = end(A' m A + starts) at the pixels of the tiles and the n columns of a panel, or all that it has."""
    for i in range(run.tiles):
        number = run.first + i
        image, h = number // (run.down * run.across), number // run.across % run.down * EDGE
        w = number % run.across * EDGE
        target, source = shift(y, ((image * g.oh + h) * g.ow + w) * g.o), shift(m, i * PLANES * tile.vectors * tile.lanes)
        lines, pixels = min(g.oh - h, EDGE), min(g.ow - w, EDGE)
        _output_tile(source, starts, end, target, g.ow * g.o, g.o, n, lines, pixels, form, tile.vectors, tile.lanes)


@emitter("void(*i32,*i32,*f32,*f32,i64,f32,*T,i64,i64,i64,i64,i64,static,static,static)")
def _output_tile(
    builder: Any,
    m: Any,
    starts: Any,
    end: Any,
    y: Any,
    line: Any,
    pixel: Any,
    n: Any,
    lines: Any,
    pixels: Any,
    form: int,
    vectors: int,
    lanes: int,
) -> None:
    """y[i * line + j * pixel] = end((A' m A)[i, j] + starts) for i < lines, j < pixels, and the first n columns."""
    emit = IntegerVectors(builder, lanes)
    epilogue = IntegerEpilogue(emit, end, form, vectors, n)
    whole = builder.icmp_signed(">=", n, emit.integer(vectors * lanes))
    inverse = emit.type([emit.element(_INVERSE)] * lanes)

    def finish(i: int, j: int, total: Any, at: int) -> None:
        """Write vector `at` of pixel (i, j)."""
        inside = [builder.icmp_signed("<", emit.integer(k), count) for k, count in ((i, lines), (j, pixels))]
        with builder.if_then(builder.and_(*inside)):
            power = 2 + _SHIFTS[i] + _SHIFTS[j]
            exact = builder.ashr(builder.mul(total, inverse), emit.type([emit.element(power)] * lanes))
            value = epilogue.finish(builder.add(exact, emit.load(starts, at * lanes)), at)
            place = emit.move(y, builder.add(builder.add(emit.mul(line, i), emit.mul(pixel, j)), emit.integer(at * lanes)))
            with builder.if_else(whole) as (full, edge):
                with full:
                    epilogue.sums.store_as(value, place)
                with edge:
                    epilogue.sums.store_as(value, place, epilogue.masks[at])

    for at in range(vectors):
        columns, source = [], emit.move(m, emit.integer(at * lanes))
        for _ in range(SEEN):
            planes = [emit.load(source, SEEN * i * vectors * lanes) for i in range(SEEN)]
            columns.append(_outputs(builder, planes))
            source = emit.after(emit.move(source, emit.integer(vectors * lanes)), columns[-1][-1])
        for i in range(EDGE):
            for j, total in enumerate(_outputs(builder, [column[i] for column in columns])):
                finish(i, j, total, at)


def _outputs(builder: Any, m: Sequence[Any]) -> list[Any]:
    """Return A' m, times 24, 12, 6 and 6."""
    even, odd = builder.add(m[1], m[2]), builder.sub(m[1], m[2])
    sums, differences = builder.add(m[3], m[4]), builder.sub(m[3], m[4])
    return [
        builder.add(builder.add(m[0], _by(builder, even, 2)), sums),
        builder.add(_by(builder, odd, 1), differences),
        builder.add(even, sums),
        builder.add(builder.add(odd, _by(builder, differences, 1)), m[5]),
    ]
