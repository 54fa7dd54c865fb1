"""What random tests draw: cases, shapes, arrays, and the ways in which one model may be brought to a session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ort_lite.dtypes import Array, from_numpy, to_numpy

Shape = tuple[int, ...]

LAYOUTS = ("plain", "fortran", "step", "backwards", "swapped", "unaligned", "read-only")
"""How an array that is fed lies in memory."""
DIMS = ("fixed", "shared", "own")
"""Dimensions of inputs: numbers; symbols, one a size; symbols, one an axis (sizes of 1 then turn up at run time)."""


@dataclass(frozen=True)
class How:
    """How a model is brought and run. The results must not depend on it."""

    dims: str = "fixed"
    layout: str = "plain"
    optimised: bool = True
    constants: int = 0
    """Bit k: input k is an initialiser."""


HOWS = st.builds(
    How,
    dims=st.sampled_from(DIMS),
    layout=st.sampled_from(LAYOUTS),
    optimised=st.booleans(),
    constants=st.integers(0, 7) | st.just(0),
)


def drawn(examples: int, **strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test over `examples` cases, the same ones every time, or over what the profile "thorough" asks for."""
    found = settings.get_profile("thorough")
    if settings.get_current_profile_name() != "thorough":
        found = settings(found, max_examples=examples, derandomize=True)
    return lambda test: found(given(**strategies)(test))


def broadcastable(count: int) -> st.SearchStrategy[tuple[Shape, ...]]:
    """Shapes that broadcast to one."""
    found = hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=4, max_side=4, min_side=0)
    return found.map(lambda shapes: shapes.input_shapes)


SEEDS = st.integers(0, 2**20)


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of the type."""
    info = np.iinfo(dtype)
    return info.min, info.max


def numbers(shape: Sequence[int], dtype: str, seed: int, *, special: bool = False, low: float = -4, high: float = 4) -> Array:
    """Values from `low` to `high`, or integers of the type's whole range (`special`), its ends frequently."""
    rng = np.random.default_rng(seed)
    kind = to_numpy(dtype)
    if special:
        least, most = limits(dtype)
        made = rng.integers(least, most, shape, kind, endpoint=True)
        edges = np.array([least, most, 0, 1, most // 2 + 1], kind)
        return np.where(rng.random(shape) < 0.3, rng.choice(edges, shape), made).astype(kind)
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else int(low), int(high), shape, endpoint=True).astype(kind)
    return np.asarray(rng.uniform(low, high, shape).astype(kind))


def laid_out(array: Array, layout: str) -> Array:
    """The same values and shape, as `layout` has it in memory; plain where a layout does not apply."""
    if layout == "fortran":
        return np.asfortranarray(array) if array.ndim else array
    if layout == "step" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if layout == "backwards" and array.ndim:
        return np.ascontiguousarray(array[::-1])[::-1]
    if layout == "swapped" and array.dtype.kind in "iufc" and hasattr(np, from_numpy(array.dtype)):
        return array.astype(array.dtype.newbyteorder(">"))
    if layout == "unaligned" and array.dtype != object:
        return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    made = np.array(array)  # a copy; of NumPy's scalars as well
    made.flags.writeable = layout != "read-only"
    return made
