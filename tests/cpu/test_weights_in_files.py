"""Weights that no run reads again are given up, and read from their file where somebody asks, unless the file has changed."""

import gc
import os
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Fail
from ort_lite.graph.released import DroppedConstant
from ort_lite.memory.sharing import shared
from ort_lite.options.config_keys import KEEP_CONSTANTS
from tests.cpu.check import ramp
from tests.session import prepared_sessions

SHAPE = (64, 64, 3, 3)
IMAGE = {"x": ramp((1, 64, 12, 12))}
CONV = "y = Conv<pads = [1, 1, 1, 1]>(x, w)"
NORMALISED = "c = Conv<pads = [1, 1, 1, 1]>(x, w)  y = BatchNormalization(c, line, line, line, line)"
FREE, TIED = "float[N, 64, H, W] x", "float[N, 64, H, W] x, float[N, 64, H, W] other"


@pytest.fixture
def filters(request: pytest.FixtureRequest) -> Array:
    """Filters of this test alone: sessions share equal ones."""
    seed = list(request.node.name.encode())
    return np.random.default_rng(seed).standard_normal(SHAPE, np.float32)


def save(
    folder: Path, filters: Array, inputs: str = FREE, external: bool = True, body: str = "y = Conv<pads = [1, 1, 1, 1]>(x, w)"
) -> Path:
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> main ({inputs}) => (float[a, b, c, d] y) {{ {body} }}'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(filters, "w"))
    if "line" in body:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.linspace(0.5, 2, 64, dtype=np.float32), "line"))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=external, location="weights", size_threshold=0)
    return path


def session(path: Path, keep: bool = False) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry(KEEP_CONSTANTS, str(int(keep)))
    return ort_lite.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def weight(made: ort_lite.InferenceSession) -> "Array | DroppedConstant | None":
    [partition] = made.explain().assignment.partitions
    [value] = [value for value in partition.constants if value.constant is not None and value.constant.shape == SHAPE]
    return value.constant


def test_filters_are_given_up_and_read_from_their_file_again(tmp_path: Path, filters: Array) -> None:
    made, kept = session(save(tmp_path, filters)), session(tmp_path / "model.onnx", keep=True)
    found = weight(made)
    assert isinstance(found, DroppedConstant)
    assert np.asarray(found).tobytes() == filters.tobytes()
    assert kept.memory()["constants"] - made.memory()["constants"] == filters.nbytes
    for size in (12, 7, 1):
        feed = {"x": ramp((2, 64, size, size))}
        np.testing.assert_array_equal(made.run(None, feed)[0], kept.run(None, feed)[0])
    np.testing.assert_array_equal(made.run(None, IMAGE, verify="partition")[0], kept.run(None, IMAGE)[0])


@pytest.mark.parametrize("change", ["overwritten", "truncated", "removed", "renamed over"])
def test_a_file_that_changed_stops_no_run_and_is_not_read(tmp_path: Path, filters: Array, change: str) -> None:
    made = session(save(tmp_path, filters))
    expected, data = made.run(None, IMAGE)[0], tmp_path / "weights"
    if change == "overwritten":
        before = data.stat()
        data.write_bytes(bytes(filters.nbytes))
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "truncated":
        os.truncate(data, 100)
    elif change == "removed":
        data.unlink()
    else:
        (tmp_path / "new").write_bytes(filters.tobytes())
        (tmp_path / "new").rename(data)
    np.testing.assert_array_equal(made.run(None, IMAGE)[0], expected)
    assert made.run(None, {"x": ramp((3, 64, 5, 6))})[0].shape == (3, 64, 5, 6)
    with pytest.raises(Fail, match=f"cannot be read from .*weights again.*{KEEP_CONSTANTS}"):
        np.asarray(weight(made))


