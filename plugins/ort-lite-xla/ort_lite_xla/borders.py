"""Conversion of values at the border of a program: NumPy arrays outside, JAX arrays inside, copied only if necessary."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SMALL = 4096
"""The most bytes of an array that is cheaper to copy than to share."""


class _Lent:
    """Memory of an array, for NumPy, which keeps it alive. Nothing else refers to the memory, so it may be written to."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: jax.Array | Array, address: int) -> None:
        self.array = array
        self.__array_interface__ = {"version": 3, "shape": (array.nbytes,), "typestr": "|u1", "data": (address, False)}


def inside(array: Array, device: jax.Device) -> jax.Array:
    """Return the array on the device. On the CPU, memory that is aligned to 64 bytes is shared."""
    return jax.device_put(array, device)


def outside(results: Sequence[jax.Array], taken: set[int]) -> list[Array]:
    """Return the results as arrays that the caller owns.

    Results at the addresses in `taken`, those of inputs and constants, are copied. All copies from a device begin before the
    first wait.
    """
    for result in results:
        if result.device.platform != "cpu":
            result.copy_to_host_async()
    return [_own(result, taken) for result in results]


def _own(result: jax.Array, taken: set[int]) -> Array:
    result.block_until_ready()
    if result.nbytes <= SMALL:
        return np.array(result)
    if result.device.platform == "cpu":
        return _lend(result, result.unsafe_buffer_pointer(), result, taken)
    copy = np.asarray(result)  # only this code refers to JAX's copy, but it is read-only
    return _lend(copy, copy.ctypes.data, result, taken) if copy.flags.c_contiguous else np.array(copy, order="C")


def _lend(owner: jax.Array | Array, address: int, result: jax.Array, taken: set[int]) -> Array:
    """Return the memory of `owner` as an array of the result's type and shape, or a copy if something else refers to it too."""
    if address in taken:
        return np.array(result)
    taken.add(address)
    lent: Array = np.asarray(_Lent(owner, address)).view(result.dtype).reshape(result.shape)
    return lent


def pad(array: Array, shape: tuple[int, ...]) -> Array:
    """Pad an array with zeros at the end of each dimension."""
    if array.shape == shape:
        return array
    wide = np.zeros(shape, array.dtype)
    wide[tuple(map(slice, array.shape))] = array
    return wide


def cut(array: Array, ends: Sequence[int | None]) -> Array:
    """Return the first elements along each dimension, as a new array; None keeps a dimension."""
    if all(end is None or end == size for end, size in zip(ends, array.shape, strict=True)):
        return array
    return array[tuple(slice(end) for end in ends)].copy()
