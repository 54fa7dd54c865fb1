"""Tensors of other libraries, addresses and shapes that cannot be: what takes them raises InvalidArgument or OutOfMemory."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite import NDArray, OrtValue
from ort_lite.errors import InvalidArgument, OrtLiteError, OutOfMemory
from ort_lite.tensors.dltensor import DLDataType
from tests.case_server import Outcome
from tests.tensors.test_spec_2_dlpack import Producer

HUGE = 2**62
HALF: Any = [0.5]
MODEL = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'


def refused(words: str, function: Callable[[], object], kind: type[OrtLiteError] = InvalidArgument) -> Callable[[], None]:
    """The case: an error of the kind, which has the words."""

    def case() -> None:
        with pytest.raises(kind) as caught:
            function()
        assert words in str(caught.value)

    return case


def capsule(**fields: Any) -> Callable[[], object]:
    """A tensor of three floats is taken, in which these fields are others."""

    def take() -> object:
        for versioned in (False, True):
            producer = Producer(versioned)
            for name, value in fields.items():
                setattr(producer.managed.dl_tensor, name, value)
            taken = NDArray.from_dlpack(producer)
        return taken.numpy()

    return take


def sizes(*numbers: int) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)


class NoDevice(Producer):
    def __dlpack_device__(self) -> Any:
        return "cpu"


def bound(**more: Any) -> Callable[[], object]:
    """An input bound to memory at an address."""

    def bind() -> object:
        session = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString())
        x = np.zeros(4, np.float32)
        form = {"element_type": np.float32, "shape": [4], "buffer_ptr": x.ctypes.data, **more}
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, **form)
        binding.bind_output("y", "cpu", 0, **form)
        return binding

    return bind


def made(shape: Any, kind: Any = np.float32) -> Callable[[], object]:
    return lambda: OrtValue.ortvalue_from_shape_and_type(shape, kind)


CASES: dict[str, Callable[[], None]] = {
    "ndim -1": refused("-1 dimensions", capsule(ndim=-1)),
    "ndim 65": refused("65 dimensions", capsule(ndim=65)),
    "ndim 2**31 - 1": refused("2147483647 dimensions", capsule(ndim=2**31 - 1)),
    "no shape": refused("no shape", capsule(shape=None)),
    "a negative dimension": refused("[-3]", capsule(shape=sizes(-3))),
    "dimensions beyond memory": refused("larger than any memory", capsule(ndim=2, shape=sizes(HUGE, HUGE))),
    "dimensions beyond memory, and a 0": refused("larger than any memory", capsule(ndim=3, shape=sizes(HUGE, HUGE, 0))),
    "65535 lanes": refused("65535 lanes", capsule(dtype=DLDataType(2, 32, 65535))),
    "2 lanes": refused("2 lanes", capsule(dtype=DLDataType(2, 32, 2))),
    "0 lanes": refused("0 lanes", capsule(dtype=DLDataType(2, 32, 0))),
    "7 bits": refused("7 bits", capsule(dtype=DLDataType(0, 7, 1))),
    "code 99": refused("code 99", capsule(dtype=DLDataType(99, 32, 1))),
    "no data": refused("at address 0x", capsule(data=None, byte_offset=0)),
    "an offset beyond the address space": refused("at address 0x", capsule(byte_offset=2**64 - 1)),
    "strides of another order": refused("strides", capsule(ndim=2, shape=sizes(1, 3), strides=sizes(1, 2))),
    "a device that is no pair": refused("__dlpack_device__", lambda: NDArray.from_dlpack(NoDevice(True))),
    "no capsule": refused("no DLPack capsule", lambda: NDArray.from_dlpack(5)),
    "bound to -1 elements": refused("[-1]", bound(shape=[-1])),
    "bound to 2**62 elements": refused("larger than any memory", bound(shape=[HUGE])),
    "bound to 2**70 elements": refused("larger than any memory", bound(shape=[2**70])),
    "bound to half an element": refused("sequence of integers", bound(shape=[0.5])),
    "bound to text": refused("sequence of integers", bound(shape="4")),
    "bound to a number": refused("sequence of integers", bound(shape=4)),
    "bound to 65 dimensions": refused("65 dimensions", bound(shape=[1] * 65)),
    "bound to address 0": refused("address 0x0", bound(buffer_ptr=0)),
    "bound to address -1": refused("address -0x1", bound(buffer_ptr=-1)),
    "bound to address 2**64": refused("address 0x1", bound(buffer_ptr=2**64)),
    "bound to address 1.5": refused("1.5", bound(buffer_ptr=1.5)),
    "a value of -1 elements": refused("[-1]", made([-1])),
    "a value of 2**62 elements": refused("larger than any memory", made([HUGE])),
    "a value of 2**50 elements": refused("cannot be allocated", made([2**50]), OutOfMemory),
    "a value of 2**50 texts": refused("cannot be allocated", made([2**50], 8), OutOfMemory),
    "a value of half an element": refused("sequence of integers", made([0.5])),
    "a value of None elements": refused("sequence of integers", made([None])),
    "a value of 65 dimensions": refused("65 dimensions", made([1] * 65)),
    "an array of -1 elements": refused("[-1]", lambda: NDArray.empty([-1])),
    "an array of half an element": refused("sequence of integers", lambda: NDArray.empty(HALF)),
    "a sparse tensor of half an element": refused(
        "sequence of integers", lambda: ort_lite.SparseTensor.sparse_coo_from_numpy(HALF, np.zeros(0), np.zeros(0, np.int64))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_refused(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=20) == ""
