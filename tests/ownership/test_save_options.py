"""SerializeOptions: what goes into the file of external data, and where in it."""

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite import SerializeOptions
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.ownership.models import W, constant, model, raw

KINDS = [np.float64, np.int8, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4]


def entries(path: Path) -> dict[str, dict[str, str]]:
    """Of the initialisers in external data, by name."""
    made = onnx.load(path, load_external_data=False).graph.initializer
    return {tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in made if tensor.external_data}


@pytest.mark.parametrize(("threshold", "outside"), [(0, ["n63", "n64", "w"]), (64, ["n64", "w"]), (65, ["w"])])
def test_spec_1_3_the_threshold_says_what_goes_outside(tmp_path: Path, threshold: int, outside: list[str]) -> None:
    loaded = ort_lite.load(model(*(raw(np.ones(n, np.uint8), f"n{n}") for n in (63, 64)), raw(W, "w")))
    path = tmp_path / "m.onnx"
    ort_lite.save(loaded, path, SerializeOptions(raw_data_threshold=threshold, external_data="m.data"))
    assert sorted(entries(path)) == outside
    ort_lite.save(loaded, path, external_data="m.data")
    assert sorted(entries(path)) == ["n64", "w"]


@pytest.mark.parametrize(("alignment", "multiple"), [(0, 64), (4096, 4096), (48, 48)])
def test_spec_1_5_offsets_in_the_file_are_aligned(tmp_path: Path, alignment: int, multiple: int) -> None:
    loaded = ort_lite.load(model(raw(np.ones(65, np.uint8), "n"), raw(W, "w")))
    path = tmp_path / "m.onnx"
    ort_lite.save(loaded, path, SerializeOptions(alignment=alignment, external_data="m.data"))
    assert {name: int(entry["offset"]) % multiple for name, entry in entries(path).items()} == {"n": 0, "w": 0}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_every_kind_of_element_comes_back(tmp_path: Path, kind: type) -> None:
    array: Array = (np.arange(201) % 2).astype(kind)
    loaded = ort_lite.load(model(raw(array, "w")))
    path = tmp_path / "m.onnx"
    ort_lite.save(loaded, path, SerializeOptions(external_data="m.data"))
    onnx.checker.check_model(str(path))
    for no_copy in (False, True):
        again = constant(ort_lite.load(path, no_copy=no_copy))
        assert (again.dtype, again.tobytes()) == (array.dtype, array.tobytes())


def test_a_session_writes_its_optimised_model_with_external_data(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimised.data")
    source = model(raw(W, "w"))
    ort_lite.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    assert list(entries(tmp_path / "optimised.onnx")) == ["w"]
    again = ort_lite.InferenceSession(str(tmp_path / "optimised.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(again.run(None, {"x": np.zeros((1, 1024), np.float32)})[0], W[None])
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "much")
    with pytest.raises(InvalidArgument, match=r"min_size_in_bytes is 'much', expected a number of bytes"):
        ort_lite.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def test_stretches_of_zeros_are_holes_and_a_last_one_counts(tmp_path: Path) -> None:
    array = np.zeros(2**22, np.uint8)
    array[0] = 1
    ort_lite.save(ort_lite.load(model(raw(array, "w"))), tmp_path / "m.onnx", external_data="m.data")
    assert (tmp_path / "m.data").stat().st_size == array.nbytes
    if hasattr(os.stat_result, "st_blocks"):
        assert (tmp_path / "m.data").stat().st_blocks * 512 <= 2**21
    np.testing.assert_array_equal(constant(ort_lite.load(tmp_path / "m.onnx", no_copy=True)), array)
