"""The product of one row and a packed matrix, at the speed of memory: several panels at once.

One row multiplies each number of the matrix once, so a matrix beyond the caches is limited by memory. Hardware prefetches within a
stream of addresses, and more at a time from several streams; the kernel prefetches what the hardware would request too late.
"""

from collections.abc import Sequence
from typing import Any

from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native.lang import Ptr, Static, emitter, like, native, null, select, shift
from ort_lite_cpu.kernels.gemm.microkernel import UNROLLED, TileEpilogue
from ort_lite_cpu.kernels.gemm.vectors import Vectors

STREAMS = 2
"""The panels that are read at once, far from each other. Four are no faster, and their sums do not fit 16 registers."""
AHEAD = 2048
"""The bytes of a stream that are prefetched before they are read."""


@native(inline=False)
def one_row(
    a: Ptr, b: Ptr, c: Ptr, n: int, k: int, left: int, right: int, end: TileEpilogue, vectors: Static, lanes: Static
) -> None:
    """c (n,) = clip(a (k,) @ b + bias, low, high), its panels `left` to `right`; b from `pack.panels`; there is no residual.

    Every element is one chain of multiply-adds in the order of k, regardless of the panels that are read with its own.
    """
    width = vectors * lanes
    apart = (min(right, n // width) - left) // STREAMS
    for p in range(left, left + apart):
        panels_times_row(a, shift(b, p * k * width), shift(c, p * width), apart, width, k, STREAMS, vectors, lanes)
    for p in range(left + apart * STREAMS, right):
        panels_times_row(a, shift(b, p * k * width), shift(c, p * width), 0, n - p * width, k, 1, vectors, lanes)
    for j in range(left * width, min(right * width, n)):
        x = c[j]
        if not null(end.bias):
            x += end.bias[j]
        x = select(x < like(c, end.low), like(c, end.low), x)
        c[j] = select(x > like(c, end.high), like(c, end.high), x)


@emitter("void(*F,*F,*F,i64,i64,i64,static,static,static)")
def panels_times_row(
    builder: Any, a: Any, b: Any, c: Any, apart: Any, n: Any, k: Any, streams: int, vectors: int, lanes: int
) -> None:
    """c = a (k,) @ b for `streams` panels that are `apart` panels from each other; only n columns of the last are written."""
    emit = Vectors(builder, a.type.pointee, lanes)
    width, far = vectors * lanes, builder.mul(builder.mul(k, apart), emit.integer(vectors * lanes))
    starts = [emit.move(b, emit.mul(far, stream)) for stream in range(streams)]

    def step(unrolled: int, values: Sequence[Any]) -> list[Any]:
        row, pointers, sums = values[0], list(values[1 : streams + 1]), list(values[streams + 1 :])
        for pointer in pointers:
            for offset in range(0, unrolled * width * emit.nbytes, CACHE_LINE):
                emit.prefetch(emit.move(pointer, emit.integer((AHEAD + offset) // emit.nbytes)))
        for u in range(unrolled):
            left = emit.splat(builder.load(emit.move(row, emit.integer(u))))
            for i, pointer in enumerate(pointers):
                for j in range(vectors):
                    at = i * vectors + j
                    sums[at] = emit.fma(left, emit.load(pointer, u * width + j * lanes), sums[at])
        moved = [emit.move(pointer, emit.integer(unrolled * width)) for pointer in pointers]
        return [emit.move(row, emit.integer(unrolled)), *moved, *sums]

    values = [a, *starts, *[emit.zero] * (streams * vectors)]
    at, values = emit.loop(emit.integer(0), k, UNROLLED, values, lambda _, v: step(UNROLLED, v))
    sums = emit.loop(at, k, 1, values, lambda _, v: step(1, v))[1][streams + 1 :]
    for i in range(streams):
        out = emit.move(c, builder.mul(apart, emit.integer(i * width)))
        for j in range(vectors):
            mask = None if streams > 1 else emit.mask(builder.sub(n, emit.integer(j * lanes)))
            emit.store(sums[i * vectors + j], out, j * lanes, mask)
