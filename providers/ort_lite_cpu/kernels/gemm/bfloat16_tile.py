"""Tiles of products of bfloat16: their shapes by target, and the right operand as they read it, pairs of k side by side."""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, StaticInt, like, native, shift, span
from ort_lite.shapes import ceildiv
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.integer import apart, beside

FEW = 4
"""The rows of the register tile for the last rows: enough for the latency of the instruction."""


class Bfloat16Tile(NamedTuple):
    """The shape of the tile, rows x (vectors * lanes)."""

    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    few: StaticInt
    """The rows of the tile for the last rows."""
    pairs: StaticInt
    """The multiple of pairs of k to which operands are filled up: 16 for AMX, whose tiles hold 32 of k."""
    amx: StaticInt
    """1 if the tile is four tiles of AMX, 0 if it is vector registers."""

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes

    def depth(self, k: Dim) -> Dim:
        """Return the pairs of k, filled up."""
        return ceildiv(k, 2 * self.pairs) * self.pairs

    def pitch(self, k: Dim) -> Dim:
        """Return the elements from one copied row of a left operand to the next: no power of two."""
        return 2 * (self.depth(k) + self.pairs)

    def packed_size(self, k: Dim, n: Dim) -> Dim:
        """Return the elements of a packed matrix (k, n)."""
        return ceildiv(n, self.columns) * self.depth(k) * self.columns * 2


def bfloat16_tile(target: Target) -> Bfloat16Tile | None:
    """Return the tile of a machine with such an instruction, None for others."""
    if target.has_bfloat16_tiles:
        return Bfloat16Tile(32, 2, 16, 32, 16, 1)
    return Bfloat16Tile(14, 2, 16, FEW, 1, 0) if target.has_bfloat16_products else None


def is_bfloat16(b: Array) -> bool:
    """Return True if all numbers of a float32 array are bfloat16 as well. O(size)."""
    return not np.any(b.view(np.uint32) & np.uint32(0xFFFF))


def pack_constant(b: Array, tile: Bfloat16Tile) -> Array:
    """Return (K, N), float32 that `is_bfloat16`, as bits (ceil(N / columns), depth, columns, 2), with zeros at the ends. O(size)."""
    halves = np.right_shift(b.view(np.uint32), 16).astype(np.uint16)
    return beside(halves, tile.columns, 2, 2 * tile.pairs)


def unpack_constant(packed: Array, k: int, n: int) -> Array:
    """Return the float32 (K, N) of which `pack_constant` made `packed`, bit for bit. O(size)."""
    return (apart(packed, k, n).astype(np.uint32) << 16).view(np.float32)


class StridedMatrices(NamedTuple):
    """Matrices (d0, d1, d2, k, n) in memory: the steps from one to the next, and from one of k and one of n to the next."""

    d0: int
    d1: int
    d2: int
    s0: int
    s1: int
    s2: int
    k: int
    n: int
    inner: int
    column: int


@native
@extents(
    w="walk(0, g.d0, g.s0, g.d1, g.s1, g.d2, g.s2, g.k, g.inner, g.n, g.column)",
    out="g.d0 * g.d1 * g.d2 * ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 2 * tile.pairs) * tile.pairs"
    " * tile.vectors * tile.lanes * 2",
)
def pack_bfloat16(w: Ptr, out: Ptr, g: StridedMatrices, tile: Bfloat16Tile, part: int, parts: int) -> int:
    """out = w (d0, d1, d2, k, n), each matrix as `pack_constant` packs it. Parts share panels."""
    width, depth = tile.vectors * tile.lanes, (g.k + 2 * tile.pairs - 1) // (2 * tile.pairs) * tile.pairs
    across = (g.n + width - 1) // width
    for job in span(g.d0 * g.d1 * g.d2 * across, part, parts):
        i, first = job // across, job % across * width
        count = min(width, g.n - first)
        source = shift(w, i // g.d2 // g.d1 * g.s0 + i // g.d2 % g.d1 * g.s1 + i % g.d2 * g.s2 + first * g.column)
        panel, whole = shift(out, job * depth * width * 2), g.k // 2
        if count < width or 2 * depth > g.k:
            for p in range(depth * width * 2):
                panel[p] = like(out, 0)
        if g.inner == 1:
            _pack_columns(source, panel, g.k, count, g.column, width)
        else:
            for p in range(whole):
                _pair(shift(source, 2 * p * g.inner), shift(panel, 2 * p * width), g.inner, count, g.column)
            if g.k % 2:
                for j in range(count):
                    panel[2 * (whole * width + j)] = source[2 * whole * g.inner + j * g.column]
    return OK


@native
def _pair(x: Ptr, out: Ptr, inner: int, count: int, column: int) -> None:
    """out (count, 2) = x (2, count), turned."""
    if column == 1:
        y = shift(x, inner)
        for j in range(count):
            out[2 * j] = x[j]
            out[2 * j + 1] = y[j]
    else:
        for j in range(count):
            out[2 * j] = x[j * column]
            out[2 * j + 1] = x[j * column + inner]


@native
def _pack_columns(x: Ptr, out: Ptr, k: int, count: int, column: int, width: int) -> None:
    """out (k / 2, width, 2) = the columns of x, whose elements are adjacent."""
    for j in range(count):
        for p in range(k // 2):
            out[2 * (p * width + j)] = x[j * column + 2 * p]
            out[2 * (p * width + j) + 1] = x[j * column + 2 * p + 1]
        if k % 2:
            out[2 * (k // 2 * width + j)] = x[j * column + k - 1]
