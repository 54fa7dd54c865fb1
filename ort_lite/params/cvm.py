"""CVM's C functions by their names, on the same containers. A handle is the address of a DLTensor and of its Container.

`CVMArrayFree` accepts only handles from `CVMArrayAlloc`, each once. Callers must not write to the memory after the DLTensor.
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
    """Return the handle of a new, uninitialised tensor. Raises InvalidArgument for invalid arguments, and OutOfMemory."""
    return Container.allocate(shape, (dtype_code, dtype_bits, dtype_lanes), (device_type, device_id)).address


def CVMArrayFree(handle: int) -> None:
    """Release the handle's reference. Raises InvalidArgument if it was freed before."""
    Container.at(handle).dec_ref()


def CVMArrayFromHandle(handle: int) -> NDArray:
    """Return an NDArray that shares the handle's tensor and outlives the handle."""
    container = Container.at(handle)
    container.inc_ref()
    return NDArray.adopt(container)


def CVMLoadParamsDict(data: bytes) -> dict[str, NDArray]:
    """Load parameters as `load_params` does."""
    return load_params(data)


def CVMSaveParamsDict(params: Mapping[str, Any]) -> bytes:
    """Save parameters as `save_params` does."""
    return save_params(params)
