"""CVM's C names, over the same containers. A handle is the address of a DLTensor, and of its Container.

Only what `CVMArrayAlloc` gave may be freed by `CVMArrayFree`, once; what lies behind the DLTensor must not be written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.params.params import load_params, save_params
from ort_lite.tensors.container import Container
from ort_lite.tensors.dltensor import CPU
from ort_lite.tensors.ndarray import NDArray


def CVMArrayAlloc(
    shape: Sequence[int], dtype_code: int, dtype_bits: int, dtype_lanes: int = 1, device_type: int = CPU, device_id: int = 0
) -> int:
    """The handle of a new, uninitialised tensor. Raises InvalidArgument for what cannot be, OutOfMemory."""
    return Container.allocate(shape, (dtype_code, dtype_bits, dtype_lanes), (device_type, device_id)).address


def CVMArrayFree(handle: int) -> None:
    """Gives the handle's reference back. Raises InvalidArgument for one that is free already."""
    Container.at(handle).dec_ref()


def CVMArrayFromHandle(handle: int) -> NDArray:
    """An NDArray that shares the handle's tensor: it stays after the handle is freed."""
    container = Container.at(handle)
    container.inc_ref()
    return NDArray.adopt(container)


def CVMLoadParamsDict(data: bytes) -> dict[str, NDArray]:
    """Load parameters as `load_params` does."""
    return load_params(data)


def CVMSaveParamsDict(params: Mapping[str, Any]) -> bytes:
    """Save parameters as `save_params` does."""
    return save_params(params)
