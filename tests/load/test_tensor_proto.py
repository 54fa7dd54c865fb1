"""TensorProto to arrays and back, against onnx.numpy_helper."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ort_lite.dtypes import BITS, from_onnx, to_numpy
from ort_lite.errors import InvalidGraph
from ort_lite.load.proto import pb
from ort_lite.load.spans import ByteSpan
from ort_lite.load.tensor_proto import TensorReader, from_span, read_tensor, write_tensor

NUMBERS = [code for code in range(1, 29) if code != TensorProto.STRING]
DTYPES = [from_onnx(code) for code in NUMBERS]
SHAPES: list[tuple[int, ...]] = [(), (1,), (2, 3), (7,), (0, 3)]


def ramp(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Small numbers that every type holds; odd counts leave a packed byte half empty."""
    count = int(np.prod(shape))
    if dtype in ("float8_e8m0fnu", "bool"):
        return (np.arange(count) % 2 + (dtype != "bool")).astype(to_numpy(dtype)).reshape(shape)
    return (np.arange(count) % 2 * (1 if "2" in dtype else 3) - (dtype[0] not in "ub")).astype(to_numpy(dtype)).reshape(shape)


def equal(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()
    assert not got.flags.writeable


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_raw_data_is_what_onnx_reads(dtype: str, shape: tuple[int, ...]) -> None:
    array = ramp(dtype, shape)
    proto = numpy_helper.from_array(array, "t")
    equal(read_tensor(proto, "t"), array)
    ours = pb.TensorProto()
    write_tensor(array, ours, "t")
    assert ours == proto


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("code", NUMBERS)
def test_typed_fields_are_what_onnx_reads(code: int, shape: tuple[int, ...]) -> None:
    array = ramp(from_onnx(code), shape)
    proto = helper.make_tensor("t", code, shape, array.reshape(-1).astype(complex if array.dtype.kind == "c" else float))
    assert not proto.HasField("raw_data")
    equal(read_tensor(proto, "t"), array)


@given(st.binary(max_size=12), st.sampled_from(sorted(BITS)), st.integers(0, 3))
def test_any_packed_bytes_come_back(data: bytes, dtype: str, less: int) -> None:
    bits = BITS[dtype]
    count = max(0, len(data) * 8 // bits - min(less, 7 // bits))  # the last byte need not be full
    data = data[: -(-count * bits // 8)]
    proto = pb.TensorProto(data_type=helper.np_dtype_to_tensor_dtype(to_numpy(dtype)), dims=[count], raw_data=data)
    array = read_tensor(proto, "t")
    np.testing.assert_array_equal(array, numpy_helper.to_array(proto))
    again = pb.TensorProto()
    write_tensor(array, again)
    equal(read_tensor(again, "t"), array)


def test_strings_survive_also_where_they_are_not_utf_8() -> None:
    array = np.array([["a", "naïve"], ["", b"\xff\xfe".decode("utf-8", "surrogateescape")]], dtype=object)
    proto = pb.TensorProto()
    write_tensor(array, proto)
    assert list(proto.string_data) == [b"a", "naïve".encode(), b"", b"\xff\xfe"]
    found = read_tensor(proto, "t")
    assert found.dtype == object
    assert found.tolist() == array.tolist()


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([b"a", b"b"]), np.array(["a", b"b"], dtype=object)], ids=repr)
def test_every_kind_of_text_array_is_written(array: np.ndarray[Any, Any]) -> None:
    proto = pb.TensorProto()
    write_tensor(array, proto)
    assert list(proto.string_data) == [b"a", b"b"]


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3).T, np.arange(6.0)[::-2], np.arange(6).astype(">i4"), np.float32(3).reshape(())],
    ids=["transposed", "strided", "big-endian", "scalar"],
)
def test_layout_and_byte_order_do_not_matter_when_writing(array: np.ndarray[Any, Any]) -> None:
    proto = pb.TensorProto()
    write_tensor(array, proto)
    np.testing.assert_array_equal(read_tensor(proto, "t"), array)


def test_bytes_of_bool_other_than_0_and_1_are_true() -> None:
    array = read_tensor(pb.TensorProto(data_type=TensorProto.BOOL, dims=[4], raw_data=b"\x00\x01\x02\xff"), "t")
    assert array.view(np.uint8).tolist() == [0, 1, 1, 1]


class TestSpans:
    def test_an_aligned_span_is_viewed(self) -> None:
        buffer = np.arange(4, dtype=np.float32)
        assert np.shares_memory(from_span(ByteSpan.of_buffer(buffer, 8), "float32", (2,)), buffer)

    def test_a_misaligned_one_is_copied_where_it_has_to_be_aligned(self) -> None:
        buffer = np.frombuffer(b"\0" + np.arange(4, dtype=np.float32).tobytes(), np.uint8)
        for aligned in (True, False):
            array = from_span(ByteSpan.of_buffer(buffer, 1), "float32", (4,), aligned)
            assert array.tolist() == [0, 1, 2, 3]
            assert array.flags.aligned == aligned
            assert np.shares_memory(array, buffer) != aligned


