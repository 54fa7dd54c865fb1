"""External data: copied, or mapped once a file, never outside of the model's folder, sizes checked before anything is made."""

import gc
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_lite.dtypes import from_numpy, to_onnx
from ort_lite.errors import InvalidArgument, InvalidGraph, NoSuchFile, OrtLiteError
from ort_lite.graph import Graph
from ort_lite.load.load import load
from ort_lite.load.parse_options import ParseOptions
from ort_lite.load.tensor_proto import pack
from tests.load.models import Array, nodes

A, B = np.arange(4, dtype=np.float32), np.arange(6, dtype=np.int64).reshape(2, 3)


def described(name: str, array: Array, **entries: object) -> TensorProto:
    proto = TensorProto(name=name, data_type=to_onnx(from_numpy(array.dtype)), dims=array.shape)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


def put(folder: Path, *tensors: TensorProto) -> Path:
    """A model with these initialisers; the file `w` beside it holds A, then B."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w").write_bytes(A.tobytes() + B.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(nodes(helper.make_node("Relu", ["x"], ["y"]), initializer=list(tensors)).SerializeToString())
    return path


def constant(graph: Graph, name: str) -> Array:
    array = graph.initializers[name].constant
    assert array is not None
    return array


def test_offset_and_length_may_be_left_out(tmp_path: Path) -> None:
    graph = load(put(tmp_path, described("a", A, location="w"))).graph
    np.testing.assert_array_equal(constant(graph, "a"), A)


def test_a_misaligned_tensor_is_copied_where_it_is_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path, described("a", A, location="odd", offset=1))
    (tmp_path / "odd").write_bytes(b"\0" + A.tobytes())
    options = ParseOptions(no_copy=True, copy_misaligned=True)
    for chosen, aligned in ((options, True), (None, True), (ParseOptions(no_copy=True), False)):
        a = constant(load(path, chosen).graph, "a")
        assert a.flags.aligned == aligned
        np.testing.assert_array_equal(a, A)


def test_packed_types_are_unpacked(tmp_path: Path) -> None:
    import ml_dtypes

    array = np.array([1, -2, 3], ml_dtypes.int4)
    path = put(tmp_path, described("a", array, location="packed"))
    (tmp_path / "packed").write_bytes(pack(array, 4))
    assert constant(load(path).graph, "a").astype(int).tolist() == [1, -2, 3]


def test_an_empty_tensor_needs_no_bytes(tmp_path: Path) -> None:
    path = put(tmp_path, described("a", A[:0], location="empty"))
    (tmp_path / "empty").write_bytes(b"")
    assert constant(load(path).graph, "a").shape == (0,)


def test_attributes_may_be_external_too(tmp_path: Path) -> None:
    path = put(tmp_path)
    model = nodes(helper.make_node("Constant", [], ["y"], value=described("a", A, location="w")))
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(load(path).graph.nodes[0].attr("value"), A)


class TestPlaces:
    def test_a_subfolder_is_inside(self, tmp_path: Path) -> None:
        path = put(tmp_path, described("a", A, location="sub/w"))
        (tmp_path / "sub").mkdir()
        (tmp_path / "w").rename(tmp_path / "sub" / "w")
        np.testing.assert_array_equal(constant(load(path).graph, "a"), A)

    @pytest.mark.parametrize("location", ["../w", "sub/../../w", "{absolute}", "link", "linked/w"])
    def test_outside_of_the_folder_nothing_is_read(self, tmp_path: Path, location: str) -> None:
        folder = tmp_path / "model"
        path = put(folder, described("a", A, location=location.replace("{absolute}", str(tmp_path / "w"))))
        (tmp_path / "w").write_bytes(A.tobytes())
        (folder / "link").symlink_to(tmp_path / "w")
        (folder / "linked").symlink_to(tmp_path)
        (folder / "sub").mkdir()
        with pytest.raises(InvalidGraph, match=r"initialiser 'a': external data .* is outside of the model's folder"):
            load(path)

    def test_a_folder_with_a_longer_name_is_outside(self, tmp_path: Path) -> None:
        path = put(tmp_path / "model", described("a", A, location="../model2/w"))
        put(tmp_path / "model2")
        with pytest.raises(InvalidGraph, match="outside"):
            load(path)

    def test_a_model_from_bytes_needs_a_folder(self, tmp_path: Path) -> None:
        data = put(tmp_path, described("a", A, location="w")).read_bytes()
        with pytest.raises(
            InvalidArgument, match="initialiser 'a': its data is in the file 'w'; load the model by its path, or pass"
        ):
            load(data)
        np.testing.assert_array_equal(constant(load(data, folder=tmp_path).graph, "a"), A)
        np.testing.assert_array_equal(constant(load(onnx.load_from_string(data), folder=str(tmp_path)).graph, "a"), A)

    def test_a_relative_path_is_one_from_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path, described("a", A, location="w"))
        monkeypatch.chdir(tmp_path)
        np.testing.assert_array_equal(constant(load("model.onnx").graph, "a"), A)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        path = put(tmp_path, described("a", A, location="pipe"))
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidGraph, match="'pipe' is not a regular file"):
            load(path)


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({}, InvalidGraph, "without a usable location: ''"),
        ({"location": "a\0b"}, InvalidGraph, "without a usable location"),
        ({"location": "absent"}, NoSuchFile, "external data file .*absent cannot be opened: No such file"),
        ({"location": "."}, InvalidGraph, "is not a regular file"),
        ({"location": "w", "length": 12}, InvalidGraph, "12 bytes, its dimensions and element type need 16"),
        ({"location": "w", "offset": 49}, InvalidGraph, "bytes 49 to 65 of 'w', which has 64: cut short"),
        ({"location": "w", "offset": 2**62}, InvalidGraph, "has offset '4611686018427387904'|which has 64"),
        ({"location": "w", "offset": -4}, InvalidGraph, "has offset '-4', expected a number of bytes"),
        ({"location": "w", "offset": "1e3"}, InvalidGraph, "has offset '1e3', expected a number of bytes"),
        ({"location": "w", "length": "9" * 5000}, InvalidGraph, "expected a number of bytes"),
    ],
    ids=str,
)
def test_a_description_that_cannot_be_is_named(
    tmp_path: Path, entries: dict[str, object], error: type[OrtLiteError], message: str
) -> None:
    with pytest.raises(error, match=f"initialiser 'a': .*({message})"):
        load(put(tmp_path, described("a", A, **entries)))


def test_a_size_that_the_file_does_not_have_allocates_nothing(tmp_path: Path) -> None:
    huge = TensorProto(name="a", data_type=1, dims=[2**40, 2**20], data_location=TensorProto.EXTERNAL)
    huge.external_data.add(key="location", value="w")
    with pytest.raises(InvalidGraph, match="which has 64"):
        load(put(tmp_path, huge))


def test_strings_cannot_be_external(tmp_path: Path) -> None:
    tensor = TensorProto(name="a", data_type=TensorProto.STRING, dims=[1], data_location=TensorProto.EXTERNAL)
    with pytest.raises(InvalidGraph, match="initialiser 'a': string in external data cannot be read"):
        load(put(tmp_path, tensor))


def test_a_mapped_file_is_one_for_all_models_over_it(tmp_path: Path) -> None:
    path = put(tmp_path, described("a", A, location="w", length=16))
    one, other = (load(path, no_copy=True) for _ in range(2))
    assert np.shares_memory(constant(one.graph, "a"), constant(other.graph, "a"))


def test_a_copy_is_made_once_for_tensors_in_one_place(tmp_path: Path) -> None:
    path = put(tmp_path, described("a", A, location="w", length=16), described("b", A, location="./w", length=16))
    graph = load(path).graph
    assert np.shares_memory(constant(graph, "a"), constant(graph, "b"))
    (tmp_path / "w").write_bytes(bytes(64))
    np.testing.assert_array_equal(constant(graph, "a"), A)


def test_files_are_closed_when_a_model_is_loaded(tmp_path: Path) -> None:
    """Also where there are more of them than a process may open."""
    names = [f"w{k}" for k in range(1100)]
    path = put(tmp_path, *(described(name, A, location=name) for name in names))
    for name in names:
        (tmp_path / name).write_bytes(A.tobytes())
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert len(load(path).graph.initializers) == 1100
    if before:
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before
