"""The outline of a ModelProto: the same model, without the bytes of its large tensors."""

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from ort_lite.load import wire
from ort_lite.load.wire import EVERY, LARGE, InFile, InMemory, Malformed, Span

BIG = np.arange(LARGE // 4, dtype=np.float32)


def everywhere() -> onnx.ModelProto:
    """A large tensor in every place where a model can have one, small ones beside them."""
    tensor, small = numpy_helper.from_array(BIG, "big"), numpy_helper.from_array(BIG[:3], "small")
    sparse = onnx.SparseTensorProto(dims=[5000])
    sparse.values.CopyFrom(numpy_helper.from_array(BIG, "sparse"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(BIG.size)))
    body = helper.make_graph([], "body", [], [], [tensor])
    attributes: dict[str, Any] = {
        "t": tensor,
        "small": small,
        "many": [tensor, small],
        "g": body,
        "gs": [body, body],
        "s": sparse,
        "ss": [sparse],
    }
    node = helper.make_node("Op", [], ["y"], domain="d", doc_string="x" * 5000, **attributes)
    graph = helper.make_graph([node], "main", [], [], [tensor, small])
    graph.sparse_initializer.append(sparse)
    function = helper.make_function("d", "f", [], [], [node], [], attribute_protos=[helper.make_attribute("default", tensor)])
    return helper.make_model(graph, functions=[function], producer_name="p" * 300)


def outline(data: bytes, least: int = LARGE) -> tuple[bytes, frozenset[Span]] | None:
    """Of bytes in memory, and the same of a file of which windows are read."""
    sources = (InMemory(memoryview(data)), InFile(len(data), lambda offset, count: data[offset : offset + count]))
    found: list[Any] = []
    for source in sources:
        try:
            found.append(wire.outline(source, least))
        except Malformed as error:
            found.append(error)
    if all(isinstance(one, Malformed) for one in found):
        raise found[0]
    assert found[0] == found[1]
    one: tuple[bytes, frozenset[Span]] | None = found[0]
    return one


def test_a_file_is_read_once_for_each_large_tensor() -> None:
    tensors = [numpy_helper.from_array(np.ones(1 << 14, np.float32), name) for name in "abc"]
    data: bytes = helper.make_model(helper.make_graph([], "main", [], [], tensors)).SerializeToString()
    reads: list[tuple[int, int]] = []

    def read(offset: int, count: int) -> bytes:
        reads.append((offset, offset + count))
        return data[offset : offset + count]

    found = wire.outline(InFile(len(data), read), LARGE)
    assert found is not None
    assert len(found[1]) == 3
    assert len(reads) == 4
    assert all(stop <= start for (_, stop), (start, _) in pairwise(reads))


def restored(small: bytes, data: bytes) -> onnx.ModelProto:
    """The outline with the bytes back in their places."""
    model: onnx.ModelProto = onnx.ModelProto.FromString(small)

    def walk(message: Any) -> None:
        for field, value in message.ListFields():
            if field.message_type is not None:
                for inner in value if field.is_repeated else [value]:
                    if isinstance(inner, onnx.TensorProto) and inner.HasField("segment"):
                        inner.raw_data = data[inner.segment.begin : inner.segment.end]
                        inner.ClearField("segment")
                    walk(inner)

    walk(model)
    return model


def test_large_tensors_are_found_wherever_they_are() -> None:
    model = everywhere()
    data = model.SerializeToString()
    found = outline(data)
    assert found is not None
    small, spans = found
    assert restored(small, data) == model
    assert len(small) < 20_000 < len(data) / 5
    assert data.count(BIG.tobytes()) == sum(data[begin:end] == BIG.tobytes() for begin, end in spans) == 17


def test_small_tensors_stay() -> None:
    model = helper.make_model(helper.make_graph([], "g", [], [], [numpy_helper.from_array(BIG[:-1], "w")]))
    data = model.SerializeToString()
    assert outline(data) == (data, frozenset())


def test_what_only_protobuf_can_judge_is_left_to_it() -> None:
    twice = numpy_helper.from_array(BIG, "w").SerializeToString() * 2  # of two values of a field the last one holds
    segment = numpy_helper.from_array(BIG, "w")
    segment.segment.begin = 1
    for tensor in (twice, segment.SerializeToString()):
        graph = b"\x2a" + varint(len(tensor)) + tensor
        assert outline(b"\x3a" + varint(len(graph)) + graph) is None


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14])


