"""docs/specification.md, part 1: who owns a model's bytes, who borrows them, and when they go."""

import copy
import gc
import mmap
import pickle
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite import ByteSpan, span_of
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Model
from ort_lite.load.tensors import model_tensors
from tests.ownership.models import W, constant, everywhere, inline, model, put_external, put_inline, raw


def span(loaded: Model, name: str = "w") -> ByteSpan:
    found = span_of(constant(loaded, name))
    assert found is not None
    return found


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


# 1.6 to 1.8, 1.17: spans


def test_spec_1_6_an_owned_span_survives_its_source() -> None:
    source = bytearray(inline())
    loaded = ort_lite.load(source)
    source[:] = bytes(len(source))
    source.clear()  # nothing is borrowed: it may be resized
    np.testing.assert_array_equal(constant(loaded), W)
    assert (span(loaded).mode, span(loaded).owner, len(span(loaded))) == ("owned", None, W.nbytes)


def test_spec_1_6_the_bytes_live_as_long_as_the_model() -> None:
    loaded = ort_lite.load(inline())
    watched = weakref.ref(span(loaded))
    gc.disable()
    try:
        array = constant(loaded)
        loaded.graph.initializers.clear()
        loaded.graph.clear()
        assert watched() is not None
        del array
        assert watched() is None, "freed at once, without the collector"
    finally:
        gc.enable()


def test_spec_1_7_a_borrowed_span_points_into_a_buffer() -> None:
    buffer = np.arange(16, dtype=np.uint8)
    part = ByteSpan.of_buffer(buffer, 4, 8)
    assert (part.mode, part.owner, bytes(part)) == ("borrowed", None, bytes(range(4, 12)))
    assert np.shares_memory(part.array(), buffer)
    assert not part.array().flags.writeable
    for offset, nbytes in ((9, 8), (-1, 2), (0, -1)):
        with pytest.raises(InvalidArgument, match="of a buffer that has 16"):
            ByteSpan.of_buffer(buffer, offset, nbytes)


def test_spec_1_8_the_owner_lives_as_long_as_a_tensor_or_a_copy_of_it(tmp_path: Path) -> None:
    loaded = ort_lite.load(put_external(tmp_path), no_copy=True)
    gone: list[str] = []
    span(loaded).attach_deleter(lambda: gone.append("map"))
    view = constant(loaded)[3:5].reshape(2, 1)
    other = copy.copy(span(loaded, "v"))
    del loaded
    gc.collect()
    assert not gone
    np.testing.assert_array_equal(view, W[3:5].reshape(2, 1))
    del view
    gc.collect()
    assert not gone
    assert bytes(other) == (-W).tobytes()
    del other
    gc.collect()
    assert gone == ["map"]


def test_spec_1_17_copies_keep_the_mode_deep_ones_and_pickles_own() -> None:
    data = inline()
    owned, borrowed = span(ort_lite.load(data)), span(ort_lite.load(data, no_copy=True))
    assert [copy.copy(one).mode for one in (owned, borrowed)] == ["owned", "borrowed"]
    assert copy.copy(borrowed).address == borrowed.address
    for one in (owned, borrowed):
        for made in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert (made.mode, made.owner, bytes(made)) == ("owned", None, bytes(one))
            assert made.address != one.address


def test_spec_1_17_a_clone_of_a_model_shares_the_spans_and_their_owner(tmp_path: Path) -> None:
    loaded = ort_lite.load(put_external(tmp_path), no_copy=True)
    clone = ort_lite.load(loaded)
    assert span(clone) is span(copy.copy(loaded)) is span(loaded)
    ort_lite.consolidate_tensors_to_buffer(clone)
    assert span(clone).owner is not span(loaded).owner, "the clone's tensors move, the model's stay"


def test_spec_1_17_a_deep_copy_and_a_pickle_of_a_model_own_their_bytes(tmp_path: Path) -> None:
    loaded = ort_lite.load(put_external(tmp_path), no_copy=True)
    for made in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert (span(made).mode, span(made).owner) == ("owned", None)
        assert str(made.graph) == str(loaded.graph)
        np.testing.assert_array_equal(constant(made), W)
    deep = copy.deepcopy(ort_lite.load(everywhere()))
    assert [one.array.tobytes() for one in model_tensors(deep)] == [
        one.array.tobytes() for one in model_tensors(ort_lite.load(everywhere()))
    ]


# 1.9 to 1.13: loading


