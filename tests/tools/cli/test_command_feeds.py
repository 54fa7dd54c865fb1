"""What the command line feeds a model: files, values, shapes, and what it says where they do not fit."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from ort_lite.errors import InvalidArgument
from ort_lite.session.metadata import NodeArg
from ort_lite.tools.cli.feed_arguments import feeds_of

X = NodeArg("x", "tensor(float)", ["N", 3])
IMAGE = NodeArg("image", "tensor(float)", [1, 3, 4, None])
RATE = NodeArg("sr", "tensor(int64)", [])
WORDS = NodeArg("words", "tensor(string)", [None])


def given(*inputs: NodeArg, known: bool = True, **options: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"feeds": None, "input": [], "value": [], "shape": [], "dim": [], "seed": 0}
    return feeds_of(Namespace(**empty | options), inputs, known=known)


def test_shapes_and_dimensions_are_those_that_are_said() -> None:
    assert given(X, dim=["N=5"])["x"].shape == (5, 3)
    assert given(X, IMAGE, shape=["image=1x3x4x7"])["image"].shape == (1, 3, 4, 7)
    assert given(X, shape=["2x3"])["x"].shape == (2, 3), "the one input needs no name"
    assert given(X)["x"].shape == (1, 3)


def test_values_are_one_for_all_elements_or_one_for_each() -> None:
    assert given(RATE, value=["sr=16000"])["sr"] == np.int64(16000)
    np.testing.assert_array_equal(given(X, value=["x=0.5"], dim=["N=2"])["x"], np.full((2, 3), 0.5, np.float32))
    np.testing.assert_array_equal(given(X, value=["x=1,2,nan"])["x"], np.array([[1, 2, np.nan]], np.float32))
    assert given(WORDS, value=["words=a,b"])["words"].tolist() == ["a", "b"]


def test_files_are_read_by_what_their_names_end_in(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x, words=np.array(["a", "b"]))
    (tmp_path / "words.txt").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    np.testing.assert_array_equal(given(X, input=[f"x={tmp_path / 'x.npy'}"])["x"], x)
    archive = given(X, WORDS, feeds=str(tmp_path / "all.npz"))
    np.testing.assert_array_equal(archive["x"], x)
    assert archive["words"].dtype == object
    assert given(WORDS, input=[str(tmp_path / "words.txt")])["words"].tolist() == ["one", "two"]
    np.testing.assert_array_equal(given(X, feeds=str(tmp_path / "case"))["x"], x)
    np.testing.assert_array_equal(given(X, WORDS, feeds=str(tmp_path))["x"], x)


def test_an_image_takes_the_inputs_layout_and_size(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is an extra")
    image.new("RGB", (8, 2), (255, 0, 51)).save(tmp_path / "red.png")
    found = given(IMAGE, input=[f"image={tmp_path / 'red.png'}"])["image"]
    assert (found.shape, found.dtype) == ((1, 3, 4, 8), np.float32)
    np.testing.assert_allclose(found[0, :, 0, 0], [1, 0, 0.2], rtol=1e-6)
    last = NodeArg("image", "tensor(uint8)", [None, None, None, 1])
    assert given(last, input=[str(tmp_path / "red.png")])["image"].shape == (1, 2, 8, 1)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ([X], {"dim": ["M=2"]}, "--dim M: the inputs of the model have no dimension of this name; it has N"),
        ([IMAGE], {"dim": ["M=2"]}, "none of its dimensions has a name. --shape NAME=1x3x224x224 says a whole shape"),
        ([X], {"dim": ["N=two"]}, "--dim N=two: expected a number"),
        ([X, RATE], {"shape": ["1x3"]}, "--shape 1x3: expected NAME=VALUE"),
        ([X, RATE], {"shape": ["xx=1x3"]}, "--shape: the model has no input 'xx'.*; it has x, sr"),
        ([X], {"shape": ["x=3"]}, r"--shape x=3: 1 dimensions, but the input has \['N', 3\]"),
        ([X], {"shape": ["x=1x-3"]}, "--shape x=1x-3: expected a number"),
        ([X], {"shape": ["x=1x٣"]}, "--shape x=1x٣: expected a number"),
        ([X], {"value": ["x=1_000"]}, "--value x=1_000: expected numbers"),
        ([X], {"value": ["x=1,2"]}, r"--value x=1,2: 2 values, expected 1 or 3 for the shape \[1, 3\]"),
        ([X], {"value": ["x=much"]}, r"--value x=much: expected numbers, since the input is tensor\(float\)"),
        ([X], {"value": ["x=1", "x=2"]}, "--value x: given twice"),
        ([NodeArg("b", "tensor(uint8)", [1])], {"value": ["b=300"]}, r"--value b=300: does not fit tensor\(uint8\)"),
        ([NodeArg("s", "seq(tensor(float))", [])], {}, "input 's' is seq.*: only tensors can be given"),
        ([X], {"feeds": "none.npz"}, "none.npz: there is no such file"),
        ([X], {"input": ["x=none.npy"]}, "none.npy: there is no such file"),
        ([X], {"input": ["x=x.csv"]}, "--input x=x.csv: expected a file that ends in .npy, .pb, .txt"),
    ],
)
def test_what_does_not_fit_is_said(inputs: list[NodeArg], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        given(*inputs, **options)


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.pb", "x.png", "x.txt"])
def test_a_file_that_is_something_else_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe no such thing")
    arg = {"x.png": IMAGE, "x.txt": WORDS}.get(name, X)
    chosen: dict[str, Any] = {"feeds": str(tmp_path / name)} if name == "x.npz" else {"input": [str(tmp_path / name)]}
    with pytest.raises(InvalidArgument, match=f"{name}: it cannot be read as"):
        given(arg, **chosen)


def test_of_many_models_each_has_some_of_the_names() -> None:
    assert given(X, known=False, dim=["M=2"], value=["sr=16000"], shape=["image=1"])["x"].shape == (1, 3)
