"""Folders with models and their files, and what is asked of a call that must be refused."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import ort_lite

Errors = type[BaseException] | tuple[type[BaseException], ...]
CPU = ["CPUExecutionProvider"]
W = np.arange(2048, dtype=np.float32)
X = {"x": np.ones(2048, np.float32)}


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(os.path.realpath(name))


def refused(error: Errors, words: str, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """Call it, and raise AssertionError unless that raises such an error, whose text has these words."""
    try:
        call(*arguments, **keywords)
    except error as caught:
        said = str(caught)
    else:
        raise AssertionError(f"not refused: expected {words!r}")
    assert words in said, f"{said} does not say {words!r}"


def open_session(path: Path, **keywords: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(path, providers=CPU, **keywords)


def put_model(folder: Path, initializers: list[TensorProto]) -> Path:
    """y = x + the first initialiser."""
    infos = [helper.make_tensor_value_info(name, 1, [2048]) for name in "xy"]
    node = helper.make_node("Add", ["x", initializers[0].name], ["y"])
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], initializers)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def entry(name: str = "w", location: str = "weights", *more: tuple[str, str]) -> TensorProto:
    tensor = TensorProto(name=name, data_type=1, dims=W.shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), *more):
        tensor.external_data.add(key=key, value=value)
    return tensor


def put_external(folder: Path, *more: tuple[str, str], location: str = "weights") -> Path:
    """A model whose weights are in a file beside it."""
    (folder / "weights").write_bytes(W.tobytes())
    return put_model(folder, [entry("w", location, *more)])


def y_of(session: ort_lite.InferenceSession) -> Any:
    return session.run(None, X)[0]
