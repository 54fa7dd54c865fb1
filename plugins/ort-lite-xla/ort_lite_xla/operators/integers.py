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


def of_integers(function: Function, x: Array, w: Array) -> Array:
    """Compute sums of products of the int32 that `centred` returns, by a function of two operands.

    GPUs have no convolution of int32, and multiply matrices of int32 hundreds of times more slowly than others. The products
    have 18 bits, so sums of them are exact in float64.
    """

    def in_float64(x: Array, w: Array) -> Array:
        exact = function(x.astype(np.float64), w.astype(np.float64))
        return jnp.round(exact).astype(np.int64).astype(x.dtype)

    return lax.platform_dependent(x, w, cuda=in_float64, rocm=in_float64, default=function)
