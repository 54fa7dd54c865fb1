"""Files of external data: which may be read, whose pages sessions share, and models of more than 2 GB."""

import multiprocessing
import os
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_lite
from ort_lite import ParseOptions, SerializeOptions, span_of
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Model, Node, TensorType, Value
from tests.ownership.models import W, constant, model, put_external
from tests.threads import join

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="resident memory is read from /proc/self/smaps")


class TestPlaces:
    """Beside tests/load/test_external.py, which has what is refused."""

    def test_a_download_cache_links_model_and_data_into_a_sibling_folder(self, tmp_path: Path) -> None:
        snapshot = hub(tmp_path, link_model=True)
        np.testing.assert_array_equal(constant(ort_lite.load(snapshot / "model.onnx", no_copy=True)), W)

    def test_where_only_the_data_is_a_link_its_folder_has_to_be_allowed(self, tmp_path: Path) -> None:
        snapshot = hub(tmp_path, link_model=False)
        with pytest.raises(InvalidGraph, match=r"outside of the model's folder .*external_data_roots allows others"):
            ort_lite.load(snapshot / "model.onnx")
        options = ParseOptions(external_data_roots=[tmp_path / "blobs"])
        np.testing.assert_array_equal(constant(ort_lite.load(snapshot / "model.onnx", options)), W)
        session = ort_lite.InferenceSession(
            str(snapshot / "model.onnx"), providers=["CPUExecutionProvider"], parse_options=options
        )
        assert session.run(None, {"x": np.zeros((1, 1), np.float32)})[0].shape == (1, 1024)

    @pytest.mark.parametrize("location", ["../blobs/other", "link", "sub/../../blobs/other"])
    def test_an_allowed_folder_allows_no_other(self, tmp_path: Path, location: str) -> None:
        snapshot = hub(tmp_path, link_model=False)
        (tmp_path / "allowed").mkdir()
        (tmp_path / "blobs" / "other").write_bytes(W.tobytes())
        (snapshot / "link").symlink_to(tmp_path / "blobs" / "other")
        path = put_external(snapshot, {location: [("w", W)]})
        with pytest.raises(InvalidGraph, match="outside"):
            ort_lite.load(path, ParseOptions(external_data_roots=[tmp_path / "allowed"]))

    def test_a_model_from_bytes_finds_its_data_by_the_sessions_option(self, tmp_path: Path) -> None:
        options = ort_lite.SessionOptions()
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
        data = put_external(tmp_path).read_bytes()
        session = ort_lite.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, {"x": np.zeros((1, 1), np.float32)})[0], W[None])


def hub(folder: Path, link_model: bool) -> Path:
    """A download cache: files under content names in `blobs`, a snapshot of links."""
    made = put_external(folder / "made", {"weights": [("w", W)]}).parent
    (folder / "blobs").mkdir()
    snapshot = folder / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    for k, name in enumerate(("model.onnx", "weights")):
        blob = folder / "blobs" / f"{k:040x}"
        (made / name).rename(blob)
        if link_model or name != "model.onnx":
            (snapshot / name).symlink_to(Path("../../blobs") / blob.name)
        else:
            (snapshot / name).write_bytes(blob.read_bytes())
    return snapshot


# Sessions over one file


ROWS, WIDTH = 8192, 1024  # 32 MiB


def put_table(folder: Path) -> Path:
    """y = Gather(table, index): the table is read where it lies."""
    table = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    path = put_external(folder, {"weights": [("table", table)]})
    proto = model(node=helper.make_node("Gather", ["table", "index"], ["y"], name="gather"))
    proto.graph.initializer.append(TensorProto.FromString(load_initializer(path)))
    del proto.graph.input[:]
    proto.graph.input.append(helper.make_tensor_value_info("index", TensorProto.INT64, ["N"]))
    path.write_bytes(proto.SerializeToString())
    return path


def load_initializer(path: Path) -> bytes:
    import onnx

    return bytes(onnx.load(path, load_external_data=False).graph.initializer[0].SerializeToString())


