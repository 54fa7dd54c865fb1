"""OrtValue: onnxruntime's methods, beside onnxruntime where it gives an answer."""

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from ort_lite import NDArray, OrtValue
from ort_lite.errors import InvalidArgument

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(3, np.int64),
    np.array([True, False]),
    np.zeros((0, 2), np.float16),
]
QUESTIONS = (
    "shape",
    "data_type",
    "element_type",
    "is_tensor",
    "is_sparse_tensor",
    "is_tensor_sequence",
    "has_value",
    "device_name",
)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_answers_are_onnxruntimes(array: Any) -> None:
    ours, theirs = OrtValue.ortvalue_from_numpy(array), onnxruntime.OrtValue.ortvalue_from_numpy(array)
    for question in QUESTIONS:
        assert getattr(ours, question)() == getattr(theirs, question)(), question
    assert ours.numpy().tolist() == theirs.numpy().tolist()
    assert ours.tensor_size_in_bytes() == theirs.tensor_size_in_bytes()


def test_strings_are_held_too() -> None:
    value = OrtValue.ortvalue_from_numpy(np.array([["a", "b"]], object))
    assert (value.data_type(), value.shape(), value.numpy().tolist()) == ("tensor(string)", [1, 2], [["a", "b"]])


def test_every_method_of_onnxruntimes_is_there() -> None:
    theirs = {name for name in dir(onnxruntime.OrtValue) if not name.startswith("_")}
    assert theirs <= set(dir(OrtValue))


def test_an_array_is_shared_and_another_layout_copied() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.data_ptr() == array.ctypes.data
    array[0, 0] = 9
    assert value.numpy()[0, 0] == 9
    assert OrtValue(array.T).data_ptr() != array.ctypes.data
    assert np.shares_memory(np.asarray(value), array)
    assert np.shares_memory(np.from_dlpack(value), array)
    array.shape = value.numpy().shape = (6,)
    assert value.shape() == [2, 3]


@pytest.mark.parametrize(
    "array", [np.arange(3, dtype=">f4"), np.frombuffer(b"\0\0\0\0\0\0\0\0?", np.float32, 2, 1)], ids=["big", "odd"]
)
def test_an_array_of_another_byte_order_or_alignment_is_copied(array: Any) -> None:
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.data_type() == "tensor(float)"
    assert value.numpy().flags.aligned
    assert value.numpy().dtype.isnative
    assert value.numpy().tolist() == array.tolist()


def test_a_tensor_is_made_from_a_shape_and_either_kind_of_type() -> None:
    for kind, name in [(np.int8, "tensor(int8)"), (TensorProto.BFLOAT16, "tensor(bfloat16)"), ("float64", "tensor(double)")]:
        value = OrtValue.ortvalue_from_shape_and_type([2, 3], kind)
        assert (value.data_type(), value.shape()) == (name, [2, 3])
        assert not value.numpy().astype(np.float32).any()
    with pytest.raises(InvalidArgument, match=r"element type 999; expected a NumPy type or a TensorProto.DataType"):
        OrtValue.ortvalue_from_shape_and_type([2], 999)


def test_bits_are_read_as_an_onnx_type_of_their_size() -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert value.element_type() == TensorProto.BFLOAT16
    assert value.numpy().tolist() == [1.0, 2.0]
    assert value.data_ptr() == bits.ctypes.data
    with pytest.raises(InvalidArgument, match="another size"):
        OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.FLOAT)


def test_dlpack_goes_both_ways_without_a_copy() -> None:
    array = np.arange(4.0)
    value = OrtValue.from_dlpack(array)
    assert value.data_ptr() == array.ctypes.data
    assert np.shares_memory(np.from_dlpack(value), array)
    assert value.__dlpack_device__() == (1, 0)
    assert onnxruntime.OrtValue.from_dlpack(value).numpy().tolist() == array.tolist()
    assert OrtValue.from_dlpack(onnxruntime.OrtValue.ortvalue_from_numpy(array)).numpy().tolist() == array.tolist()
    assert OrtValue(NDArray.from_numpy(array)).data_ptr() == array.ctypes.data
    with pytest.raises(InvalidArgument, match="string has no DLDataType"):
        OrtValue(np.array(["a"], object)).__dlpack__()


def test_elements_are_replaced_in_place() -> None:
    value = OrtValue.ortvalue_from_shape_and_type([3], np.float32)
    address = value.data_ptr()
    value.update_inplace(np.arange(6, dtype=np.float32)[::2])
    assert (value.numpy().tolist(), value.data_ptr()) == ([0, 2, 4], address)
    value.update_inplace(OrtValue(np.ones(3, np.float32)))
    assert value.numpy().tolist() == [1, 1, 1]
    for wrong in (np.zeros(2, np.float32), np.zeros(3)):
        with pytest.raises(InvalidArgument, match=r"update_inplace: got .*, the value is float32\[3\]"):
            value.update_inplace(wrong)
    with pytest.raises(InvalidArgument, match="read-only"):
        OrtValue(np.frombuffer(bytes(12), np.float32)).update_inplace(np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([np.zeros(2, np.float32)], "seq(tensor(float))"),
        ([], "seq(unknown)"),
        ({1: 0.5}, "map(int64,tensor(double))"),
        ({"a": 1}, "map(string,tensor(int64))"),
        (None, "unknown"),
    ],
)
def test_what_is_no_tensor_says_so(value: Any, kind: str) -> None:
    made = OrtValue(value)
    assert (made.data_type(), made.is_tensor(), made.has_value()) == (kind, False, value is not None)
    assert made.is_tensor_sequence() == isinstance(value, list)
    assert made.value() is value
    with pytest.raises(InvalidArgument, match="expected a tensor"):
        made.numpy()


def test_types_narrower_than_a_byte_are_held_as_arrays() -> None:
    array = np.array([1, -2], ml_dtypes.int4)
    value = OrtValue(array)
    assert (value.data_type(), value.shape(), value.data_ptr()) == ("tensor(int4)", [2], array.ctypes.data)


@pytest.mark.parametrize("device", [("cuda", 0), ("cpu", 1)])
def test_a_device_that_no_provider_has_is_named(device: tuple[str, int]) -> None:
    named = "{}:{}".format(*device)
    with pytest.raises(InvalidArgument, match=f"no installed or registered provider has a device {named}; there are cpu:0"):
        OrtValue.ortvalue_from_numpy(np.zeros(1), *device)
