"""Kernels that run at once, over arrays: what lowering makes of constants (packed weights) takes memory's time, not NumPy's."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ort_lite.dtypes import Array, from_numpy
from ort_lite.native import Spec
from ort_lite.native.extents import Scalar, contract, within
from ort_lite.native.spec import StaticValue
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.types import NATIVE_TYPES

FEW = 1 << 20
"""Elements: NumPy writes so many in less time than their kernel takes to be compiled, which is 0.1 to 0.2 s."""


def run_once(
    kernel: Callable[..., int],
    arrays: list[Array],
    kernels: Kernels,
    otherwise: Callable[[], object] | None = None,
    **named: Any,
) -> None:
    """Run kernel(arrays, its other parameters by their names), one of `kernels`, in the calling thread.

    `otherwise` writes the same bits with NumPy: where the kernel is missing, and may not be compiled, or would be for FEW elements;
    processes to come shall have it.

    Raises TypeError for a call that does not fit the kernel: other parameters or arrays than it takes, arrays that are not
    contiguous or have fewer bytes than it touches. Raises RuntimeError for a status that is not OK.
    """
    scalars, statics = contract(kernel).arrange(named)
    _check_call(kernel, arrays, scalars, statics)
    types = [NATIVE_TYPES[from_numpy(array.dtype)] for array in arrays]
    spec = Spec.of(kernel, types, statics)
    few = sum(array.size for array in arrays) <= FEW
    if otherwise is not None and (few or not kernels.all_come) and not kernels.has_kernel(spec):
        otherwise()
        kernels.leave(spec)
        return
    (address,) = kernels.load([spec])
    words: list[Any] = [word for array in arrays for word in (0, address_of(array))]
    words += [struct.unpack("q", struct.pack("d", x))[0] if isinstance(x, float) else x for x in scalars]
    descriptor, memory = (ctypes.c_int64 * len(words))(*words), ctypes.c_int64(0)
    status = _entry(address)(ctypes.addressof(descriptor), ctypes.addressof(memory), 0, 1)
    if status:
        raise RuntimeError(f"{kernel.__name__} returned status {status}")


def _check_call(
    kernel: Callable[..., int], arrays: list[Array], scalars: Sequence[Scalar], statics: Mapping[str, StaticValue]
) -> None:
    made = contract(kernel)
    touched = made.reaches(scalars, statics, 1)
    if len(arrays) != len(made.pointers):
        raise TypeError(f"kernel {made.name}: {len(arrays)} arrays came, {len(made.pointers)} are expected: {made.pointers}")
    for name, array, extent in zip(made.pointers, arrays, touched, strict=True):
        if extent is None or not array.flags.c_contiguous or within(extent, array.nbytes, array.itemsize) != 1:
            order = "contiguous" if array.flags.c_contiguous else "not contiguous"
            raise TypeError(
                f"kernel {made.name} would touch {extent} elements of {name!r}, which is {array.dtype} {array.shape}, {order}"
            )


@cache
def _entry(address: int) -> Any:
    return ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(address)
