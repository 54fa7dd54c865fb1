"""Products of quantized integers: their operands, and how devices multiply them."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from ort_lite_xla.registry import Array, Function


def subtract_zero_point(x: Array, zero: Array) -> Array:
    """Return x - zero as int32."""
    wide = x.astype(np.int32)
    return wide if zero is None else wide - zero.astype(np.int32)


def per_filter(x: Array, w: Array) -> Array:
    """Reshape a scalar, or one value per filter of w, so that it broadcasts with w."""
    return x.reshape(-1, *[1] * (w.ndim - 1)) if x.size != 1 else x.reshape(())


def multiply(a: Array, b: Array, a_zero: Array = None, b_zero: Array = None) -> Array:
    """Return the matrix product of a - a_zero and b - b_zero, in int32. Zero points are numbers, or one per row and per column.

    Devices multiply int8 by int8 and add up int32. The differences would have 9 bits, so zero points are taken from the sums.
    """
    left, right = a.ndim == 1, b.ndim == 1
    a, a_zero = _as_int8(a[None] if left else a, by_row(a_zero))
    b, b_zero = _as_int8(b[:, None] if right else b, by_column(b_zero))
    y = jnp.matmul(a, b, preferred_element_type=np.int32)
    if b_zero is not None:
        y = y - jnp.sum(a, -1, keepdims=True, dtype=np.int32) * b_zero
    if a_zero is not None:
        columns = jnp.sum(b, -2, keepdims=True, dtype=np.int32)
        y = y - a_zero * (columns if b_zero is None else columns - a.shape[-1] * b_zero)
    y = y[..., 0, :] if left else y
    return y[..., 0] if right else y


def _as_int8(x: Array, zero: Array) -> tuple[Array, Array]:
    """Return x as int8 and its zero point as int32, both 128 less if x is uint8."""
    wide = None if zero is None else zero.astype(np.int32)
    if x.dtype == np.int8:
        return x, wide
    flipped = lax.bitcast_convert_type(jnp.asarray(x) ^ np.uint8(128), np.int8)
    return flipped, np.int32(-128) if wide is None else wide - np.int32(128)


def by_row(x: Array) -> Array:
    """Reshape a scale or zero point of a left operand to a scalar or a column: one number, or one per row."""
    if x is None or x.size == 1:
        return None if x is None else x.reshape(())
    return x[:, None] if x.ndim == 1 else x


def by_column(x: Array) -> Array:
    """Reshape a scale or zero point of a right operand to a scalar, unless it has one number per column."""
    return x.reshape(()) if x is not None and x.size == 1 else x


EXACT = (1 << 24) // 255**2
"""The products of differences of bytes whose sum is exact in float32."""


def convolve_exactly(function: Function, x: Array, w: Array, groups: int) -> Array:
    """Convolve the int32 of `subtract_zero_point` by `function`, which convolves floats, and return exact sums in int32.

    Convolutions of integers are 3 to 80 times slower than those of float32 on the CPU, and GPUs have none. Channels are split
    so that float32 is exact. On GPUs, where kernels may transform their operands first, only float64 is sure to be.
    """
    taps = int(np.prod(w.shape[2:]))
    step = max(EXACT // max(taps, 1), 1)

    def in_float64(x: Array, w: Array) -> Array:
        return jnp.round(function(x.astype(np.float64), w.astype(np.float64))).astype(np.int32)

    def in_float32(x: Array, w: Array) -> Array:
        if taps > EXACT or (groups > 1 and w.shape[1] > step):
            return in_float64(x, w)
        if groups > 1 or w.shape[1] <= step:
            return function(x.astype(np.float32), w.astype(np.float32)).astype(np.int32)
        pieces = (slice(first, first + step) for first in range(0, w.shape[1], step))
        return sum(function(x[:, at].astype(np.float32), w[:, at].astype(np.float32)).astype(np.int32) for at in pieces)

    return lax.platform_dependent(x, w, cuda=in_float64, rocm=in_float64, default=in_float32)
