"""The transposition of a square of elements in registers: what `primitives.swap` is made of."""

from typing import Any

from ort_lite.native.lang import emitted
from ort_lite_cpu.run.atomics import declared

SIZE, SIZE_OF_BYTES = 4, 16
"""Rows and columns of a square, and of one of bytes."""


def ask_for(builder: Any, pointer: Any, locality: int = 3) -> None:
    """Emits a prefetch of the cache line there, to be read soon; any address is allowed. Locality 3 is all cache levels."""
    from llvmlite import ir

    numbers = (ir.Constant(ir.IntType(32), number) for number in (0, locality, 1))
    declared(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, *numbers)


@emitted("void(*T)")
def prefetch(builder: Any, pointer: Any) -> None:
    """See `ask_for`."""
    ask_for(builder, pointer)


@emitted("void(*T)")
def prefetch_second(builder: Any, pointer: Any) -> None:
    """As `prefetch`, for more than the first cache level has room for."""
    ask_for(builder, pointer, 2)


@emitted("void(*T,i64,*T,i64,static)")
def transpose_square(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any, size: int) -> None:
    """y[j * y_step + i] = x[i * x_step + j] for i and j below `size`, a power of two.

    Interleaving the first half of the rows with the second moves the last bit of a row's number to the front of those of its elements:
    after as many rounds as a number has bits, the two are exchanged.
    """
    from llvmlite import ir

    element, word = x.type.pointee, ir.IntType(32)
    kind = ir.VectorType(element, size)
    nbytes = element.width // 8 if isinstance(element, ir.IntType) else 4 if isinstance(element, ir.FloatType) else 8

    def line(pointer: Any, step: Any, number: int) -> Any:
        moved = builder.gep(pointer, [builder.mul(step, ir.Constant(ir.IntType(64), number))])
        return builder.bitcast(moved, kind.as_pointer())

    def interleaved(a: Any, b: Any, first: int) -> Any:
        order = [number for k in range(first, first + size // 2) for number in (k, size + k)]
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, size), order))

    lines = [builder.load(line(x, x_step, number), align=nbytes) for number in range(size)]
    for _ in range(size.bit_length() - 1):
        halves = zip(lines[: size // 2], lines[size // 2 :], strict=True)
        lines = [interleaved(a, b, first) for a, b in halves for first in (0, size // 2)]
    for number, column in enumerate(lines):
        builder.store(column, line(y, y_step, number), align=nbytes)
