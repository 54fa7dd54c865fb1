"""The transposition of squares of elements in registers: what `primitives.swap` is made of."""

from collections.abc import Sequence
from typing import Any

from ort_lite.native.lang import Ptr, emitter, native, shift
from ort_lite_cpu.run.atomics import call_by_name

SIZE, MIDDLE, LARGE = 4, 8, 16
"""Rows of a square: of elements of four bytes, those that SSE or NEON, AVX and AVX-512 hold."""


def ask_for(builder: Any, pointer: Any, locality: int = 3) -> None:
    """Emit a prefetch of the cache line there, to be read soon; any address is allowed. Locality 3 is all cache levels."""
    from llvmlite import ir

    numbers = (ir.Constant(ir.IntType(32), number) for number in (0, locality, 1))
    call_by_name(builder, "llvm.prefetch.p0", ir.VoidType(), builder.bitcast(pointer, ir.IntType(8).as_pointer()), *numbers)


@emitter("void(*T)")
def prefetch(builder: Any, pointer: Any) -> None:
    """Ask for a cache line that is read soon: see `ask_for`."""
    ask_for(builder, pointer)


@emitter("void(*T)")
def prefetch_second(builder: Any, pointer: Any) -> None:
    """Ask for a cache line like `prefetch`, for more than the first cache level has room for."""
    ask_for(builder, pointer, 2)


@native
def prefetch_run(x: Ptr, count: int) -> None:
    """Ask for `count` adjacent elements like `prefetch_second`; any address is allowed."""
    for i in range(0, count, 16):
        prefetch_second(shift(x, i))


@emitter("void(*T,i64,*T,i64)")
def transpose_square(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any) -> None:
    """y[j * y_step + i] = x[i * x_step + j] for i and j below SIZE."""
    _square(builder, x, x_step, y, y_step, 1)


def _small() -> int:
    return SIZE


@emitter("i64()", needs="avx", otherwise=_small)
def best_size(builder: Any) -> Any:
    """Return LARGE if vectors hold more than SIZE elements of four bytes, else SIZE."""
    from llvmlite import ir

    return ir.IntType(64)(LARGE)


@native
def _by_small(x: Ptr, x_step: int, y: Ptr, y_step: int) -> None:
    for j in range(0, LARGE, SIZE):
        for i in range(0, LARGE, SIZE):
            transpose_square(shift(x, i * x_step + j), x_step, shift(y, j * y_step + i), y_step)


