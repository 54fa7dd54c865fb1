"""Computation of 16-bit floats in float32, for operators of several steps, each of which would round."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax.numpy as jnp

from ort_lite_xla.registry import Array, XlaOp


def in_float32(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Compute 16-bit floats in float32, and round each result once, to its inferred type."""

    @wraps(compute)
    def compute_wide(op: XlaOp, *operands: Array) -> Any:
        if not any(_is_narrow(x) for x in operands):
            return compute(op, *operands)
        results = compute(op, *(x.astype(jnp.float32) if _is_narrow(x) else x for x in operands))
        if not isinstance(results, tuple):
            return results.astype(op.dtype())
        return tuple(result.astype(op.dtype(k)) if op.wants(k) else result for k, result in enumerate(results))

    return compute_wide


def _is_narrow(x: Array) -> bool:
    return x is not None and x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating)
