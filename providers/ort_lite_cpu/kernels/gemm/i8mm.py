"""Sums of products of bytes by AArch64's matrix instructions (i8mm): 2 x 8 by 8 x 2 bytes, added to 2 x 2 sums in a register.

Eight of k of two rows are one register of the left operand, those of two columns one of the right operand. The sums of two rows
are separated after the last step.
Spec: Arm Architecture Reference Manual, SMMLA and USMMLA (vector).
"""

from collections.abc import Sequence
from typing import Any

from ort_lite_cpu.kernels.gemm.integer import IntegerVectors
from ort_lite_cpu.kernels.gemm.microkernel import Rows

DEPTH = 8
"""The bytes of k that an instruction multiplies."""


class MatrixBlock:
    """Emits the sums of an even number of rows and a panel of `vectors` * 4 columns."""

    def __init__(self, emit: IntegerVectors, rows: int, vectors: int, signed: bool) -> None:
        ir = emit.ir
        self.emit, self.builder, self.rows, self.across = emit, emit.builder, rows, 2 * vectors
        self.bytes = ir.VectorType(ir.IntType(8), 2 * DEPTH)
        name = f"llvm.aarch64.neon.{'smmla' if signed else 'usmmla'}.v4i32.v16i8"
        self.multiply = emit._declare(name, emit.type, [emit.type, self.bytes, self.bytes])

    def sums(self, left: Any, right: Any, first: Sequence[Any]) -> list[Any]:
        """Return the vectors of sums row by row; each row starts from the vectors `first`."""
        emit, addresses = self.emit, Rows(self.emit, left.row, self.rows)
        count = len(addresses.leaps)

        def step(_: Any, values: Sequence[Any]) -> list[Any]:
            pointers, b = list(values[:count]), values[count]
            totals = self._step(addresses, pointers, b, values[count + 1 :])
            b = emit.after(b, totals[-1])
            moved = [emit.move(pointer, emit.integer(DEPTH)) for pointer in pointers]
            return [*moved, emit.move(b, emit.integer(2 * DEPTH * self.across)), *totals]

        def along(at: Any, values: Sequence[Any]) -> list[Any]:
            starts = addresses.starts(emit.move(left.at, self.builder.mul(at, left.line)))
            return emit.loop(emit.integer(0), right.depth, DEPTH // 4, [*starts, *values], step)[1][count:]

        starts = [
            self._shuffle(first[j // 2], first[j // 2], [0, 1, 0, 1] if j % 2 == 0 else [2, 3, 2, 3])
            for j in range(self.across)
        ]
        return self._separate(emit.loop(emit.integer(0), left.lines, 1, [right.b, *starts * (self.rows // 2)], along)[1][1:])

    def _step(self, addresses: Rows, pointers: list[Any], b: Any, totals: Sequence[Any]) -> list[Any]:
        """Return the sums after eight more of k. Later rows in `pointers` depend on them, so that they are read afterwards."""
        factors = [self._load(b, 2 * DEPTH * j, 2 * DEPTH) for j in range(self.across)]
        made: list[Any] = []
        for i in range(0, self.rows, 2):
            one, two = (self._load(addresses.at(pointers, row), 0, DEPTH) for row in (i, i + 1))
            x = self._shuffle(one, two, list(range(2 * DEPTH)))
            own = totals[i // 2 * self.across :]
            own = [self.builder.call(self.multiply, [z, x, y]) for y, z in zip(factors, own, strict=False)]
            addresses.next_after(pointers, i + 1, own)
            if (i + 3) % 3 == 0:
                addresses.next_after(pointers, i + 2, own)
            made += own
        return made

    def _separate(self, totals: Sequence[Any]) -> list[Any]:
        """Return sums of 2 x 2 as vectors of each row."""
        rows: list[Any] = []
        for i in range(0, len(totals), self.across):
            for order in ([0, 1, 4, 5], [2, 3, 6, 7]):
                rows += [self._shuffle(totals[j], totals[j + 1], order) for j in range(i, i + self.across, 2)]
        return rows

    def _load(self, pointer: Any, at: int, nbytes: int) -> Any:
        kind = self.emit.ir.VectorType(self.emit.ir.IntType(8), nbytes)
        place = self.emit.move(pointer, self.emit.integer(at))
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)

    def _shuffle(self, x: Any, y: Any, order: list[int]) -> Any:
        numbers = self.emit.ir.Constant(self.emit.ir.VectorType(self.emit.ir.IntType(32), len(order)), order)
        return self.builder.shuffle_vector(x, y, numbers)
