"""Calls native code from tests: expressions over arrays, and entries with a descriptor."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ort_lite.native import Spec, load
from ort_lite.native.cpu import Target, host, parse_target

Array = npt.NDArray[Any]

# This machine, and lesser ones whose code it runs: without FMA, without F16C.
SSE2, HASWELL, SKYLAKE_AVX512, AARCH64 = map(parse_target, ("x86-64", "haswell", "skylake-avx512", "aarch64"))
COMPILED = [SSE2, HASWELL, SKYLAKE_AVX512, AARCH64]
"""One for each width and number of vector registers; not all of them run here."""
TARGETS = {"host": host(), **{target.name: target for target in (SSE2, HASWELL) if target.runs_on(host())}}

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
_TEXT = """
def apply(x0: Ptr, x1: Ptr, x2: Ptr, out: Ptr, n: int, part: int, parts: int) -> int:
    for i in span(n, part, parts):
        x, y, z = x0[i], x1[i], x2[i]
        out[i] = {}
    return OK
"""


def element(dtype: npt.DTypeLike) -> str:
    """The language's name of a dtype; bool is u8."""
    dtype = np.dtype(dtype)
    return "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def expression_spec(expression: str, result: str, *types: str, module: str = "ort_lite.native.lang") -> Spec:
    """Kernel that computes `expression` of x, y and z, element by element."""
    given = [*types, *[types[0]] * (3 - len(types))]
    return Spec.from_source("apply", _TEXT.format(expression), module, (*given, result))


def evaluate(
    expression: str, result: npt.DTypeLike, *arrays: Array, module: str = "ort_lite.native.lang", target: Target | None = None
) -> Array:
    """`expression` of x, y and z, which are the elements of the arrays, converted to `result`."""
    given = [np.ascontiguousarray(array) for array in (*arrays, *[arrays[0]] * (3 - len(arrays)))]
    out = np.empty(given[0].shape, result)
    spec = expression_spec(expression, element(result), *(element(array.dtype) for array in arrays), module=module)
    assert call(spec, [*given, out], [out.size], target=target) == 0
    return out


def call(
    spec: Spec,
    operands: Sequence[Array | None],
    scalars: Sequence[int | float] = (),
    part: int = 0,
    parts: int = 1,
    target: Target | None = None,
) -> int:
    """Status of a kernel; None is a missing operand."""
    addresses = [0 if array is None else array.ctypes.data for array in operands]
    slots = np.zeros(2 * len(addresses) + len(scalars), np.int64)
    slots[1 : 2 * len(addresses) : 2] = addresses
    for k, value in enumerate(scalars, 2 * len(addresses)):
        slots[k : k + 1].view(np.float64 if isinstance(value, float) else np.int64)[0] = value
    memory = np.zeros(1, np.int64)
    (address,) = load([spec], target)
    return int(_ENTRY(address)(slots.ctypes.data, memory.ctypes.data, part, parts))


def plain(spec: Spec, *args: int) -> int:
    """Result of a plain int64 function."""
    (address,) = load([spec])
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(address)(*args))


def ulps(got: Array, exact: Array) -> Array:
    """Distance from a float64 reference in units of the last place of `got`'s type; 0 for equal and for two NaNs."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(got.dtype)
        distance = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        either = np.isnan(got) | np.isnan(nearest) | np.isinf(got) | np.isinf(nearest)
    return np.where(same, np.minimum(np.nan_to_num(distance), 0.5), np.where(either, np.inf, distance))
