"""Constant float32 matrices whose numbers are all float16: products keep them in 16 bits, and widen them as they read."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, f16_to_f32, f32_to_f16, native, span
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.run.kernels import Kernels

FLOAT16_LOADS = "f16c|neon"
"""The CPU features of the instruction that widens a vector of float16."""
ROWS, COLUMNS = 4, 64
"""The corner of a matrix that is checked first. Other weights have a number there that is not float16."""


def looks_float16(b: Array) -> bool:
    """Return True if a matrix is float32, and the numbers of a corner are float16 as well."""
    return b.dtype == np.float32 and _all_float16(b[:ROWS, :COLUMNS])


def is_float16(b: Array, kernels: Kernels) -> bool:
    """Return True if all numbers of a float32 matrix are float16 as well, and none is NaN. O(size)."""
    stored, wider = _in_memory_order(b), np.zeros(1, np.int64)

    def otherwise() -> None:
        wider[0] = not _all_float16(stored)

    run_once(count_wider, [stored, wider], kernels, otherwise, n=stored.size)
    return not wider[0]


def narrow(b: Array, kernels: Kernels) -> Array:
    """Return the bits of a matrix that `is_float16`, in its order of memory. O(size)."""
    stored = _in_memory_order(b)
    out = np.empty(stored.shape, np.uint16)

    def otherwise() -> None:
        out[...] = stored.astype(np.float16).view(np.uint16)

    run_once(narrow_all, [stored, out], kernels, otherwise, n=stored.size)
    return out.T if _is_turned(b) else out


def widen(bits: Array) -> Array:
    """Return the float32 numbers of bits of float16, exactly. O(size)."""
    return bits.view(np.float16).astype(np.float32)


def _is_turned(b: Array) -> bool:
    return b.flags.f_contiguous and not b.flags.c_contiguous


def _in_memory_order(b: Array) -> Array:
    return b.T if _is_turned(b) else np.ascontiguousarray(b)


def _all_float16(b: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((b.astype(np.float16).astype(np.float32) == b).all())


@native(fastmath=STRICT)
@extents(x="n", wider="parts")
def count_wider(x: Ptr, wider: Ptr, n: int, part: int, parts: int) -> int:
    """wider[part] = the number of elements of this part that are not float16, or NaN."""
    total = 0
    for i in span(n, part, parts):
        total += 0 if f16_to_f32(f32_to_f16(x[i])) == x[i] else 1
    wider[part] = total
    return OK


@native(fastmath=STRICT)
@extents(x="n", out="n")
def narrow_all(x: Ptr, out: Ptr, n: int, part: int, parts: int) -> int:
    """out (n,) = x as bits of float16."""
    for i in span(n, part, parts):
        out[i] = f32_to_f16(x[i])
    return OK