class TestErrors:
    @pytest.mark.parametrize(
        ("proto", "message"),
        [
            (pb.TensorProto(data_type=1, dims=[2], raw_data=b"1234"), r"need 8 bytes of float32, there are 4"),
            (
                pb.TensorProto(data_type=1, dims=[2], raw_data=b"123456789"),
                r"dimensions \[2\] need 8 bytes of float32, there are 9",
            ),
            (pb.TensorProto(data_type=1, dims=[2**40, 2**40], raw_data=b"1234"), "there are 4"),
            (pb.TensorProto(data_type=22, dims=[5], raw_data=b"12"), r"need 3 bytes of int4, there are 2"),
            (pb.TensorProto(data_type=1, dims=[3], float_data=[1, 2]), r"need 3 float_data, there are 2"),
            (pb.TensorProto(data_type=1, dims=[3]), r"need 3 float_data, there are 0"),
            (pb.TensorProto(data_type=14, dims=[1], float_data=[1]), r"need 2 float_data, there are 1"),
            (pb.TensorProto(data_type=8, dims=[2], string_data=[b"a"]), r"need 2 strings, there are 1"),
            (pb.TensorProto(data_type=1, dims=[-1], raw_data=b""), r"dimensions \[-1\] are negative"),
            (pb.TensorProto(data_type=0, dims=[1]), "element type 0 is not known"),
            (pb.TensorProto(data_type=999, dims=[1]), "element type 999 is not known"),
            (pb.TensorProto(data_type=1, dims=[1], data_location=TensorProto.EXTERNAL), "external data cannot be read here"),
        ],
        ids=lambda x: "" if isinstance(x, str) else str(x).replace("\n", " "),
    )
    def test_a_tensor_that_contradicts_itself_is_named(self, proto: pb.TensorProto, message: str) -> None:
        with pytest.raises(InvalidGraph, match=f"initialiser 'w': .*{message}"):
            read_tensor(proto, "initialiser 'w'")

    def test_types_that_onnx_lacks_cannot_be_written(self) -> None:
        with pytest.raises(KeyError, match="datetime64"):
            write_tensor(np.zeros(2, "datetime64[s]"), pb.TensorProto())


def sparse(values: list[float], indices: Any, dims: list[int], kind: int = TensorProto.FLOAT) -> onnx.SparseTensorProto:
    index = np.array(indices, np.int64)
    proto = pb.SparseTensorProto(dims=dims)
    proto.values.CopyFrom(helper.make_tensor("w", kind, [len(values)], values))
    proto.indices.CopyFrom(numpy_helper.from_array(index))
    return proto


class TestSparse:
    @pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]], ids=["linear", "coordinates"])
    def test_it_becomes_dense(self, indices: Any) -> None:
        array = read_tensor(sparse([5, 7], indices, [2, 3]), "w")
        equal(array, np.array([[0, 5, 0], [0, 0, 7]], np.float32))

    def test_strings_are_empty_where_nothing_is_said(self) -> None:
        proto = sparse([], [2], [3])
        proto.values.CopyFrom(numpy_helper.from_array(np.array(["a"], object), "w"))
        assert read_tensor(proto, "w").tolist() == ["", "", "a"]
        proto.dims[:] = [2**40]
        with pytest.raises(InvalidGraph, match="too large to make dense"):
            read_tensor(proto, "w")

    def test_one_without_values_is_zero(self) -> None:
        assert read_tensor(sparse([], [], [2]), "w").tolist() == [0, 0]

    @pytest.mark.parametrize(
        ("proto", "message"),
        [
            (sparse([1], [6], [2, 3]), r"an index of the sparse tensor is outside \[6\]"),
            (sparse([1], [-1], [2, 3]), r"outside \[6\]"),
            (sparse([1], [[0, 3]], [2, 3]), r"outside \[2, 3\]"),
            (sparse([1], [1, 2], [2, 3]), r"1 sparse values have indices int64\[2\]"),
            (sparse([1], [0], [2**33]), r"too large to make dense"),
            (sparse([1], [0], [2**40, 2**40]), r"too large to make dense"),
            (sparse([1], [0], [-2]), "is not supported"),
        ],
        ids=lambda x: x if isinstance(x, str) else "",
    )
    def test_one_that_contradicts_itself_is_named(self, proto: pb.SparseTensorProto, message: str) -> None:
        with pytest.raises(InvalidGraph, match=f"w: .*{message}"):
            read_tensor(proto, "w")


def test_a_span_of_the_file_stands_for_raw_data_only_where_the_outline_put_it() -> None:
    data = memoryview(np.arange(4, dtype=np.float32).tobytes())
    proto = pb.TensorProto(data_type=1, dims=[2])
    proto.segment.begin, proto.segment.end = 8, 16
    reader = TensorReader({(8, 16)}, lambda begin, end: ByteSpan.of_bytes(data[begin:end]))
    array = reader(proto, "w")
    equal(array, np.array([2, 3], np.float32))
    assert not np.shares_memory(array, np.frombuffer(data, np.float32))
    for begin, end in [(0, 8), (4, 1000)]:
        proto.segment.begin, proto.segment.end = begin, end
        with pytest.raises(InvalidGraph, match="need 2 float_data, there are 0"):
            reader(proto, "w")