def test_nesting_without_end_is_left_to_protobuf() -> None:
    data = b"\x08\1" * (LARGE // 2)
    for _ in range(30):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # a graph in an attribute of a node
            data = tag + varint(len(data)) + data
    assert outline(b"\x3a" + varint(len(data)) + data) is None


@pytest.mark.parametrize("tag", [0x3B, 0x3C], ids=["group", "end of group"])
def test_groups_are_left_to_protobuf(tag: int) -> None:
    assert outline(bytes([tag, 1, 1, 1])) is None


@pytest.mark.parametrize(
    "data",
    [b"\x3e\1", b"\x3f\1", b"\0\1", b"\1" * 9, b"\x08" + b"\xff" * 10, b"\x08\x80", b"\x3a\5\1", b"\x0d\1"],
    ids=["type 6", "type 7", "number 0", "number 0, fixed", "a long varint", "no end", "too long", "too short"],
)
def test_what_protobuf_would_refuse_is_malformed(data: bytes) -> None:
    for whole in (data, b"\x3a" + varint(LARGE + len(data)) + b"\x12" + varint(LARGE - 4) + bytes(LARGE - 4) + data):
        with pytest.raises(DecodeError):
            onnx.ModelProto.FromString(whole)
        with pytest.raises(Malformed):
            outline(whole)


@pytest.mark.parametrize("least", [LARGE, EVERY])
def test_more_fields_than_the_bytes_allow_are_left_to_protobuf(least: int) -> None:
    free, bytes_a_field = wire._BUDGETS[least]
    for count, walked in ((free, True), (free + bytes_a_field * free, False)):
        assert (outline(b"\x08\1" * count, least) is not None) == walked


DATA = everywhere().SerializeToString()
HEADERS = [k for k in range(len(DATA)) if k < 200 or DATA[k : k + 1] != DATA[k - 4 : k - 3]]


@given(st.integers(0, len(DATA)))
def test_a_truncated_model_is_never_taken_for_a_whole_one(length: int) -> None:
    judged_alike(DATA[:length])


@given(st.lists(st.tuples(st.sampled_from(HEADERS), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes_are_judged_as_protobuf_judges_them(changes: list[tuple[int, int]]) -> None:
    data = bytearray(DATA)
    for position, value in changes:
        data[position] = value
    judged_alike(bytes(data))


def judged_alike(data: bytes) -> None:
    """The outline, of large tensors or of all, gives what protobuf reads from the whole, or an error where that does."""
    for least in (LARGE, EVERY):
        try:
            found = outline(data, least)
        except Malformed:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(data)
            continue
        if found is None:
            continue
        try:
            whole = onnx.ModelProto.FromString(data)
        except DecodeError:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(found[0])
            continue
        assert restored(found[0], data) == whole


def test_every_tensor_is_left_out_where_that_is_asked_for() -> None:
    graph = helper.make_graph([], "main", [], [], [numpy_helper.from_array(np.ones(1, np.int8), "w")])
    found = outline(helper.make_model(graph).SerializeToString(), EVERY)
    assert found is not None
    assert [stop - begin for begin, stop in found[1]] == [1]


def test_a_long_list_is_not_walked() -> None:
    node = helper.make_node("Op", [], ["y"], ints=list(range(LARGE)), strings=["s"] * LARGE, floats=[1.0] * LARGE)
    data = helper.make_model(helper.make_graph([node], "main", [], [])).SerializeToString()
    with patch.object(wire, "_varint", wraps=wire._varint) as read:
        assert outline(data) == (data, frozenset())
    assert read.call_count < 400
