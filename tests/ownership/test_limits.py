"""What a model may not make the loader do: sizes are checked first, nesting is bounded, bytes can be left out."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import ort_lite
from ort_lite import ParseOptions
from ort_lite.errors import InvalidArgument, InvalidGraph, OrtLiteError
from ort_lite.graph import TensorType
from ort_lite.load.tensor_slot import TensorSlot
from ort_lite.load.tensors import model_tensors
from tests.load.models import NESTED, proto
from tests.ownership.models import W, constant, everywhere, inline, model, put_external, raw


@pytest.mark.parametrize("location", ["DEFAULT", "EXTERNAL"])
def test_spec_1_13_a_size_is_checked_before_anything_is_allocated(tmp_path: Path, location: str) -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[2**20, 2**15], raw_data=bytes(64), data_location=location)
    tensor.external_data.add(key="location", value="weights")
    (tmp_path / "weights").write_bytes(bytes(64))
    path = tmp_path / "model.onnx"
    path.write_bytes(model(tensor).SerializeToString())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidGraph, match=r"initialiser 'w': .*(137438953472|which has 64)"):
            ort_lite.load(path)
        with pytest.raises(InvalidGraph, match=r"initialiser 'w': 137,438,953,472 bytes; .*max_tensor_size_bytes is 1,000"):
            ort_lite.load(path, ParseOptions(max_tensor_size_bytes=1000))
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_spec_1_13_a_limit_of_size_holds_for_dense_and_sparse_tensors() -> None:
    options = ParseOptions(max_tensor_size_bytes=4096)
    assert constant(ort_lite.load(inline(), options)).nbytes == 4096
    with pytest.raises(InvalidGraph, match="4,096 bytes"):
        ort_lite.load(inline(), ParseOptions(max_tensor_size_bytes=4095))
    sparse = helper.make_sparse_tensor(raw(np.ones(1, np.float32), "w"), raw(np.zeros(1, np.int64), "i"), [2000])
    made = model()
    made.graph.sparse_initializer.append(sparse)
    with pytest.raises(InvalidGraph, match="sparse initialiser 'w': 8,000 bytes"):
        ort_lite.load(made, options)


def test_graphs_nest_as_deep_as_the_options_allow() -> None:
    nested = proto(NESTED)  # three graphs: 2, 5 and 8 messages deep
    assert ort_lite.load(nested, ParseOptions(max_recursion_depth=8)).graph.nodes
    with pytest.raises(InvalidGraph, match=r"graph '\w+' is 8 messages deep; ParseOptions.max_recursion_depth is 7"):
        ort_lite.load(nested, ParseOptions(max_recursion_depth=7))


class TestStructure:
    def test_initialisers_above_the_threshold_are_left_without_an_array(self) -> None:
        loaded = ort_lite.load(inline(), ParseOptions(skip_raw_data=True))
        large, small = loaded.graph.initializers["w"], loaded.graph.initializers["s"]
        assert large.constant is None
        assert large.type == TensorType("float32", (1024,))
        assert small.constant is not None

    def test_external_data_need_not_be_there(self, tmp_path: Path) -> None:
        path = put_external(tmp_path)
        (tmp_path / "weights").unlink()
        loaded = ort_lite.load(path, load_external_data=False)
        assert [value.constant for value in loaded.graph.initializers.values()] == [None, None]


class TestCallback:
    def test_every_raw_tensor_is_shown_and_a_deleter_is_called_once(self) -> None:
        seen: list[tuple[str, str, int]] = []
        gone: list[str] = []

        def callback(tensor: TensorSlot, graph: str) -> Callable[[], object] | None:
            seen.append((tensor.name, graph, tensor.array.nbytes))
            return (lambda: gone.append("w")) if tensor.name == "w" else None

        loaded = ort_lite.load(everywhere(), ParseOptions(raw_data_callback=callback))
        assert ("w", "main", 4096) in seen
        assert ("inner", "body", 4096) in seen
        assert "typed" not in {name for name, _, _ in seen}
        view = constant(loaded)[:2]
        del loaded
        gc.collect()
        assert gone == []
        del view
        gc.collect()
        assert gone == ["w"]


def test_options_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="options came as SerializeOptions, expected ParseOptions"):
        ort_lite.load(inline(), cast(Any, ort_lite.SerializeOptions()))
    with pytest.raises(InvalidArgument, match="parse_options came as SerializeOptions, expected ParseOptions"):
        ort_lite.InferenceSession(inline(), parse_options=cast(Any, ort_lite.SerializeOptions()))
    with pytest.raises(InvalidArgument, match="options came as ParseOptions, expected SerializeOptions"):
        ort_lite.save(ort_lite.load(inline()), tmp_path / "m.onnx", cast(Any, ParseOptions()))


def test_a_misaligned_tensor_runs_in_a_session_all_the_same() -> None:
    data = next(made for pad in range(8) if misaligned(made := padded(pad)))
    loaded = ort_lite.load(data, no_copy=True)
    session = ort_lite.InferenceSession(loaded, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.ones((1, 1024), np.float32)})
    np.testing.assert_array_equal(y, (W + 1)[None])
    assert not constant(loaded).flags.aligned, "the caller's model is as it was"


DATA = everywhere().SerializeToString()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), max_size=4), st.integers(1, len(DATA)))
def test_spec_1_10_of_damaged_bytes_nothing_is_borrowed_that_is_not_there(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(DATA)
    for position, value in changes:
        data[position] = value
    whole = bytes(data[:length]) if length % 3 else bytes(data)
    try:
        loaded = ort_lite.load(whole, no_copy=True)
    except OrtLiteError:
        return
    start = np.frombuffer(whole, np.uint8).ctypes.data
    for one in model_tensors(loaded):
        if one.span is not None and one.span.mode == "borrowed":
            assert start <= one.span.address <= start + len(whole) - len(one.span)


def padded(pad: int) -> bytes:
    made = model(raw(W, "w"))
    made.producer_name = "p" * (1 + pad)
    return bytes(made.SerializeToString())


def misaligned(data: bytes) -> bool:
    return not constant(ort_lite.load(data, no_copy=True)).flags.aligned
