"""The register tile of all matrix products: C = A @ B for a few rows and one panel of columns, as LLVM vector IR.

A is read in place, row by row; B is a packed panel: `columns` values of one row of B after the other. Bits of float16 are widened as
they are read. The sums stay in registers over the whole depth and leave them through the epilogue: earlier sums, bias, residual, clip.
Every element is one chain of fused multiply-adds in the order of k, so that results do not depend on which tile computed it, with one
exception: tiles of one or two rows use several chains, because one chain would leave the multipliers idle.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native.cpu import Target
from ort_lite.native.lang import Ptr, Static, StaticInt, emitter, native, null, shift
from ort_lite_cpu.kernels.gemm.vectors import Vectors

ACCUMULATE, BIAS, RESIDUAL, CLIP = 1, 2, 4, 8
"""Bits of a tile's mode: add to C; then, after the last piece of the depth, add a bias, add a residual, and clip."""

UNROLLED = 4
"""The k of one round of the inner loop."""
SHARES = 8
"""The number of tiles that together prefetch the next panel, each a share; otherwise the first tile that reads it waits for memory.

Callers with fewer tiles to a panel pass their own number to `panel`.
"""


class Tile(NamedTuple):
    """The shape of the register tile: rows x (vectors * lanes)."""

    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes

    @property
    def least_columns(self) -> int:
        """The least number of columns that are computed: `panel` has narrower tiles if there are three or more vectors."""
        return self.lanes if self.vectors > 2 else self.columns


def tile_for(native_type: str, target: Target) -> Tile:
    """Return the tile for elements of "f32" or "f64": one with few loads, whose sums and operands fit the registers.

    6 x 4 needs 10 loads for 24 products, 8 x 3 needs 11, and 12 x 2 needs 14; panels of 6 x 4 also divide the usual numbers of
    channels. A multiplication that is not fused needs a register for its result.
    """
    lanes = target.vector_bytes // (4 if native_type == "f32" else 8)
    if target.vector_registers == 32:
        return Tile(6, 4, lanes)
    return Tile(6, 2, lanes) if target.has_fma else Tile(3, 3, lanes)


def tall_tile(native_type: str, target: Target) -> Tile:
    """Return the tile for products that read their panels a few times, or have two vectors of columns: tall if registers allow it.

    A wide tile has fewer loads, but reads panels that do not fit the first cache level more often.
    """
    tile = tile_for(native_type, target)
    return Tile(12, 2, tile.lanes) if target.vector_registers == 32 else tile


class LeftOperand(NamedTuple):
    """A (m, lines, k): element (i, l, p) is at[i * row + l * line + p]. A matrix has one line, a convolution those of its kernel."""

    at: Ptr
    row: int
    line: int
    lines: int


class TileEpilogue(NamedTuple):
    """The last steps of a tile: `mode` has the bits above, bias (n,), residual with the layout of C, and the limits of the clip."""

    mode: int
    bias: Ptr
    residual: Ptr
    low: float
    high: float


@native
def from_row(left: LeftOperand, i: int) -> LeftOperand:
    """Return the left operand without its first i rows."""
    return LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines)


@emitter("*F(*F,*F)", "*u16(*A,*u16)")
def _cached(_: Any, b: Any, ahead: Any) -> Any:
    """Return b, which is in the cache, or the start of `ahead` if the types differ."""
    return b if b.type == ahead.type else ahead


@native
def further(end: TileEpilogue, columns: int, n: int) -> TileEpilogue:
    """Return the epilogue of elements that lie `n` elements further in C, and some columns further."""
    return TileEpilogue(end.mode, shift(end.bias, columns), shift(end.residual, n), end.low, end.high)


