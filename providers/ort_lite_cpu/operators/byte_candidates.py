"""Candidates for products of bytes: the instructions that multiply them, with their predicted work."""

from __future__ import annotations

from typing import Final

from ort_lite.dtypes import DType
from ort_lite.record import Record
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import BYTE, nominal
from ort_lite_cpu.kernels.gemm import byte_tile
from ort_lite_cpu.kernels.gemm.byte_tile import DotTile
from ort_lite_cpu.kernels.gemm.integer import integer_tile
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.product_costs import rows_of

TILES, MATRICES, DOTS, PAIRS = 1500, 300, 25, 6.25
"""The products of bytes that are added up in a nanosecond: by AMX, by AArch64's i8mm, and for each 32-bit lane of a vector by dot
products and in pairs of 16 bits."""
READ = 0.033
"""The nanoseconds in which a byte of a packed operand comes from memory."""
BLOCK = 90.0
"""The nanoseconds in which a block of 32 rows and columns begins and ends, besides its products."""


class ByteProduct(Record, eq=False):
    """A product of bytes (rows, k) @ (k, n), for the candidates that may compute it. The rows are several numbers if they are open."""

    op: NodeLowering
    left: DType
    rows: tuple[int, ...]
    n: int
    k: int

    def work(self, height: int, width: int, deep: int, rate: float) -> float:
        """Return the work of whole blocks of `height` rows, `width` columns and `deep` bytes of k, and of reading b."""
        columns, depth = -(-self.n // width) * width, -(-self.k // deep) * deep
        return sum(-(-m // height) * height * columns * depth / rate + self.read(width, deep) for m in self.rows)

    def read(self, width: int, deep: int) -> float:
        """Return the work of reading b, in whole blocks of `width` columns and `deep` bytes of k."""
        return -(-self.n // width) * width * (-(-self.k // deep) * deep) * READ


def byte_product(op: NodeLowering, left: DType, rows: Dim, n: Dim, k: Dim) -> ByteProduct:
    """Return a product with its sizes as numbers."""
    return ByteProduct(op, left, rows_of(rows), nominal(n), nominal(k))


def choose_tile(case: ByteProduct) -> DotTile | None:
    """Return the tile of the cheapest instruction, and note it for `explain(kernels=True)`. None: pairs of 16 bits are multiplied."""
    tile: DotTile | None = choose(case.op, INSTRUCTIONS, case).emit(case)
    return tile


def _reject_amx(case: ByteProduct) -> str:
    return "" if case.op.target.has_tiles else "the CPU, or the system, has no tiles (AMX)"


def _work_of_amx(case: ByteProduct) -> float:
    blocks = sum(-(-m // 32) for m in case.rows if m > byte_tile.FEW) * -(-case.n // 32)
    return case.work(16, 32, 64, TILES) + blocks * BLOCK


def _reject_i8mm(case: ByteProduct) -> str:
    return "" if case.op.target.has("neon,dotprod,i8mm") else "the CPU has no matrix instructions for bytes (i8mm)"


def _reject_dots(case: ByteProduct) -> str:
    found = byte_tile.vector_tile(case.op.target)
    return "" if found is not None else "the CPU has no dot products of bytes (VNNI, dotprod)"


def _work_of_dots(case: ByteProduct) -> float:
    tile = byte_tile.vector_tile(case.op.target)
    assert tile is not None
    return case.work(tile.few, tile.columns, 4, DOTS * tile.lanes)


def _work_of_pairs(case: ByteProduct) -> float:
    tile = integer_tile(case.op.target)
    widened = sum(case.rows) * case.k * 3 * BYTE
    return case.work(1, tile.columns, 2, PAIRS * tile.lanes) + widened


INSTRUCTIONS: Final = (
    Candidate[ByteProduct]("amx", _reject_amx, _work_of_amx, lambda case: byte_tile.dot_tile(case.op.target, case.left)),
    Candidate[ByteProduct](
        "i8mm",
        _reject_i8mm,
        lambda case: case.work(2, 8, 8, MATRICES),
        lambda case: byte_tile.dot_tile(case.op.target, case.left),
    ),
    Candidate[ByteProduct]("dots", _reject_dots, _work_of_dots, lambda case: byte_tile.vector_tile(case.op.target)),
    Candidate[ByteProduct]("pairs", lambda case: "", _work_of_pairs, lambda case: None),
)
"""The instructions that multiply bytes, each with the tile that it fills."""
