"""docs/specification.md, row 2.10: tensors of other libraries come in and go out by DLPack, and every deleter is called once."""

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ort_lite
from ort_lite import NDArray
from ort_lite.errors import InvalidArgument
from ort_lite.tensors.dltensor import (
    BOOL,
    CPU,
    FLOAT,
    DLContext,
    DLDataType,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
)
from tests.tensors.arrays import ramp


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "complex64"])
def test_spec_2_10_numpy_takes_it_without_a_copy(dtype: str) -> None:
    a = ramp(2, 3, dtype=dtype)
    array = np.from_dlpack(a)
    assert (array.dtype, array.shape) == (np.dtype(dtype), (2, 3))
    assert array.ctypes.data == a.data_ptr
    assert a.use_count() == 2
    del array
    assert a.use_count() == 1
    assert a.__dlpack_device__() == (CPU, 0)


@pytest.mark.parametrize("versioned", [False, True])
def test_spec_2_10_a_capsule_that_nobody_takes_gives_the_reference_back(versioned: bool) -> None:
    a = ramp(2)
    capsule = a.__dlpack__(max_version=(1, 0)) if versioned else a.__dlpack__()
    assert a.use_count() == 2
    taken = NDArray.from_dlpack(capsule)
    assert taken.data_ptr == a.data_ptr
    with pytest.raises(InvalidArgument, match="used already"):
        NDArray.from_dlpack(capsule)
    del capsule, taken
    assert a.use_count() == 1
    del a


def test_spec_2_10_bfloat16_goes_through_although_numpy_has_none() -> None:
    a = ramp(3, dtype=ml_dtypes.bfloat16)
    b = NDArray.from_dlpack(a)
    assert (b.dtype, b.data_ptr) == ("bfloat16", a.data_ptr)
    assert b.numpy().tolist() == [0, 1, 2]


def test_spec_2_10_what_is_read_only_stays_so() -> None:
    frozen = NDArray.from_numpy(np.frombuffer(bytes(8), np.float32))
    assert not NDArray.from_dlpack(frozen).numpy().flags.writeable
    with pytest.raises(BufferError):
        frozen.__dlpack__()


class Producer:
    """A library of old or new times that counts how often its deleter is called."""

    def __init__(self, versioned: bool, device: int = CPU, dtype: tuple[int, int, int] = (FLOAT, 32, 1)) -> None:
        self.data = np.arange(4, dtype=np.float32)
        self.shape = (ctypes.c_int64 * 1)(3)
        self.deleted: list[int] = []
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleted.append)
        self.managed: Any = DLManagedTensorVersioned(1, 0) if versioned else DLManagedTensor()
        self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.managed.dl_tensor = DLTensor(
            self.data.ctypes.data, DLContext(device, 0), 1, DLDataType(*dtype), self.shape, None, 4
        )
        self.name, self.device = b"dltensor_versioned" if versioned else b"dltensor", device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, **request: Any) -> Any:
        if request and self.name == b"dltensor":
            raise TypeError("a producer of before version 1 takes no max_version")
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("versioned", [False, True])
def test_spec_2_10_a_producers_deleter_is_called_once(versioned: bool) -> None:
    producer = Producer(versioned)
    a = NDArray.from_dlpack(producer)
    array, b = a.numpy(), NDArray(a)
    assert array.tolist() == [1, 2, 3], "byte_offset counts"
    a.reset()
    del array
    assert producer.deleted == []
    b.reset()
    assert producer.deleted == [ctypes.addressof(producer.managed)]


def test_spec_2_10_what_a_container_cannot_hold_is_left_to_the_producer() -> None:
    for producer, message in [
        (Producer(True, device=2), "on DLPack device"),
        (Producer(True, dtype=(FLOAT, 128, 1)), "code 2 and 128 bits is not known"),
        (Producer(False, dtype=(BOOL, 8, 0)), "0 lanes"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            NDArray.from_dlpack(producer)
        assert producer.deleted == []
    with pytest.raises(InvalidArgument, match="list gives no DLPack capsule"):
        NDArray.from_dlpack([1, 2])


def test_spec_2_10_a_models_tensors_go_out_too() -> None:
    from tests.ownership.models import constant, inline

    array = constant(ort_lite.load(inline()))
    tensor = NDArray.from_numpy(array)
    assert tensor.data_ptr == array.ctypes.data
    assert tensor.container.memory is ort_lite.span_of(array)