@native(inline=False)
def panel(
    left: LeftOperand,
    b: Ptr,
    ahead: Ptr,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    k: int,
    end: TileEpilogue,
    rows: Static,
    vectors: Static,
    lanes: Static,
    shares: Static = SHARES,
) -> None:
    """C (m, n) = end(left (m, lines, k) @ b (lines, k, vectors * lanes)), rows of C `ldc` apart; n may be less than b's columns.

    All tiles start at multiples of `rows`, so that results are bit-identical if a caller cuts C there. The rest of the rows are
    computed in powers of two. `ahead` is the next panel of the caller, which is prefetched meanwhile in `shares` parts; b if there is
    none, or if it is in the cache already.
    """
    i, asked, whole = 0, 0, left.lines * k * vectors * lanes
    while i + rows <= m:
        x, y, own = from_row(left, i), shift(c, i * ldc), further(end, 0, i * ldc)
        soon = shift(ahead, asked) if asked < whole else _cached(b, ahead)
        asked += (whole + shares - 1) // shares
        if vectors > 2 and n <= lanes:
            tile(x, b, soon, y, ldc, n, k, own, rows, 1, vectors, lanes, shares)
        elif vectors > 2 and n <= 2 * lanes:
            tile(x, b, soon, y, ldc, n, k, own, rows, 2, vectors, lanes, shares)
        elif vectors > 3 and n <= 3 * lanes:
            tile(x, b, soon, y, ldc, n, k, own, rows, 3, vectors, lanes, shares)
        else:
            tile(x, b, soon, y, ldc, n, k, own, rows, vectors, vectors, lanes, shares)
        i += rows
    if rows > 8 and m - i >= 8:
        x, y, own = from_row(left, i), shift(c, i * ldc), further(end, 0, i * ldc)
        tile(x, b, b, y, ldc, n, k, own, 8, vectors, vectors, lanes, shares)
        i += 8
    if rows > 4 and m - i >= 4:
        x, y, own = from_row(left, i), shift(c, i * ldc), further(end, 0, i * ldc)
        tile(x, b, b, y, ldc, n, k, own, 4, vectors, vectors, lanes, shares)
        i += 4
    if m - i >= 2:
        x, y, own = from_row(left, i), shift(c, i * ldc), further(end, 0, i * ldc)
        tile(x, b, b, y, ldc, n, k, own, 2, vectors, vectors, lanes, shares)
        i += 2
    if m - i >= 1:
        x, y, own = from_row(left, i), shift(c, i * ldc), further(end, 0, i * ldc)
        tile(x, b, b, y, ldc, n, k, own, 1, vectors, vectors, lanes, shares)


