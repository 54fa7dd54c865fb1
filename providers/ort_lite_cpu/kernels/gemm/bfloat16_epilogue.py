"""Vectors of bfloat16 as LLVM IR, and the last steps of a product: earlier sums, a bias, and rounding."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ort_lite.native.lang import Ptr
from ort_lite_cpu.kernels.gemm.vectors import Vectors


class Bfloat16Ending(NamedTuple):
    """The last steps of a piece of the depth: add to earlier `sums` (rows, columns) if `add`, and give the result if `last`."""

    bias: Ptr
    sums: Ptr
    add: int
    last: int


class Bfloat16Dots(Vectors):
    """Sums in float32 of two products of bfloat16; pairs of bfloat16 move as one float32."""

    def __init__(self, builder: Any, lanes: int) -> None:
        from llvmlite import ir

        super().__init__(builder, ir.FloatType(), lanes)
        self.halves = ir.VectorType(_bfloat16(), 2 * lanes)

    def bytes(self, pointer: Any) -> Any:
        """Return a pointer as one to bytes."""
        return self.builder.bitcast(pointer, self.ir.IntType(8).as_pointer())

    def load(self, pointer: Any, at: int, mask: Any = None) -> Any:
        """Load a vector of pairs, which need no alignment."""
        return super().load(pointer, at, mask) if mask is not None else self.builder.load(self._pointer(pointer, at), align=1)

    def dot(self, x: Any, y: Any, z: Any) -> Any:
        """Return z[i] + x[2i] * y[2i] + x[2i + 1] * y[2i + 1]."""
        function = self._declare("llvm.x86.avx512bf16.dpbf16ps.512", self.type, [self.type, self.halves, self.halves])
        return self.builder.call(function, [z, self.builder.bitcast(x, self.halves), self.builder.bitcast(y, self.halves)])


class Bfloat16Epilogue:
    """Emits the last steps for vectors of sums: adding earlier ones and a bias, and rounding to nearest even if c is bfloat16."""

    def __init__(self, emit: Bfloat16Dots, end: Any, c: Any, ldc: Any, n: Any, vectors: int, biased: int) -> None:
        builder = emit.builder
        self.emit, self.end, self.c, self.ldc, self.builder = emit, end, c, ldc, builder
        self.narrow, self.width = isinstance(c.type.pointee, emit.ir.IntType), vectors * emit.lanes
        self.masks = emit.masks(n, vectors)
        self.whole = builder.icmp_signed(">=", n, emit.integer(self.width))
        self.last = builder.icmp_signed("!=", end.last, emit.integer(0))
        self.before = emit.splat_bit(builder.icmp_signed("!=", end.add, emit.integer(0)))
        self.bias = [emit.load(end.bias, j * emit.lanes, self.masks[j]) for j in range(vectors)] if biased else []

    def store_rows(self, m: Any, load: Callable[[Any, int], Any]) -> None:
        """Write the elements of m rows, whose vectors of sums `load` returns for the number of a row and of a vector."""

        def store(row: Any, _: Any) -> list[Any]:
            self.store([load(row, j) for j in range(len(self.masks))], row)
            return []

        self.emit.loop(self.emit.integer(0), m, 1, [], store)

    def store(self, totals: Sequence[Any], row: Any) -> None:
        """Write the elements of a row: to c for the last piece of the depth, else to the earlier sums."""
        emit, builder, lanes = self.emit, self.builder, self.emit.lanes
        held = emit.move(self.end.sums, emit.mul(row, self.width))
        totals = [emit.add(emit.load(held, j * lanes, self.before), total) for j, total in enumerate(totals)]
        with builder.if_else(self.last) as (result, piece):
            with result:
                target = emit.move(self.c, builder.mul(row, self.ldc))
                values = [self._finish(total, j) for j, total in enumerate(totals)]
                with builder.if_else(self.whole) as (inside, edge):
                    with inside:
                        for j, value in enumerate(values):
                            emit.store_as(value, emit.move(target, emit.integer(j * lanes)))
                    with edge:
                        for j, value in enumerate(values):
                            emit.store_as(value, emit.move(target, emit.integer(j * lanes)), self.masks[j])
            with piece:
                for j, total in enumerate(totals):
                    emit.store(total, held, j * lanes)

    def _finish(self, total: Any, j: int) -> Any:
        emit, ir = self.emit, self.emit.ir
        value = emit.add(total, self.bias[j]) if self.bias else total
        if not self.narrow:
            return value
        narrow = emit._declare("llvm.x86.avx512bf16.cvtneps2bf16.512", ir.VectorType(_bfloat16(), emit.lanes), [emit.type])
        return self.builder.bitcast(self.builder.call(narrow, [value]), ir.VectorType(ir.IntType(16), emit.lanes))


@cache
def _bfloat16() -> Any:
    """Return LLVM's type of bfloat16, for which llvmlite has no class."""
    from llvmlite import ir

    kind: Any = type("Bfloat16", (ir.Type,), {"_to_string": lambda _: "bfloat"})
    return kind()
