"""Predicted work of the kernels of a matrix product, in nanoseconds of one thread of the reference CPU (see `ort_lite_cpu.costs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import NOMINAL, RATE, Costs
from ort_lite_cpu.kernels.gemm.bfloat16_tile import Bfloat16Tile
from ort_lite_cpu.kernels.gemm.microkernel import Tile

READ, FAR = 0.045, 0.08
"""The nanoseconds in which an element of b is read, and those that a constant waits for memory.

A pass over a panel of b takes no less than reading it, for one row or two. A model has more constants than caches hold. What another
kernel has just written is in a cache.
"""
GATHERED, COLUMN_GATHERED, FILLED = 0.06, 0.6, 0.05
"""The nanoseconds in which an element of b goes into a panel: from a row of b, or from a column; and in which a panel is filled."""
SCATTERED = 0.3
"""The nanoseconds that an element waits for before it goes into a panel, if b has more than MANY elements."""
MANY = 1 << 20
"""The number of elements of b beyond which a panel is gathered from memory."""
ADDED, STEP = 0.083, 3.7
"""The nanoseconds in which a multiple of a row of b is added to a row of the result: each element, and at least."""
MULTIPLIED, SUMMED = 0.05, 2.5
"""The nanoseconds in which a row of a and a column of b are multiplied: each element, and their sum."""
COPIED = 0.15
"""The nanoseconds in which an element is copied to where a kernel reads it."""
BFLOAT16_RATES = (90, 400)
"""The products of bfloat16 in a nanosecond: in vector registers, and in tiles (AMX)."""
PAIRED = 0.1
"""The nanoseconds in which an element of b is packed as one of a pair."""
ALL = 1 << 30
"""More rows than a product has."""


class ProductNumbers(NamedTuple):
    """The sizes of `batch` products (rows, k) @ (k, n) as numbers, and their register tile.

    The rows are several numbers if they are open: a product is then predicted for each, and the work is their sum.
    """

    batch: int
    rows: tuple[int, ...]
    n: int
    k: int
    tile: Tile
    columns: bool
    """True if the elements of a column of b are adjacent, rather than those of a row."""
    constant: bool = False
    """True if b is a constant."""

    @property
    def panels(self) -> int:
        """The number of panels of b."""
        return -(-self.n // self.tile.columns)


def rows_of(rows: Dim) -> tuple[int, ...]:
    """Return the numbers of rows that a product is predicted for: generators of text have one at a time, after many at once."""
    return (rows,) if isinstance(rows, int) else (1, NOMINAL)


def work_of_tiles(p: ProductNumbers, share: float = 1.0) -> float:
    """Return the work of register tiles whose panels are packed: whole tiles of rows, and passes for the rest in powers of two.

    share: bytes of an element of the panels, as a share of those of the result.
    """
    tile = p.tile
    vectors = -(-(p.n - (p.panels - 1) * tile.columns) // tile.lanes) if tile.vectors > 2 else tile.vectors
    whole = ((p.panels - 1) * tile.vectors + vectors) * tile.lanes / RATE
    work = 0.0
    for rows in p.rows:
        tiles, rest = divmod(rows, tile.rows)
        passes = sum(max(READ * share, count / RATE) for count in (8, 4, 2, 1) if rest & count)
        work += tiles * tile.rows * whole + p.panels * tile.columns * passes
    return p.batch * p.k * work


def work_of_memory(p: ProductNumbers) -> float:
    """Return the nanoseconds for which a product waits for memory."""
    return p.batch * p.n * p.k * FAR if p.constant else 0.0


def work_of_gemm(p: ProductNumbers, half: bool) -> float:
    """Return the work of a product with a constant matrix, of float16 if `half`."""
    share = 0.5 if half else 1.0
    return work_of_tiles(p, share) + len(p.rows) * work_of_memory(p) * share


def work_of_packing(p: ProductNumbers, costs: Costs) -> float:
    """Return the work of packing b once."""
    each = costs.predict("pack-columns", COLUMN_GATHERED) if p.columns else costs.predict("pack-rows", GATHERED)
    far = SCATTERED if p.n * p.k > MANY else 0.0
    return p.batch * p.k * (p.n * (each + far) + p.panels * p.tile.columns * FILLED)


def work_of_panels(p: ProductNumbers, costs: Costs) -> float:
    """Return the work of a product whose panels are packed as they are used."""
    return work_of_tiles(p) + len(p.rows) * (work_of_packing(p, costs) + work_of_memory(p))


def work_of_row(p: ProductNumbers) -> float:
    """Return the work of one row of the result, by rows of b."""
    return p.batch * p.k * max(STEP, ADDED * p.n)


def work_of_dots(p: ProductNumbers) -> float:
    """Return the work of one row of the result, by columns of b."""
    return p.batch * p.n * (SUMMED + MULTIPLIED * p.k)


def work_in_place(p: ProductNumbers, row: Callable[[ProductNumbers], float]) -> float:
    """Return the work of a product that reads b for each row of the result, which takes the work `row`."""
    return sum(p.rows) * row(p) + len(p.rows) * work_of_memory(p)


def few_rows(p: ProductNumbers, costs: Costs) -> int:
    """Return the most rows for which reading b in place takes less time than packing it: ALL if each row does."""
    in_place = work_of_dots(p) if p.columns else work_of_row(p)
    more = in_place - work_of_tiles(p._replace(rows=(p.tile.rows,))) / p.tile.rows
    return int(work_of_packing(p, costs) / more) if more > 0 else ALL


def work_of_either(p: ProductNumbers, costs: Costs) -> float:
    """Return the work of a product that reads b in place for few rows, and packs it for more."""
    few, row = few_rows(p, costs), work_of_dots if p.columns else work_of_row
    parts = [p._replace(rows=(rows,)) for rows in p.rows]
    return sum(work_in_place(part, row) if part.rows[0] <= few else work_of_panels(part, costs) for part in parts)


def work_of_bfloat16(p: ProductNumbers, tile: Bfloat16Tile) -> float:
    """Return the work of a product of bfloat16 whose right operand is packed. Few rows take as long as reading it."""
    rate, columns = BFLOAT16_RATES[tile.amx], -(-p.n // tile.columns) * tile.columns
    passes = sum(max(READ / 2, -(-rows // tile.few) * tile.few / rate) for rows in p.rows)
    depth = -(-p.k // (2 * tile.pairs)) * 2 * tile.pairs
    return p.batch * columns * depth * passes + len(p.rows) * work_of_memory(p) / 2


def work_of_packed_pairs(p: ProductNumbers) -> float:
    """Return the work of packing b in the run as pairs of bfloat16."""
    return PAIRED * p.batch * p.n * p.k