@native(inline=False)
def widen_panel(
    left: LeftOperand,
    b: Ptr,
    wide: Ptr,
    ahead: Ptr,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    k: int,
    end: TileEpilogue,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """C = end(left @ b) as of `panel`, for b of bits of float16 and m >= rows; wide (k, vectors * lanes) has the numbers afterwards.

    The first tile writes them for the others, while it multiplies.
    """
    _widening_tile(left, b, wide, ahead, c, ldc, n, k, end, rows, vectors, lanes)
    x, y, own, soon = from_row(left, rows), shift(c, rows * ldc), further(end, 0, rows * ldc), k * vectors * lanes // SHARES
    panel(x, wide, shift(ahead, soon), y, ldc, m - rows, n, k, own, rows, vectors, lanes)


@native
def clip_mode(low: float, high: float) -> int:
    """Return the mode of limits: CLIP, or 0 if both are infinite."""
    return CLIP if low > -math.inf or high < math.inf else 0


@native
def mode_of(first: bool, last: bool, bias: Ptr, residual: Ptr, low: float, high: float) -> int:
    """Return the mode of one piece of the depth."""
    mode = 0 if first else ACCUMULATE
    if last:
        mode += 0 if null(bias) else BIAS
        mode += 0 if null(residual) else RESIDUAL
        mode += clip_mode(low, high)
    return mode


@emitter("void(*F,i64,i64,i64,*A,*T,*F,i64,i64,i64,i64,*F,*F,F,F,static,static,static,static,static)")
def tile(
    builder: Any,
    left: Any,
    b: Any,
    ahead: Any,
    c: Any,
    ldc: Any,
    n: Any,
    k: Any,
    end: Any,
    rows: int,
    vectors: int,
    across: int,
    lanes: int,
    shares: int,
) -> None:
    """C (rows, min(n, vectors * lanes)) = end(left @ b), b a panel of `across` vectors."""
    emit = Vectors(builder, left.at.type.pointee, lanes)
    _finish(emit, _products(emit, left, [b], ahead, k, rows, vectors, across, shares), c, ldc, n, end)


@emitter("void(*F,i64,i64,i64,*u16,*F,*T,*F,i64,i64,i64,i64,*F,*F,F,F,static,static,static)")
def _widening_tile(
    builder: Any,
    left: Any,
    b: Any,
    wide: Any,
    ahead: Any,
    c: Any,
    ldc: Any,
    n: Any,
    k: Any,
    end: Any,
    rows: int,
    vectors: int,
    lanes: int,
) -> None:
    """C (rows, min(n, vectors * lanes)) = end(left @ b), and wide = b."""
    emit = Vectors(builder, left.at.type.pointee, lanes)
    _finish(emit, _products(emit, left, [b, wide], ahead, k, rows, vectors, vectors, SHARES), c, ldc, n, end)


def _finish(emit: Vectors, sums: Sequence[Sequence[Any]], c: Any, ldc: Any, n: Any, end: Any) -> None:
    """Write end(sums), vectors of each row, to the first n columns of C."""
    builder, (mode, bias, residual, low, high) = emit.builder, end
    rows, vectors, lanes = len(sums), len(sums[0]), emit.lanes
    outputs = [emit.move(c, emit.mul(ldc, i)) for i in range(rows)]
    residuals = [emit.move(residual, emit.mul(ldc, i)) for i in range(rows)]
    limits = emit.splat(low), emit.splat(high)

    def finish(j: int, mask: Any) -> None:
        at = j * lanes
        values = [row[j] for row in sums]

        def load_all(pointers: Sequence[Any]) -> list[Any]:
            return [emit.load(pointer, at, mask) for pointer in pointers]

        values = emit.when(emit.bit(mode, ACCUMULATE), values, lambda v: emit.add_all(v, load_all(outputs)))
        values = emit.when(emit.bit(mode, BIAS), values, lambda v: emit.add_all(v, load_all([bias]) * rows))
        values = add_and_clip(emit, values, mode, limits, lambda: load_all(residuals))
        for value, pointer in zip(values, outputs, strict=True):
            emit.store(value, pointer, at, mask)

    whole = builder.icmp_signed(">=", n, emit.integer(vectors * lanes))
    with builder.if_else(whole) as (inside, edge):
        with inside:
            for j in range(vectors):
                finish(j, None)
        with edge:
            for j in range(vectors):
                left = builder.sub(n, emit.integer(j * lanes))
                with builder.if_else(builder.icmp_signed(">=", left, emit.integer(lanes))) as (full, part):
                    with full:
                        finish(j, None)
                    with part, builder.if_then(builder.icmp_signed(">", left, emit.integer(0))):
                        finish(j, emit.mask(left))


def add_and_clip(
    emit: Vectors, values: list[Any], mode: Any, limits: Sequence[Any], load: Callable[[], list[Any]]
) -> list[Any]:
    """Return the values plus the residuals that `load` emits, clipped to the limits, each if the mode has its bit."""
    values = emit.when(emit.bit(mode, RESIDUAL), values, lambda v: emit.add_all(v, load()))
    return emit.when(emit.bit(mode, CLIP), values, lambda v: [emit.clip(x, *limits) for x in v])


def _products(
    emit: Vectors, left: Any, b: Sequence[Any], ahead: Any, k: Any, rows: int, vectors: int, across: int, shares: int
) -> list[list[Any]]:
    """Return sums[i][j], vector j of row i of A @ B. b is the panel, and perhaps a place where its numbers go."""
    count, width = rows * vectors, across * emit.lanes
    chains = min(max(8 // count, 1), UNROLLED) if rows <= 2 else 1  # columns of a narrow panel are summed up as all others
    addresses = Rows(emit, left.row, rows)
    asks = vectors == across and rows > 2  # one or two rows are the last ones: no panel comes next
    line = CACHE_LINE // (emit.nbytes if ahead.type.pointee == emit.element else 2)

    def along(number: Any, sums: Sequence[Any]) -> list[Any]:
        """Emit one line."""
        starts = addresses.starts(emit.move(left.at, emit.builder.mul(left.line, number)))
        before, fixed = emit.mul(emit.builder.mul(k, number), width), len(starts) + len(b)
        panel, share = [emit.move(at, before) for at in b], emit.move(ahead, emit.builder.sdiv(before, emit.integer(shares)))

        def step(unrolled: int, used: int, values: Sequence[Any]) -> list[Any]:
            """Emit `unrolled` k, which go round `used` chains."""
            pointers, (right, *wide), sums = list(values[: len(starts)]), values[len(starts) : fixed], list(values[fixed:])
            for u in range(unrolled):
                first = u % used * count
                factors = [emit.load_wide(right, (u * across + j) * emit.lanes) for j in range(vectors)]
                for target in wide:
                    for j, factor in enumerate(factors):
                        emit.store(factor, target, (u * across + j) * emit.lanes)
                for i in range(rows):
                    factor = emit.splat(emit.builder.load(emit.move(addresses.at(pointers, i), emit.integer(u))))
                    row = slice(first + i * vectors, first + (i + 1) * vectors)
                    sums[row] = [emit.fma(factor, *pair) for pair in zip(factors, sums[row], strict=True)]
                    addresses.next_after(pointers, i, sums[row])
                right = emit.after(right, sums[first + count - 1])
            moved = [emit.move(pointer, emit.integer(unrolled)) for pointer in pointers]
            return [*moved, *[emit.move(pointer, emit.integer(unrolled * width)) for pointer in (right, *wide)], *sums]

        def round_of(at: Any, values: Sequence[Any]) -> list[Any]:
            soon = emit.move(share, emit.builder.sdiv(emit.mul(at, width), emit.integer(shares)))
            for offset in range(0, UNROLLED * width // shares, line) if asks else ():
                emit.prefetch(emit.move(soon, emit.integer(offset)))
            return step(UNROLLED, chains, values)

        values = [*starts, *panel, *sums]
        at, values = emit.loop(emit.integer(0), k, UNROLLED, values, round_of)
        own = slice(0, fixed + count)
        values[own] = emit.loop(at, k, 1, values[own], lambda _, v: step(1, 1, v))[1]
        return values[fixed:]

    sums = emit.loop(emit.integer(0), left.lines, 1, [emit.zero] * (count * chains), along)[1]
    total = sums[:count]
    for chain in range(1, chains):
        total = emit.add_all(total, sums[chain * count : (chain + 1) * count])
    return [total[i * vectors : (i + 1) * vectors] for i in range(rows)]


class Rows:
    """The addresses of the rows of a left operand, and the order in which they are read.

    Every third row has a pointer of its own; the two after it are a register away, which is one address to the machine. Each row
    is read after the products of the row before: otherwise schedulers read ahead, some until no register is left.
    """

    def __init__(self, emit: Vectors, step: Any, rows: int) -> None:
        self.emit, self.rows = emit, rows
        self.steps = [emit.mul(step, i) for i in range(3)]
        self.leaps = [emit.mul(step, i) for i in range(0, rows, 3)]

    def starts(self, first: Any) -> list[Any]:
        """Return the pointers, for the address of row 0."""
        return [self.emit.opaque(self.emit.move(first, leap)) for leap in self.leaps]

    def at(self, pointers: Sequence[Any], row: int) -> Any:
        """Return the address of a row."""
        return self.emit.move(pointers[row // 3], self.steps[row % 3])

    def next_after(self, pointers: list[Any], row: int, values: Sequence[Any]) -> None:
        """Make the row after `row`, the first one after the last, depend on `values`."""
        following = (row + 1) % self.rows // 3
        pointers[following] = self.emit.after(pointers[following], *values)
