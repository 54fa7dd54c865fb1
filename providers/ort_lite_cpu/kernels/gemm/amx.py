"""Products by tiles (AMX): registers of 16 rows of 64 bytes, of which an instruction multiplies two and adds to a third.

Four tiles hold the sums of 32 rows and 32 columns, two the left operand, two the right one, whose groups of k (four bytes, or two
bfloat16) are the rows of a tile.
The system allows a process to use tiles before the first kernel runs (see `native.x86`). A kernel configures them for the rows of its
blocks and releases them before it returns, so that a thread which is interrupted elsewhere has none to save. A signal that leaves the
kernel clears them.
Spec: Intel SDM, volume 1, chapter 18.
"""

from typing import Any

from ort_lite.native.lang import emitter
from ort_lite_cpu.kernels.gemm.integer_epilogue import SUMS, IntegerEpilogue
from ort_lite_cpu.kernels.gemm.vectors import Vectors

ROWS, DEPTH = 16, 64
"""The rows of a tile, and the bytes of a row."""
UPPER, LOWER, RIGHT = 4, 5, 6
"""The numbers of the tiles that hold rows 0 to 15 and 16 to 31 of the left operand, and the first of two of the right one.

Tiles 0 to 3 hold sums: tile 2 * i + j those of half i of the rows and half j of the columns."""
CONTINUED, KEPT = 1, 2
"""The bits of a panel's mode: its sums continue those that are kept, 128 bytes a row; they are kept, and no result is written."""
_NEEDS = "avx512f,avx512vnni,amx-tile,amx-int8|"


@emitter("void(i64,static)", needs=_NEEDS)
def configure_tiles(builder: Any, rows: Any, amx: bool) -> None:
    """Configure tiles for blocks of min(rows, 32) rows, if `amx`. O(400 cycles)."""
    if amx:
        emit = _Tiles(builder)
        most, least = emit.integer(ROWS), emit.integer(1)
        beyond = builder.sub(rows, most)
        low, high = builder.icmp_signed("<", rows, least), builder.icmp_signed(">", rows, most)
        upper = builder.select(high, most, builder.select(low, least, rows))
        lower = builder.select(builder.icmp_signed("<", beyond, least), least, beyond)
        emit.configure(upper, builder.select(builder.icmp_signed(">", lower, most), most, lower))


@emitter("void(static)", needs=_NEEDS)
def end_tiles(builder: Any, amx: bool) -> None:
    """Release the tiles, if `amx`."""
    if amx:
        _Tiles(builder).call("tilerelease")


class _Tiles:
    """Emits instructions on tiles, whose registers have fixed numbers."""

    def __init__(self, builder: Any) -> None:
        from llvmlite import ir

        self.ir, self.builder = ir, builder

    def integer(self, value: int) -> Any:
        """Return a 64-bit constant."""
        return self.ir.Constant(self.ir.IntType(64), value)

    def room(self, nbytes: int) -> Any:
        """Return a pointer to `nbytes` of the stack, at a multiple of 64."""
        byte = self.ir.IntType(8)
        with self.builder.goto_entry_block():
            made = self.builder.alloca(self.ir.ArrayType(byte, nbytes))
            made.align = 64
        return self.builder.bitcast(made, byte.as_pointer())

    def call(self, name: str, *arguments: Any) -> None:
        """Emit an instruction; a number among the arguments is that of a tile."""
        given = [self.ir.Constant(self.ir.IntType(8), x) if isinstance(x, int) else x for x in arguments]
        module, name = self.builder.module, f"llvm.x86.{name}"
        kind = self.ir.FunctionType(self.ir.VoidType(), [x.type for x in given])
        self.builder.call(module.globals.get(name) or self.ir.Function(module, kind, name), given)

    def configure(self, upper: Any, lower: Any) -> None:
        """Configure tiles for `upper` and `lower` rows, 1 to 16 each, of the halves of the left operand; all other tiles have 16."""
        builder, held = self.builder, self.room(64)
        rows = self.integer(ROWS << 48 | ROWS << 56)
        for tile, count in ((0, upper), (1, upper), (2, lower), (3, lower), (UPPER, upper), (LOWER, lower)):
            rows = builder.or_(rows, builder.shl(count, self.integer(8 * tile)))
        words = [self.integer(1), self.integer(0), *[self.integer(DEPTH * 0x0001000100010001)] * 2]
        words += [self.integer(0), self.integer(0), rows, self.integer(0)]
        place = builder.bitcast(held, self.ir.IntType(64).as_pointer())
        for k, word in enumerate(words):
            builder.store(word, builder.gep(place, [self.integer(k)]))
        self.call("ldtilecfg", held)