def resident(path: Path) -> dict[str, int]:
    """Rss and Pss in bytes of what is mapped from the file in this process."""
    total = {"Rss": 0, "Pss": 0, "maps": 0}
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
            total["maps"] += inside
        elif inside and (found := re.match(r"^(Rss|Pss): +(\d+) kB", line)):
            total[found[1]] += int(found[2]) * 1024
    return total


@pytest.mark.slow
@LINUX
def test_spec_1_12_nothing_is_read_before_it_is_used(tmp_path: Path) -> None:
    path = put_table(tmp_path)
    session = ort_lite.InferenceSession(str(path), providers=["CPUExecutionProvider"], mmap=True)
    assert resident(tmp_path / "weights")["Rss"] < 2**21, "a page of samples at most"
    (y,) = session.run(None, {"index": np.array([5], np.int64)})
    assert y[0, 0] == 5 * WIDTH
    assert resident(tmp_path / "weights")["Rss"] < 2**22


@pytest.mark.slow
@LINUX
def test_spec_1_12_two_sessions_over_one_file_share_its_pages(tmp_path: Path) -> None:
    path = put_table(tmp_path)
    sessions = [ort_lite.InferenceSession(str(path), providers=["CPUExecutionProvider"], mmap=True) for _ in range(2)]
    index = np.arange(ROWS, dtype=np.int64)
    results = [session.run(None, {"index": index})[0] for session in sessions]
    np.testing.assert_array_equal(results[0], results[1])
    found = resident(tmp_path / "weights")
    size = ROWS * WIDTH * 4
    assert found["maps"] == 1
    assert found["Rss"] == pytest.approx(size, rel=0.01), "the pages are there once"


def test_spec_1_12_a_sessions_weights_lie_in_the_spans_of_the_loader(tmp_path: Path) -> None:
    for mmap, mode, owner in ((False, "owned", None), (True, "borrowed", str(tmp_path / "weights"))):
        session = ort_lite.InferenceSession(str(put_table(tmp_path)), providers=["CPUExecutionProvider"], mmap=mmap)
        array = session._stage_results.model.graph.initializers["table"].constant
        assert array is not None
        span = span_of(array)
        assert type(span) is ort_lite.ByteSpan
        assert (span.mode, span.owner and span.owner.name) == (mode, owner)


# More than 2 GB


def large_model(array: np.ndarray[Any, Any]) -> Model:
    index, y = Value("index", TensorType("int64", (2,))), Value("y")
    table = Value("table", constant=array)
    graph = Graph("main", [index])
    graph.add_initializer(table)
    graph.append(Node("Gather", [table, index], [y], version=17, name="gather"))
    graph.set_outputs([y])
    return Model(graph, {"": 17}, ir_version=8)


def save_and_run(folder: str, answer: Any) -> None:
    """In a process of its own: its peak of resident memory is that of this alone."""
    rows, width = 2**20 + 2, 512  # 4 bytes each: 2 GiB and two rows
    table = np.zeros((rows, width), np.float32)  # pages that were never written take no room
    table[0], table[-1] = 1.0, 2.0
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = os.path.join(folder, "large.onnx")
    ort_lite.save(large_model(table), path, SerializeOptions(external_data="large.data"))
    del table
    status = os.stat(os.path.join(folder, "large.data"))
    session = ort_lite.InferenceSession(path, providers=["CPUExecutionProvider"], mmap=True)
    (y,) = session.run(None, {"index": np.array([0, rows - 1], np.int64)})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.send((status.st_size, status.st_blocks * 512, (peak - start) * 1024, y[:, -1].tolist()))


@LINUX
@pytest.mark.slow
def test_a_model_of_more_than_2_gb_is_saved_and_loaded_in_little_room(tmp_path: Path) -> None:
    receive, answer = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=save_and_run, args=(str(tmp_path), answer))
    process.start()
    answer.close()
    try:
        assert receive.poll(240), "no answer"
        size, on_disk, memory, values = receive.recv()
    finally:
        join(process)
    assert values == [1.0, 2.0]
    assert size > 2**31
    assert on_disk < 2**24
    assert memory < 2**28
