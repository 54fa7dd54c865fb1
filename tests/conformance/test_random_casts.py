"""Cast between all element types, special values included. Against NumPy and ml_dtypes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from onnx.numpy_helper import saturate_cast

from ort_lite.dtypes import Array, to_numpy, to_onnx
from tests.conformance.drawing import DIMS, LAYOUTS, SEEDS, How, Shape, drawn, limits, numbers, shapes
from tests.conformance.random_models import check

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SMALL = ("int4", "uint4", "int2", "uint2")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EIGHTS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
NARROW = (*EIGHTS, "float4_e2m1fn")
TYPES = ("bool", *INTEGERS, *SMALL, *FLOATS, *NARROW)


def values(shape: Shape, dtype: str, seed: int, special: bool) -> Array:
    if dtype in SMALL:
        low, high = limits(dtype)
        return np.asarray(numbers(shape, "int64", seed, low=low, high=high)).astype(to_numpy(dtype))
    if dtype in NARROW:
        return numbers(shape, "float32", seed).astype(to_numpy(dtype))
    return numbers(shape, dtype, seed, special=special and dtype in FLOATS + INTEGERS)


def cast(x: Array, source: str, target: str, saturate: bool) -> Array:
    """By way of float32 for the types that have fewer bits, as the specification's tables say."""
    if target == "bool":
        return np.asarray(x.astype(np.float64) != 0)
    if target in NARROW:
        wide = x.astype(np.float32)
        if target == "float4_e2m1fn" or not saturate:
            return wide.astype(to_numpy(target))
        return np.asarray(saturate_cast(wide, to_numpy(target)))
    if source in NARROW or source == "bfloat16":
        x = x.astype(np.float32)
    if target == "bfloat16" and x.dtype != np.float32:
        x = x.astype(np.float32)
    if target in SMALL:  # the low bits
        low, high = limits(target)
        return np.asarray((x.astype(np.int64) - low) % (high - low + 1) + low).astype(to_numpy(target))
    return np.asarray((x.astype(np.int32) if source in SMALL else x).astype(to_numpy(target)))


@pytest.mark.parametrize("source", TYPES)
@drawn(
    5,
    target=st.sampled_from(TYPES),
    shape=shapes(),
    seed=SEEDS,
    special=st.booleans(),
    saturate=st.booleans(),
    dims=st.sampled_from(DIMS),
    layout=st.sampled_from(LAYOUTS),
)
def test_cast(source: str, target: str, shape: Shape, seed: int, special: bool, saturate: bool, dims: str, layout: str) -> None:
    special = special and (source not in FLOATS or target in FLOATS + EIGHTS)  # what does not fit an integer is not defined
    x = values(shape, source, seed, special)
    more: dict[str, Any] = {"saturate": int(saturate)} if target in EIGHTS else {}
    if target.startswith("u") and source in (*FLOATS, *NARROW):
        x = np.abs(x)
    with np.errstate(all="ignore"):
        wanted = cast(x, source, target, saturate)
    check("Cast", [x], [wanted], How(dims, layout), opset=25, to=to_onnx(target), **more)
