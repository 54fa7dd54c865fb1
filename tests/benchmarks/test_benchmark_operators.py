"""The table of operators that are benchmarked: how it is read, and that its models run and match onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_lite
from ort_lite.tools.cli.benchmark.comparison import differences
from tests.benchmarks.operators import Input, input_of, operators, parse, table
from tests.benchmarks.rows import Row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64x3x7x7", Input("float16", (64, 3, 7, 7))),
        ("64*", Input("float16", (64,), constant=True)),
        ("()", Input("float16", ())),
        ("-", Input("float16", None)),
        ("{0,2,-1}", Input("int64", (3,), values=(0, 2, -1), constant=True)),
        ("(){0.5}", Input("float16", (), values=(0.5,), constant=True)),
        ("():uint8{128}", Input("uint8", (), values=(128,), constant=True)),
        ("8x4:int32<100", Input("int32", (8, 4), 100.0)),
        ("64<0.5*", Input("float16", (64,), 0.5, constant=True)),
    ],
)
def test_an_input_is_read(text: str, expected: Input) -> None:
    assert input_of(text, "float16") == expected


@pytest.mark.parametrize("text", ["", "*", "3x", "ax3", "3:", "3:floaty", "3<a", "{1,2", "3**", ":int64"])
def test_an_input_that_is_wrong_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        input_of(text, "float32")


def test_contents_are_those_of_the_line() -> None:
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(input_of("{0.0,1.0}", "float16").array(rng), np.array([0, 1], np.float16), strict=True)
    np.testing.assert_array_equal(input_of("2x1{3,4}", "float32").array(rng), np.array([[3], [4]]), strict=True)
    indices = input_of("1000:int32<7", "float32").array(rng)
    assert (str(indices.dtype), indices.min(), indices.max()) == ("int32", 0, 6)
    variances = input_of("1000<1", "float32").array(rng)
    assert variances.min() > 0
    assert variances.max() < 1


def test_a_line_is_read() -> None:
    found = parse(["Split", "1x6", "{4,2}", "axis=1", "->2", "float32"])
    assert (found.operator, found.inputs, found.attributes, found.outputs) == ("Split", ("1x6", "{4,2}"), ("axis=1",), 2)
    row = found.row()
    assert (row.name, row.operator, row.dtype) == ("Split 1x6 {4,2} axis=1 float32", "Split", "float32")
    assert (row.shapes, row.attributes) == (("1x6", "{4,2}"), ("axis=1",))
    model = onnx.load_from_string(row.model)
    onnx.checker.check_model(model)
    assert [len(model.graph.node[0].output), len(model.graph.output)] == [2, 1]
    assert [tensor.name for tensor in model.graph.initializer] == ["i1"]
    assert [name for name, array in row.feeds.items() if array.shape == (1, 6)] == ["i0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# a title\nRelu 3x4\n", "line 2: expected an element type"),
        ("Relu 3x4 float32\n\nRelu 3y4 float32\n", "line 3: '3y4' is not an input"),
        ("Relu 3x4 float32\nRelu 3x4 float32  # again\n", "line 2: the same as line 1"),
    ],
)
def test_a_table_that_is_wrong_is_rejected(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        table(tmp_path / "table.txt")


def match_onnxruntime(row: Row) -> list[str]:
    """The outputs of the row that differ from onnxruntime's."""
    theirs = onnxruntime.InferenceSession(row.model, providers=["CPUExecutionProvider"]).run(None, row.feeds)
    with ort_lite.InferenceSession(row.model, providers=["CPUExecutionProvider"]) as session:
        return [f"{row.name}: {line}" for line in differences(["y"], session.run(None, row.feeds), theirs, "onnxruntime")]


@pytest.mark.slow
def test_all_operators_match_onnxruntime() -> None:
    assert [line for row in operators() for line in match_onnxruntime(row)] == []


@pytest.mark.slow
def test_rows_are_the_same_each_time() -> None:
    for one, other in zip(operators(), operators(), strict=True):
        assert one.model == other.model, one.name
        assert all((one.feeds[name] == other.feeds[name]).all() for name in one.feeds | other.feeds), one.name
