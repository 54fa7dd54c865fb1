"""The transposition of 4x4 elements in registers: what `primitives.swap` is made of."""

from typing import Any

from ort_lite.native.lang import emitted
from ort_lite_cpu.run.atomics import declared

SIZE = 4


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


@emitted("void(*T,i64,*T,i64)")
def transpose_square(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any) -> None:
    """y[j * y_step + i] = x[i * x_step + j] for i and j below SIZE."""
    from llvmlite import ir

    element, word = x.type.pointee, ir.IntType(32)
    kind = ir.VectorType(element, SIZE)
    nbytes = element.width // 8 if isinstance(element, ir.IntType) else 4 if isinstance(element, ir.FloatType) else 8

    def line(pointer: Any, step: Any, number: int) -> Any:
        moved = builder.gep(pointer, [builder.mul(step, ir.Constant(ir.IntType(64), number))])
        return builder.bitcast(moved, kind.as_pointer())

    def mixed(a: Any, b: Any, order: tuple[int, ...]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, SIZE), list(order)))

    a, b, c, d = (builder.load(line(x, x_step, number), align=nbytes) for number in range(SIZE))
    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    pairs = [(mixed(a, b, order), mixed(c, d, order)) for order in (low, high)]
    front, back = (0, 1, 4, 5), (2, 3, 6, 7)
    columns = [mixed(*pair, order) for pair in pairs for order in (front, back)]
    for number, column in enumerate(columns):
        builder.store(column, line(y, y_step, number), align=nbytes)
