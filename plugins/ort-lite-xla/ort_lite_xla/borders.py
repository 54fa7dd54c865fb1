"""Values on their way in and out: NumPy arrays outside, JAX arrays inside, and copies only where they must be."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SMALL = 4096
"""Bytes that are copied sooner than shared."""


class _Lent:
    """Memory of a JAX array for NumPy, which keeps it alive. Nobody else has the array: whoever gets it may write."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: jax.Array, address: int) -> None:
        self.array = array
        self.__array_interface__ = {"version": 3, "shape": (array.nbytes,), "typestr": "|u1", "data": (address, False)}


def inside(array: Array, device: jax.Device) -> jax.Array:
    """The array on the device. On the CPU, memory that is aligned to 64 bytes is shared."""
    return jax.device_put(array, device)


def outside(results: Sequence[jax.Array], taken: set[int]) -> list[Array]:
    """The results as arrays that are the caller's own. `taken` has the addresses of inputs and constants: those are copied."""
    found = []
    for result in results:
        result.block_until_ready()
        if result.nbytes <= SMALL or result.device.platform != "cpu":
            found.append(np.array(result))
            continue
        address = result.unsafe_buffer_pointer()
        if address in taken:
            found.append(np.array(result))
        else:
            taken.add(address)
            found.append(np.asarray(_Lent(result, address)).view(result.dtype).reshape(result.shape))
    return found


def padded(array: Array, shape: tuple[int, ...]) -> Array:
    """The array with zeros behind it along each dimension."""
    if array.shape == shape:
        return array
    wide = np.zeros(shape, array.dtype)
    wide[tuple(map(slice, array.shape))] = array
    return wide


def cut(array: Array, ends: Sequence[int | None]) -> Array:
    """The first elements along each dimension, as an array of its own; None keeps them all."""
    if all(end is None or end == size for end, size in zip(ends, array.shape, strict=True)):
        return array
    return array[tuple(slice(end) for end in ends)].copy()
