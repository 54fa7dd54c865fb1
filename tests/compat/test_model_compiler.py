"""ModelCompiler, with a provider that saves what it compiled, and with none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.errors import Fail, InvalidArgument
from tests.session.test_context import Saving

TEXT = """<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y)
<float[4] w = {1, 2, 3, 4}> { a = Abs(x) y = Add(a, w) }"""
MODEL = onnx.parser.parse_model(TEXT).SerializeToString()
X = np.array([-1, 2, -3, 4], np.float32)
Y = np.array([2, 4, 6, 8], np.float32)


class SavingAbs(Saving):
    """Takes Abs alone."""

    def __init__(self) -> None:
        super().__init__(lambda node: node.op_type == "Abs")


@pytest.fixture
def options() -> Iterator[ort_lite.SessionOptions]:
    ort_lite.register_provider("SavingExecutionProvider", SavingAbs)
    made = ort_lite.SessionOptions()
    made.add_provider("SavingExecutionProvider", {})
    yield made
    ort_lite.unregister_provider("SavingExecutionProvider")


def operators(model: str | bytes) -> list[str]:
    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    return [node.op_type for node in proto.graph.node]


def check(source: str | bytes, options: ort_lite.SessionOptions) -> None:
    np.testing.assert_array_equal(ort_lite.InferenceSession(source, options).run(None, {"x": X})[0], Y)


def test_bytes_hold_what_was_compiled(options: ort_lite.SessionOptions) -> None:
    made = ort_lite.ModelCompiler(options, MODEL).compile_to_bytes()
    assert operators(made) == ["EPContext", "Add"]
    check(made, options)
    assert ort_lite.get_compatibility_info_from_model_bytes(made, "SavingExecutionProvider") == SavingAbs.version
    assert ort_lite.get_compatibility_info_from_model_bytes(made, "OtherExecutionProvider") is None


@pytest.mark.parametrize("embed", [True, False])
def test_files(options: ort_lite.SessionOptions, tmp_path: Path, embed: bool) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL)
    ort_lite.ModelCompiler(options, path, embed_compiled_data_into_model=embed).compile_to_file()
    made = str(tmp_path / "m_ctx.onnx")
    assert operators(made) == ["EPContext", "Add"]
    assert len(list(tmp_path.iterdir())) == (2 if embed else 3)
    check(made, options)
    with pytest.raises(InvalidArgument, match="own file"):
        ort_lite.ModelCompiler(options, path).compile_to_file(path)


def test_functions_take_and_give_contexts(options: ort_lite.SessionOptions) -> None:
    held: dict[str, bytes] = {}
    compiler = ort_lite.ModelCompiler(options, MODEL)
    compiler.set_ep_context_data_write_func(lambda name, data: held.update({name: data.read(0, 2) + data.read(2)}))
    made = compiler.compile_to_bytes()
    ((name, context),) = held.items()

    def give(asked: str, buffer: ort_lite.OrtEpContextDataBuffer) -> None:
        buffer.allocate(len(held[asked]))
        buffer.write(held[asked])

    options.set_ep_context_data_read_func(give, len(context))
    check(made, options)
    options.set_ep_context_data_read_func(give, len(context) - 1)
    with pytest.raises(Fail, match="max_data_size"):
        ort_lite.InferenceSession(made, options)
    options.set_ep_context_data_read_func(lambda *given: None, 10)
    with pytest.raises(Fail, match="nothing was allocated"):
        ort_lite.InferenceSession(made, options)
    held[name] = b"other bytes"
    options.set_ep_context_data_read_func(give, 100)
    with pytest.raises(ort_lite.errors.InvalidGraph, match="of another model"):
        ort_lite.InferenceSession(made, options)


PLACES = [
    *[("", "x"), ("folder/", ""), ("folder", "x"), ("folder/", "x"), ("none/", "x.onnx"), ("a.b", "x"), ("/", "x"), (".", "x")],
    *[("..", "x"), ("folder/.", "x"), ("folder/", "a/b"), (None, "x"), (3, "x"), ("folder/", 3), (Path("folder"), "x")],
]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_both_accept_the_same_places_of_contexts(place: Any, tmp_path: Path) -> None:
    def accept(api: Any) -> type | None:
        try:
            api.ModelCompiler(api.SessionOptions(), MODEL).set_ep_context_binary_information(*place)
        except Exception as error:  # noqa: BLE001  what comes is compared
            return type(error)
        return None

    ours, theirs = accept(ort_lite), accept(onnxruntime)
    wanted = theirs and getattr(ort_lite.errors, theirs.__name__, theirs)
    assert ours is wanted or (ours is not None and wanted is not None and issubclass(ours, wanted))


def test_contexts_go_where_the_program_says(options: ort_lite.SessionOptions, tmp_path: Path) -> None:
    compiler = ort_lite.ModelCompiler(options, MODEL)
    compiler.set_ep_context_binary_information(f"{tmp_path}/contexts/", "mine.onnx")
    compiler.compile_to_file(tmp_path / "m.onnx")
    files = ["mine_SavingExecutionProvider_0.bin"]
    assert sorted(path.name for path in (tmp_path / "contexts").iterdir()) == files
    check(str(tmp_path / "m.onnx"), options)
    with pytest.raises(InvalidArgument, match="is not in the folder of the output model"):
        compiler.compile_to_file(tmp_path / "contexts" / "deeper" / "m.onnx")
    held: list[str] = []
    compiler.set_ep_context_data_write_func(lambda name, data: held.append(name))
    compiler.compile_to_bytes()
    assert held == files


def test_a_model_in_memory_finds_its_contexts(options: ort_lite.SessionOptions, tmp_path: Path) -> None:
    compiler = ort_lite.ModelCompiler(options, MODEL)
    compiler.set_ep_context_binary_information(f"{tmp_path}/", "mine.onnx")
    made = compiler.compile_to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["mine_SavingExecutionProvider_0.bin"]
    options.add_session_config_entry("ep.context_file_path", str(tmp_path / "mine.onnx"))
    check(made, options)
    embedding = ort_lite.ModelCompiler(options, MODEL, embed_compiled_data_into_model=True)
    embedding.set_ep_context_binary_information(f"{tmp_path}/none/", "mine.onnx")
    check(embedding.compile_to_bytes(), options)
    assert not (tmp_path / "none").exists()


def test_flags_and_streams(tmp_path: Path) -> None:
    flags, plain = ort_lite.OrtCompileApiFlags, ort_lite.SessionOptions()
    path = tmp_path / "out.onnx"
    with pytest.raises(Fail, match="Unable to compile any nodes"):
        ort_lite.ModelCompiler(plain, MODEL, flags=flags.ERROR_IF_NO_NODES_COMPILED).compile_to_file(path)
    assert not path.exists()
    compiler = ort_lite.ModelCompiler(plain, MODEL, flags=flags.ERROR_IF_OUTPUT_FILE_EXISTS)
    compiler.compile_to_file(path)
    with pytest.raises(Fail, match="exists already"):
        compiler.compile_to_file(path)
    written: list[bytes] = []
    compiler.compile_to_stream(written.append)
    assert operators(written[0]) == ["Abs", "Add"]
    with pytest.raises(Fail, match="My error"):
        compiler.compile_to_stream(fails)
    with pytest.raises(InvalidArgument, match="came as bytes"):
        compiler.compile_to_file()


def fails(data: bytes) -> None:
    raise ValueError("My error")


def test_initialisers_go_where_the_program_says(tmp_path: Path) -> None:
    path, data = tmp_path / "m.onnx", tmp_path / "weights.bin"
    ort_lite.ModelCompiler(
        ort_lite.SessionOptions(), MODEL, external_initializers_file_path=data, external_initializers_size_threshold=4
    ).compile_to_file(path)
    assert data.stat().st_size == 16
    seen = []

    def stay(name: str, value: ort_lite.OrtValue, where: Any) -> Any:
        seen.append((name, value.shape(), where))
        return where

    again = tmp_path / "again.onnx"
    ort_lite.ModelCompiler(ort_lite.SessionOptions(), path, get_initializer_location_func=stay).compile_to_file(again)
    assert seen[0][:2] == ("w", [4])
    assert seen[0][2].byte_size == 16 and Path(seen[0][2].filepath).name == "weights.bin"
    for each in (path, again):
        assert onnx.load(each, load_external_data=False).graph.initializer[0].external_data[0].value == "weights.bin"
        check(str(each), ort_lite.SessionOptions())