@emitter("void(*T,i64,*T,i64)", needs="avx", otherwise=_by_small)
def _by_middle(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any) -> None:
    from llvmlite import ir

    def at(pointer: Any, step: Any, line: int, column: int) -> Any:
        number = ir.IntType(64)
        return builder.gep(pointer, [builder.add(builder.mul(step, number(line)), number(column))])

    for j in range(0, LARGE, MIDDLE):
        for i in range(0, LARGE, MIDDLE):
            _square(builder, at(x, x_step, i, j), x_step, at(y, y_step, j, i), y_step, MIDDLE // SIZE)


@emitter("void(*T,i64,*T,i64)", needs="avx512f", otherwise=_by_middle)
def transpose_large(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any) -> None:
    """y[j * y_step + i] = x[i * x_step + j] for i and j below LARGE."""
    _square(builder, x, x_step, y, y_step, LARGE // SIZE)


@native
def transpose_block(x: Ptr, x_step: int, y: Ptr, y_step: int, rows: int, columns: int) -> None:
    """y[c * y_step + r] = x[r * x_step + c] for r below `rows` and c below `columns`."""
    r, c = 0, 0
    if best_size() == LARGE:
        r, c = rows // LARGE * LARGE, columns // LARGE * LARGE
    for j in range(0, r, LARGE):
        for i in range(0, c, LARGE):
            transpose_large(shift(x, j * x_step + i), x_step, shift(y, i * y_step + j), y_step)
    transpose_beside(x, x_step, y, y_step, rows, columns, r, c)


@native
def transpose_beside(x: Ptr, x_step: int, y: Ptr, y_step: int, rows: int, columns: int, r: int, c: int) -> None:
    """Do what `transpose_block` leaves beside its first r rows and c columns."""
    if c < columns:
        _transpose_part(x, x_step, y, y_step, 0, r, c, columns)
    if r < rows:
        _transpose_part(x, x_step, y, y_step, r, rows, 0, columns)


@native
def _transpose_part(x: Ptr, x_step: int, y: Ptr, y_step: int, top: int, bottom: int, left: int, right: int) -> None:
    """y[c, r] = x[r, c] for rows top to bottom and columns left to right: squares, and elements beside them."""
    r, c = top + (bottom - top) // SIZE * SIZE, left + (right - left) // SIZE * SIZE
    for i in range(left, c, SIZE):
        for j in range(top, r, SIZE):
            transpose_square(shift(x, j * x_step + i), x_step, shift(y, i * y_step + j), y_step)
    for i in range(c, right):
        for j in range(top, r):
            y[i * y_step + j] = x[j * x_step + i]
    for j in range(r, bottom):
        for i in range(left, right):
            y[i * y_step + j] = x[j * x_step + i]


def _square(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any, times: int) -> None:
    """Transpose a square of SIZE * times: vectors hold SIZE elements of each of `times` rows, which are transposed side by side."""
    from llvmlite import ir

    element, word = x.type.pointee, ir.IntType(32)
    nbytes = element.width // 8 if isinstance(element, ir.IntType) else 4 if isinstance(element, ir.FloatType) else 8
    part, lanes = ir.VectorType(element, SIZE), SIZE * times

    def at(pointer: Any, step: Any, line: int, column: int, kind: Any) -> Any:
        moved = builder.gep(builder.gep(pointer, [builder.mul(step, ir.Constant(ir.IntType(64), line))]), [word(column)])
        return builder.bitcast(moved, kind.as_pointer())

    def shuffle(a: Any, b: Any, order: Sequence[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, len(order)), list(order)))

    def across(order: tuple[int, ...]) -> list[int]:
        """Return the order within each SIZE elements, of two vectors of `lanes`."""
        return [SIZE * k + j % SIZE + j // SIZE * lanes for k in range(times) for j in order]

    def row(line: int, column: int) -> Any:
        """Return the elements `column` to `column` + SIZE of rows line, line + SIZE, ..."""
        parts = [builder.load(at(x, x_step, line + SIZE * k, column, part), align=nbytes) for k in range(times)]
        while len(parts) > 1:
            parts = [shuffle(a, b, range(2 * a.type.count)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    low, high, front, back = (across(order) for order in ((0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)))
    for column in range(0, lanes, SIZE):
        a, b, c, d = (row(line, column) for line in range(SIZE))
        pairs = [(shuffle(a, b, order), shuffle(c, d, order)) for order in (low, high)]
        for number, value in enumerate(shuffle(*pair, order) for pair in pairs for order in (front, back)):
            builder.store(value, at(y, y_step, column + number, 0, value.type), align=nbytes)


@emitter("void(*T,i64,*T,i64)")
def transpose_bytes(builder: Any, x: Any, x_step: Any, y: Any, y_step: Any) -> None:
    """y[j * y_step + i] = x[i * x_step + j] for i and j below LARGE, elements of a byte; every vector holds a row.

    Interleaving the first half of the rows with the second moves the last bit of a row's number to the front of those of its elements:
    after as many rounds as a number has bits, the two are exchanged.
    """
    from llvmlite import ir

    element, word, size = x.type.pointee, ir.IntType(32), LARGE
    kind = ir.VectorType(element, size)
    nbytes = element.width // 8 if isinstance(element, ir.IntType) else 4 if isinstance(element, ir.FloatType) else 8

    def line(pointer: Any, step: Any, number: int) -> Any:
        moved = builder.gep(pointer, [builder.mul(step, ir.Constant(ir.IntType(64), number))])
        return builder.bitcast(moved, kind.as_pointer())

    def interleave(a: Any, b: Any, first: int) -> Any:
        order = [number for k in range(first, first + size // 2) for number in (k, size + k)]
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, size), order))

    lines = [builder.load(line(x, x_step, number), align=nbytes) for number in range(size)]
    for _ in range(size.bit_length() - 1):
        halves = zip(lines[: size // 2], lines[size // 2 :], strict=True)
        lines = [interleave(a, b, first) for a, b in halves for first in (0, size // 2)]
    for number, column in enumerate(lines):
        builder.store(column, line(y, y_step, number), align=nbytes)
