"""Tiles of products of bytes: their shapes by target, and the right operand and the terms of its columns as they read them.

x86 multiplies unsigned bytes of the left operand by signed ones of the right, AArch64's dot products signed bytes, tiles (AMX) and
AArch64's matrix instructions (i8mm) either. A byte with its highest bit flipped is the value less, or plus, 128, and so is its zero
point; only their difference counts, so all four pairs of signednesses share the kernels.
"""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, StaticInt, like, native, null, shift, span
from ort_lite.shapes import ceildiv
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.integer import Unpacked, beside, scratch_size, zero_point

VECTOR_NEEDS = "avx512f,avx512vnni|avxvnni|neon,dotprod"
"""The CPU features of the instructions on vectors that `vector_tile` chooses among."""
BLOCK = 5 << 18
"""The most bytes in a block of rows that are copied: what the second cache level holds beside some panels."""
PARTIAL = 1 << 16
"""The bytes of sums that are kept between pieces of k, see `byte_dots.GROUP`."""
FEW = 4
"""The rows of the register tile for the last rows: enough for the latency of the instruction."""
PAIRS = 1 << 15
"""`DotTile.middle` where signed numbers of 16 bits are multiplied: two of them take the place of four bytes."""
TERMS = 3
"""The terms of each column: the sum of its packed values, an addend of the sums, its zero point."""


class DotTile(NamedTuple):
    """The shape of the tile, rows x (vectors * lanes). AArch64 has 4 lanes, x86 8 or 16."""

    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    middle: StaticInt
    """128 if the instruction multiplies signed bytes of the left operand, 0 if it multiplies unsigned ones; or `PAIRS`."""
    few: StaticInt
    """The rows of the tile for the last rows."""
    quads: StaticInt
    """The fours of k that an instruction multiplies, to a multiple of which operands are filled up: 16 for AMX, 2 for i8mm, else 1."""
    amx: StaticInt
    """1 if the tile is four tiles of AMX, 0 if it is vector registers."""

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes

    @property
    def run(self) -> int:
        """The bytes of k of a column that are beside each other in a panel."""
        return 4 if self.amx else 4 * self.quads

    def depth(self, k: Dim) -> Dim:
        """Return the fours of k, filled up."""
        return ceildiv(k, 4 * self.quads) * self.quads


def dot_tile(target: Target, left: str = "uint8") -> DotTile | None:
    """Return the tile of a machine for the type of the left operand, or None. All types share packed right operands."""
    middle = 128 if left == "int8" else 0
    if target.has_tiles:
        return DotTile(32, 2, 16, middle, 32, 16, 1)
    return DotTile(12, 2, 4, middle, FEW, 2, 0) if target.has("neon,dotprod,i8mm") else vector_tile(target)


def vector_tile(target: Target) -> DotTile | None:
    """Return the tile of an instruction that multiplies fours of k: as many accumulators as registers hold beside the operands.

    None if the machine has no such instruction.
    """
    if target.has_vnni:
        return DotTile(14, 2, 16, 0, FEW, 1, 0) if target.has("avx512f") else DotTile(6, 2, 8, 0, FEW, 1, 0)
    return DotTile(10, 2, 4, 128, FEW, 1, 0) if target.has("neon,dotprod") else None


def scratch_bytes(m: Dim, k: Dim, tile: DotTile) -> Dim:
    """Return the bytes of scratch that a part of a product needs."""
    return scratch_size(m, 4 * tile.depth(k) + 64 * tile.amx, tile.rows, BLOCK) + PARTIAL * tile.amx


def quads(b: Array, tile: DotTile) -> Array:
    """Return (..., K, N), of numbers that fit int8, as (..., ceil(N / columns), 4 * depth / run, columns, run), zeros at the ends."""
    return beside(b.astype(np.int8, copy=False), tile.columns, tile.run, 4 * tile.quads)


def column_terms(sums: Array, tile: DotTile, addends: Array | None = None, zeros: Array | None = None) -> Array:
    """Return (..., N) terms of columns as (..., TERMS, N up to a multiple of the columns), int32, with zeros at the ends."""
    n = sums.shape[-1]
    out = np.zeros((*sums.shape[:-1], TERMS, -(-n // tile.columns) * tile.columns), np.int32)
    for k, given in enumerate((sums, addends, zeros)):
        if given is not None:
            out[..., k, :n] = given
    return out


@native
@extents(
    w="walk(0, g.batch, g.step, min(g.k, g.inner), g.inner_step, ceildiv(g.k, g.inner), g.outer_step, g.n, g.column)",
    zero="walk(0, g.batch, g.zero_batch, g.n, g.zero_column)",
    out="g.batch * ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4 * tile.quads) * tile.quads * tile.vectors * tile.lanes * 4",
    terms="g.batch * TERMS * ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
)
def pack_quads(w: Ptr, zero: Ptr, out: Ptr, terms: Ptr, g: Unpacked, tile: DotTile, part: int, parts: int) -> int:
    """out = quads(w (batch, k, n) - 128) for uint8, quads(w) for int8; terms (batch, TERMS, n) are those of its columns."""
    width, depth = tile.vectors * tile.lanes, (g.k + 4 * tile.quads - 1) // (4 * tile.quads) * tile.quads
    across, run = (g.n + width - 1) // width, 4 if tile.amx else 4 * tile.quads
    for job in span(g.batch * across, part, parts):
        i, first = job // across, job % across * width
        count = min(width, g.n - first)
        panel = shift(out, job * depth * width * 4)
        for p in range(4 * depth):
            target = shift(panel, p // run * width * run + p % run)
            source = shift(w, i * g.step + p % g.inner * g.inner_step + p // g.inner * g.outer_step + first * g.column)
            _line(source, target, count, g.column, width, run, 128 - g.flip, p < g.k)
        own = shift(terms, i * TERMS * across * width + first)
        for j in range(width):
            total = 0
            for p in range(depth):
                for q in range(4):
                    total += int(panel[(4 * p // run * width + j) * run + 4 * p % run + q])
            at = i * g.zero_batch + min(first + j, g.n - 1) * g.zero_column
            away = g.flip if null(zero) else zero_point(zero, at, g.flip)
            own[j] = like(own, total)
            own[across * width + j] = like(own, 0)
            own[2 * across * width + j] = like(own, away - 128)
    return OK


@native
def _line(x: Ptr, out: Ptr, count: int, step: int, width: int, run: int, turn: int, inside: bool) -> None:
    """out[run * j] = x[j * step] for j < count if `inside`, its highest bit flipped if `turn` is 128, else 0; 0 up to `width`."""
    used = count if inside else 0
    if step == 1:
        for j in range(used):
            out[run * j] = like(out, x[j] ^ turn)
    else:
        for j in range(used):
            out[run * j] = like(out, x[j * step] ^ turn)
    for j in range(used, width):
        out[run * j] = like(out, 0)