def test_spec_1_9_inline_without_no_copy_is_an_owned_copy() -> None:
    data = inline()
    loaded = ort_lite.load(data, no_copy=False)
    assert span(loaded).mode == "owned"
    assert not np.shares_memory(constant(loaded), np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("name", ["w", "s"])
def test_spec_1_10_inline_with_no_copy_borrows_the_callers_bytes(name: str) -> None:
    data = inline()
    before = sys.getrefcount(data)
    loaded = ort_lite.load(data, no_copy=True)
    start = address(np.frombuffer(data, np.uint8))
    assert start <= address(constant(loaded, name)) < start + len(data)
    assert (span(loaded, name).mode, span(loaded, name).owner) == ("borrowed", None)
    assert sys.getrefcount(data) > before, "Python keeps what is borrowed"
    np.testing.assert_array_equal(constant(loaded), W)


def test_spec_1_10_a_buffer_that_is_borrowed_cannot_be_released() -> None:
    source = bytearray(inline())
    loaded = ort_lite.load(source, no_copy=True)
    with pytest.raises(BufferError):
        source.clear()
    region = mmap.mmap(-1, len(source))
    region[:] = bytes(source)
    mapped = ort_lite.load(memoryview(region), no_copy=True)
    with pytest.raises(BufferError, match="exported pointers"):
        region.close()
    del mapped, loaded
    gc.collect()
    region.close()
    source.clear()


def test_spec_1_10_what_the_caller_changes_is_what_a_borrowed_tensor_holds() -> None:
    source = bytearray(inline())
    loaded = ort_lite.load(source, no_copy=True)
    at = bytes(source).index(W.tobytes())
    source[at : at + 4] = np.float32(9).tobytes()
    assert constant(loaded)[0] == 9


def test_spec_1_11_external_without_no_copy_is_an_owned_copy(tmp_path: Path) -> None:
    loaded = ort_lite.load(put_external(tmp_path), no_copy=False)
    (tmp_path / "weights").write_bytes(bytes(2 * W.nbytes))
    np.testing.assert_array_equal(constant(loaded), W)
    assert (span(loaded).mode, span(loaded).owner) == ("owned", None)


def test_spec_1_12_external_with_no_copy_maps_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_external(tmp_path, {"one": [("w", W), ("v", -W)], "two": [("u", W + 1)]})
    made: list[Any] = []

    class Counted(mmap.mmap):
        def __new__(cls, *args: Any, **options: Any) -> "Counted":
            mapped = super().__new__(cls, *args, **options)
            made.append(mapped)
            return mapped

    monkeypatch.setattr(mmap, "mmap", Counted)
    loaded = ort_lite.load(path, no_copy=True)
    assert len(made) == 2
    assert span(loaded, "w").owner is span(loaded, "v").owner is not span(loaded, "u").owner
    assert span(loaded, "v").address - span(loaded, "w").address == W.nbytes
    assert [span(loaded, name).mode for name in "wvu"] == ["borrowed"] * 3
    np.testing.assert_array_equal(constant(loaded, "v"), -W)


@pytest.mark.parametrize(
    ("scenario", "no_copy", "mode", "token"),
    [
        ("file", False, "owned", False),
        ("file", True, "owned", False),
        ("bytes", False, "owned", False),
        ("bytes", True, "borrowed", False),
        ("external", False, "owned", False),
        ("external", True, "borrowed", True),
        ("consolidated", False, "borrowed", True),
    ],
)
def test_spec_1_13_the_loading_table(tmp_path: Path, scenario: str, no_copy: bool, mode: str, token: bool) -> None:
    data = inline()
    source = put_external(tmp_path) if scenario == "external" else data if scenario == "bytes" else put_inline(tmp_path)
    loaded = ort_lite.load(source, no_copy=no_copy, load_external_data=True)
    if scenario == "consolidated":
        consolidate: Callable[..., object] = ort_lite.consolidate_tensors_to_buffer
        assert consolidate(loaded) is None
    assert (span(loaded).mode, span(loaded).owner is not None) == (mode, token)
    assert np.shares_memory(constant(loaded), np.frombuffer(data, np.uint8)) == (scenario == "bytes" and no_copy)
    array = constant(loaded)
    del loaded, source, data
    gc.collect()
    np.testing.assert_array_equal(array, W)


def test_spec_1_13_a_large_file_is_owned_as_well(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    path.write_bytes(model(raw(np.arange(2**22, dtype=np.float32), "w")).SerializeToString())
    loaded = ort_lite.load(path, no_copy=True)
    assert (span(loaded).mode, span(loaded).owner) == ("owned", None)
    path.write_bytes(b"")
    assert constant(loaded)[-1] == 2**22 - 1


# 1.16, 1.18: release


@pytest.mark.parametrize("scenario", ["owned", "external", "consolidated"])
def test_spec_1_16_memory_goes_with_the_last_span(tmp_path: Path, scenario: str) -> None:
    loaded = ort_lite.load(put_external(tmp_path), no_copy=scenario == "external")
    if scenario == "consolidated":
        ort_lite.consolidate_tensors_to_buffer(loaded)
    gone: list[str] = []
    spans = {name: span(loaded, name) for name in ("w", "v")}
    for name, one in spans.items() if scenario == "owned" else [("shared", spans["w"])]:
        one.attach_deleter(partial(gone.append, name))
    del one, loaded
    gc.collect()
    assert gone == []
    del spans["w"]
    gc.collect()
    assert gone == (["w"] if scenario == "owned" else [])
    del spans["v"]
    gc.collect()
    assert gone == (["w", "v"] if scenario == "owned" else ["shared"])


def test_spec_1_16_inline_no_copy_releases_nothing_of_the_callers() -> None:
    data = inline()
    loaded = ort_lite.load(data, no_copy=True)
    del loaded
    gc.collect()
    assert ort_lite.load(data).graph.initializers["w"].shape == (1024,)


def test_spec_1_18_borrowed_tensors_outlive_what_loaded_them(tmp_path: Path) -> None:
    array = constant(ort_lite.load(put_external(tmp_path), no_copy=True))
    for file in tmp_path.iterdir():
        file.unlink()
    gc.collect()
    np.testing.assert_array_equal(array, W)


def test_spec_1_13_every_raw_tensor_lies_in_a_span_wherever_it_is() -> None:
    """Borrowed and owned tensors are the same tensors."""
    data = everywhere().SerializeToString()
    owned, borrowed = ort_lite.load(data), ort_lite.load(data, no_copy=True)
    for one, other in zip(model_tensors(owned), model_tensors(borrowed), strict=True):
        assert (one.name, one.array.dtype, one.array.shape) == (other.name, other.array.dtype, other.array.shape)
        assert one.array.tobytes() == other.array.tobytes()
        modes = [None if found.span is None else found.span.mode for found in (one, other)]
        assert modes == ([None, None] if one.name == "typed" else ["owned", "borrowed"])
