"""QuantizeLinear and DequantizeLinear for types narrower than a byte and 8-bit floats: Python steps, as no kernel computes in them.

Such tensors are weights as a rule, whose conversion is folded before anything runs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite_cpu.op import Op

INTEGERS = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15)}
FLOATS = frozenset({"float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
NARROW = FLOATS | frozenset(INTEGERS)

Step = Callable[..., list[Array]]


def quantize_step(op: Op, dtype: DType) -> Step:
    """Floats that do not fit become the largest one, unless `saturate` is 0. Spec: ONNX QuantizeLinear-25."""
    target, spread, saturate = to_numpy(dtype), _spread(op), op.attr("saturate", 1)

    def step(x: Array, scale: Array, zero: Array | None = None) -> list[Array]:
        value = x.astype(np.float32) / spread(x, scale)
        if dtype in INTEGERS:
            around = 0 if zero is None else spread(x, zero)
            return [np.clip(np.rint(value) + around, *INTEGERS[dtype]).astype(np.int8).astype(target)]
        if saturate:
            import ml_dtypes

            limits: Any = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]
            value = np.clip(value, np.float32(limits.min), np.float32(limits.max))
        return [value.astype(target)]

    return step


def dequantize_step(op: Op) -> Step:
    """Spec: ONNX DequantizeLinear-25."""
    dtype, spread = op.info().dtype, _spread(op)
    assert dtype is not None

    def step(x: Array, scale: Array, zero: Array | None = None) -> list[Array]:
        value = x.astype(np.float32)
        if zero is not None:
            value = value - spread(x, zero)
        return [np.asarray(value * spread(x, scale)).astype(to_numpy(dtype))]

    return step


def _spread(op: Op) -> Callable[[Array, Array], Any]:
    """Scales or zero points in float32, so that they broadcast over the tensor: one, one an entry of the axis, one a block."""
    axis, size = op.attr("axis", 1), op.attr("block_size", 0)

    def spread(x: Array, value: Array) -> Any:
        value = value.astype(np.float32)
        if value.size == 1:
            return value.reshape(())
        if size:
            return np.repeat(value, size, axis).take(range(x.shape[axis]), axis)
        return value.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])

    return spread
