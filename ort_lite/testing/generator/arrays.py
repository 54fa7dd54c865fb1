"""Random arrays of every element type. A `Contents` function fills an operand."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from ort_lite.dtypes import Array, to_numpy

Contents = Callable[[Random, Sequence[int], str], Array]
"""(random numbers, shape, element type) -> an array."""

_WORDS = ("", "a", "b", "ab", "A b", "one two", "10", "x-y", "\u00e9t\u00e9", "zzz", "The cat", "a.b@c")
_RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3), "bool": (0, 1)}
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 1e30, -1e30)
NARROW_FLOATS = ("float8", "float6", "float4")


def limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest integer of an integer type."""
    if dtype in _RANGES:
        return _RANGES[dtype]
    info = np.iinfo(to_numpy(dtype))
    return int(info.min), int(info.max)


def is_float(dtype: str) -> bool:
    """Return True for floating-point element types, the 8-bit and 4-bit ones included."""
    return "float" in dtype


def is_integer(dtype: str) -> bool:
    """Return True for signed and unsigned integer element types, but not for bool."""
    return dtype.lstrip("u").startswith("int")


def numbers(rng: Random, shape: Sequence[int], dtype: str) -> Array:
    """Return moderate numbers: eighths from -3 to 3, uniform floats from -4 to 4, small integers, or short texts."""
    if dtype == "string":
        return texts(shape, lambda: rng.choice(_WORDS))
    if dtype.startswith("complex"):
        return np.asarray(numbers(rng, shape, "float64") + 1j * numbers(rng, shape, "float64")).astype(to_numpy(dtype))
    if is_integer(dtype) or dtype == "bool":
        least, most = limits(dtype)
        return between(max(least, -6), min(most, 9))(rng, shape, dtype)
    generator = numpy_random(rng)
    if rng.random() < 0.6:
        return cast(generator.integers(-24, 25, tuple(shape)) / 8, dtype)
    return cast(generator.uniform(-4, 4, tuple(shape)), dtype)


def special(rng: Random, shape: Sequence[int], dtype: str) -> Array:
    """Return ordinary numbers with a few NaN, infinities, signed zeros, denormals and huge numbers among them.

    Integers cover their whole range.
    """
    array = numbers(rng, shape, dtype)
    generator = numpy_random(rng)
    if is_integer(dtype):
        least, most = limits(dtype)
        edges = np.array([least, most, 0, least + 1, most - 1], object)
        return np.where(generator.random(shape) < 0.4, edges[generator.integers(0, 5, tuple(shape))], array).astype(
            to_numpy(dtype)
        )
    if not is_float(dtype) or dtype.startswith(NARROW_FLOATS):
        return array
    wide, few = array.astype(np.float64), rng.sample(_SPECIAL, rng.randint(1, 3))
    return cast(np.where(generator.random(shape) < 0.25, generator.choice(few, tuple(shape)), wide), dtype)


def with_nan(rng: Random, shape: Sequence[int], dtype: str) -> Array:
    """Return ordinary numbers, a quarter of them replaced by NaN if the element type has it."""
    array = numbers(rng, shape, dtype)
    if not is_float(dtype) or dtype.startswith(NARROW_FLOATS):
        return array
    return cast(np.where(numpy_random(rng).random(shape) < 0.25, np.nan, array.astype(np.float64)), dtype)


def between(least: float, most: float) -> Contents:
    """Return contents from `least` to `most` inclusive, which are whole numbers for integer types."""

    def contents(rng: Random, shape: Sequence[int], dtype: str) -> Array:
        generator = numpy_random(rng)
        if is_integer(dtype) or dtype == "bool":
            low, high = limits(dtype)
            return generator.integers(max(int(least), low), min(int(most), high), tuple(shape), endpoint=True).astype(
                to_numpy(dtype)
            )
        return cast(generator.uniform(least, most, tuple(shape)), dtype)

    return contents


def among(*values: float) -> Contents:
    """Return contents with a few values, each of which the element type holds exactly."""

    def contents(rng: Random, shape: Sequence[int], dtype: str) -> Array:
        return cast(numpy_random(rng).choice(np.array(values), tuple(shape)), dtype)

    return contents


positive = between(0.0625, 4)
unit = between(0, 1)
"""Probabilities, and what a function of the interval from 0 to 1 takes."""


def indices(size: int, negative: bool = True) -> Contents:
    """Return contents that are valid indices into a non-empty axis of `size` elements. `negative` ones count from the end."""
    return between(-size if negative else 0, size - 1)


def cast(array: Array, dtype: str) -> Array:
    """Return the array in another element type, rounded without a warning."""
    with np.errstate(all="ignore"):
        if dtype.startswith(NARROW_FLOATS):
            array = np.asarray(array).astype(np.float32)  # ml_dtypes knows no other way
        return np.asarray(array).astype(to_numpy(dtype))


def numpy_random(rng: Random) -> np.random.Generator:
    """Return a NumPy generator seeded by the other generator."""
    return np.random.default_rng(rng.getrandbits(64))


def texts(shape: Sequence[int], item: Callable[[], str]) -> Array:
    """Return an array of texts, of which `item` draws each."""
    array = np.empty(tuple(shape), object)
    for at in np.ndindex(*shape):
        array[at] = item()
    return array