class TileBlock(_Tiles):
    """Emits the product of at most 32 rows and a panel of 32 columns, by the instruction `multiply`. Operands are bytes.

    Sums start from 0 if the panel has no `starts`.
    """

    def __init__(self, sums: Vectors, left: Any, right: Any, multiply: str) -> None:
        super().__init__(sums.builder)
        self.sums, self.left, self.right, self.multiply = sums, left, right, multiply
        self.buffer = self.room(4 * 32 * 32)
        if right.starts is not None:
            self.starts, self.partial = (self.builder.bitcast(x, self.buffer.type) for x in (right.starts, right.partial))
            self.continued = sums.bit(right.mode, CONTINUED)

    def shift(self, pointer: Any, nbytes: Any) -> Any:
        """Return the pointer, moved by bytes."""
        return self.builder.gep(pointer, [nbytes if not isinstance(nbytes, int) else self.integer(nbytes)])

    def compute(self, m: Any) -> None:
        """Leave the sums of m rows in tiles 0 to 3, or in 0 and 1 if m is at most 16."""
        builder = self.builder
        with builder.if_else(builder.icmp_signed(">", m, self.integer(ROWS))) as (both, one):
            with both:
                self._multiply(2)
            with one:
                self._multiply(1)

    def _multiply(self, halves: int) -> None:
        builder, row = self.builder, self.left.row
        for tile in range(2 * halves):
            if self.right.starts is None:
                self.call("tilezero", tile)
                continue
            under = self.shift(self.partial, 128 * ROWS * (tile // 2) + 64 * (tile % 2))
            start = builder.select(self.continued, under, self.shift(self.starts, 64 * (tile % 2)))
            self.call("tileloadd64", tile, start, builder.select(self.continued, self.integer(128), self.integer(0)))
        lower = builder.mul(row, self.integer(ROWS))

        def step(_: Any, values: Any) -> list[Any]:
            x, b = values
            self.call("tileloadd64", UPPER, x, row)
            if halves == 2:
                self.call("tileloadd64", LOWER, self.shift(x, lower), row)
            for j in range(2):
                self.call("tileloadd64", RIGHT + j, self.shift(b, 64 * j), self.integer(128))
            for i in range(halves):
                for j in range(2):
                    self.call(self.multiply, 2 * i + j, UPPER + i, RIGHT + j)
            return [self.shift(x, DEPTH), self.shift(b, 128 * ROWS)]

        def along(at: Any, values: Any) -> list[Any]:
            x = self.shift(self.left.at, builder.mul(at, self.left.line))
            return self.sums.loop(self.integer(0), self.right.depth, DEPTH // 4, [x, *values], step)[1][1:]

        self.sums.loop(self.integer(0), self.left.lines, 1, [self.right.b], along)

    def store_tiles(self, m: Any, target: Any, row: Any) -> None:
        """Write the sums of m rows to a target whose rows are `row` bytes apart."""
        builder = self.builder
        for tile in range(2):
            self.call("tilestored64", tile, self.shift(target, 64 * tile), row)
        with builder.if_then(builder.icmp_signed(">", m, self.integer(ROWS))):
            under = self.shift(target, builder.mul(row, self.integer(ROWS)))
            for tile in range(2):
                self.call("tilestored64", 2 + tile, self.shift(under, 64 * tile), row)

    def finish(self, m: Any, n: Any, c: Any, ldc: Any, end: IntegerEpilogue) -> None:
        """Write the result of m rows and n columns, whose rows are `ldc` elements apart."""
        builder = self.builder
        with builder.if_else(builder.icmp_signed(">=", n, self.integer(32))) as (inside, edge):
            with inside:
                if end.form == SUMS:
                    self.store_tiles(m, builder.bitcast(c, self.buffer.type), builder.mul(ldc, self.integer(4)))
                else:
                    self._through_buffer(m, c, ldc, end, True)
            with edge:
                self._through_buffer(m, c, ldc, end, False)

    def _through_buffer(self, m: Any, c: Any, ldc: Any, end: IntegerEpilogue, whole: bool) -> None:
        builder, kind = self.builder, self.sums.type
        self.store_tiles(m, self.buffer, self.integer(128))

        def row_of(_: Any, values: Any) -> list[Any]:
            source, target = values
            places = [builder.bitcast(self.shift(source, 64 * j), kind.as_pointer()) for j in range(2)]
            end.store([builder.load(place, align=64) for place in places], target, whole)
            return [self.shift(source, 128), builder.gep(target, [ldc])]

        self.sums.loop(self.integer(0), m, 1, [self.buffer, c], row_of)