@pytest.mark.parametrize(
    ("inputs", "external", "body"),
    [
        (
            TIED,
            True,
            "z = Conv<pads = [1, 1, 1, 1]>(x, w)  y = Concat<axis = 0>(z, other)",
        ),  # sizes of one name that differ
        (FREE, False, CONV),  # a small model file, which is read as a whole
        (FREE, True, "z = Conv<pads = [1, 1, 1, 1]>(x, w)  s = ReduceSum<keepdims = 1>(w)  y = Mul(z, s)"),
    ],
)
def test_results_do_not_depend_on_files_where_weights_may_be_read_again(
    tmp_path: Path, filters: Array, inputs: str, external: bool, body: str
) -> None:
    made = session(save(tmp_path, filters, inputs, external, body))
    feed = IMAGE | ({"other": ramp((2, 64, 12, 12))} if inputs == TIED else {})
    for file in tmp_path.iterdir():
        file.unlink()
    assert made.run(None, feed)[0].shape[1:] == (64, 12, 12)
    if inputs == TIED or not external:
        assert isinstance(weight(made), np.ndarray)


def test_weights_that_a_fusion_scaled_are_given_up_and_computed_again(
    tmp_path: Path, filters: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared_sessions.store_in(tmp_path / "programs", monkeypatch)
    path = save(tmp_path, filters, body=NORMALISED)
    kept = weight(session(path, keep=True))
    assert isinstance(kept, np.ndarray)
    assert not np.array_equal(kept, filters)
    expected = kept.copy()
    del kept
    first = prepared_sessions.session(path)
    second = prepared_sessions.session(path)
    assert (prepared_sessions.stored(first), prepared_sessions.found(second)) == ("yes", "yes")
    for made in (first, second):
        found = weight(made)
        assert isinstance(found, DroppedConstant)
        assert np.asarray(found).tobytes() == expected.tobytes()
        assert made.memory()["constants"] < filters.nbytes
    np.testing.assert_array_equal(second.run(None, IMAGE, verify="partition")[0], first.run(None, IMAGE)[0])
    os.truncate(tmp_path / "weights", 100)
    first.run(None, IMAGE)
    for made in (first, second):
        with pytest.raises(Fail, match=f"cannot be read from .*weights again.*{KEEP_CONSTANTS}"):
            np.asarray(weight(made))


@pytest.mark.parametrize(
    "body",
    [
        "z = Conv<pads = [1, 1, 1, 1]>(x, w)  v = Sqrt(z)  y = Add(z, v)",
        "a = Conv<pads = [1, 1, 1, 1]>(x, w)  b = Conv<pads = [1, 1, 1, 1]>(a, w)  y = Concat<axis = 1>(a, b)",
    ],
)
def test_weights_are_freed_without_the_garbage_collector(tmp_path: Path, filters: Array, body: str) -> None:
    """No fusion changes the copy of the partition, which is dropped and is full of cycles. Parts of a Concat refer to their values."""
    path = save(tmp_path, filters, body=body)
    gc.collect()
    gc.disable()
    try:
        made = session(path)
        assert isinstance(weight(made), DroppedConstant)
        assert not any(array.shape == SHAPE and np.array_equal(array, filters) for array in shared._known.values())
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="the pages of a mapping are counted in /proc")
def test_pages_of_a_mapped_file_are_given_back_when_weights_are_packed(tmp_path: Path, filters: Array) -> None:
    made = ort_lite.InferenceSession(save(tmp_path, filters), providers=["CPUExecutionProvider"], mmap=True)
    resident = [
        int(part.split("Rss:")[1].split()[0])
        for part in Path("/proc/self/smaps").read_text().split("VmFlags")
        if str(tmp_path / "weights") in part
    ]
    assert resident == [0]
    copied = session(tmp_path / "model.onnx")
    np.testing.assert_array_equal(made.run(None, IMAGE)[0], copied.run(None, IMAGE)[0])
    assert np.asarray(weight(made)).tobytes() == filters.tobytes()
