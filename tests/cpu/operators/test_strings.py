"""Strings in operators that are not about text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array, to_onnx
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import OrtLiteError, RuntimeException
from ort_lite_cpu.operators import strings
from tests.cpu.check import check_op, ints, op_program, run_op

X = np.array([[f"{row}é{column}" for column in range(4)] for row in range(3)], object)
OTHER = np.array([["p"], ["q"], [""]], object)
MOVES: list[tuple[str, tuple[Array | None, ...], tuple[int, ...], dict[str, Any], Callable[..., Any]]] = [
    ("Concat", (X, OTHER, X), (1,), {"axis": 1}, lambda *xs, axis: np.concatenate(xs, axis)),
    ("Slice", (X, ints(3), ints(-5), ints(1), ints(-2)), (1, 2, 3, 4), {}, lambda x, *_: x[:, 3::-2]),
    ("Split", (X,), (), {"axis": 1, "num_outputs": 2}, lambda x, axis, num_outputs: np.split(x, 2, 1)),
    ("Gather", (X, ints(2, 0)), (1,), {"axis": 1}, lambda x, index, axis: x[:, index]),
    ("GatherElements", (X, np.array([[1], [0], [-1]])), (), {"axis": 1}, lambda x, i, axis: np.take_along_axis(x, i, 1)),
    ("ScatterND", (X, np.array([[1, 2]]), np.array(["new"], object)), (), {}, lambda x, i, u: scattered(x)),
    ("Pad", (X, ints(0, 1, 1, 0)), (1,), {}, lambda x, pads: np.pad(x, ((0, 1), (1, 0)), constant_values="")),
    (
        "Pad",
        (X, ints(0, 0, 1, 0), np.array("-", object)),
        (1,),
        {},
        lambda x, *_: np.pad(x, ((0, 1), (0, 0)), constant_values="-"),
    ),
    ("Resize", (X, None, np.array([2, 1.5], np.float32)), (2,), {}, lambda x, *_: x[[0, 0, 1, 1, 2, 2]][:, [0, 0, 1, 2, 2, 3]]),
    ("CenterCropPad", (X, ints(2, 6)), (1,), {}, lambda x, s: np.pad(x[:2], ((0, 0), (1, 1)), constant_values="")),
]


def scattered(x: Array) -> Array:
    copy = x.copy()
    copy[1, 2] = "new"
    return copy


@pytest.mark.parametrize(("op", "inputs", "constants", "attributes", "expected"), MOVES, ids=[move[0] for move in MOVES])
def test_strings_move_like_numbers(op: str, inputs: Any, constants: Any, attributes: Any, expected: Callable[..., Any]) -> None:
    outputs = 2 if op == "Split" else 1
    check_op(op, *inputs, expected=expected, constants=constants, outputs=outputs, **attributes)


def test_an_index_out_of_range_is_named() -> None:
    with pytest.raises(RuntimeException, match=r"Gather 'node'.*index 3 at position 1 of 'in1' is out of range"):
        run_op("Gather", [X, ints(0, 3)])


def test_no_strings() -> None:
    check_op("Concat", X[:, :0], X, expected=X, axis=1)


def test_a_node_that_moves_strings_counts_as_one_python_step() -> None:
    assert op_program("Concat", [X, X], {"axis": 0}).facts()["python_steps"] == 1
    assert op_program("Concat", [np.ones(2), np.ones(2)], {"axis": 0}).facts()["python_steps"] == 0


@pytest.mark.parametrize(
    ("dtype", "values"), [("float32", [0.5, -2, 1e20]), ("float64", [0.5, 3.25]), ("int8", [1, -7]), ("uint64", [2**63])]
)
def test_numbers_are_read_and_written(dtype: str, values: list[Any]) -> None:
    numbers = np.array(values, dtype)
    texts = np.array([f"{value:g}" if dtype[0] == "f" else str(value) for value in values], object)
    check_op("Cast", texts, expected=numbers, to=to_onnx(dtype))
    check_op("Cast", numbers, expected=texts, to=to_onnx("string"))
    check_op("CastLike", numbers, texts, expected=texts)
    check_op("CastLike", texts, numbers, expected=numbers)


def test_what_identity_returns_is_the_callers_own() -> None:
    program = op_program("Identity", [X])
    program([X])[0][:] = "gone"
    assert program([X])[0].tolist() == X.tolist() != [["gone"] * 4] * 3


def test_the_nearest_of_a_grid() -> None:
    x = X[None, None]
    grid = np.array([[[[-1, -1], [1, 1], [5, 0]]]], np.float32)
    want = np.array([[[["0é0", "2é3", ""]]]], object)
    check_op("GridSample", x, grid, mode="nearest", align_corners=1, opset=22, expected=want)


@pytest.mark.parametrize(("block", "strides", "pads"), [((1, 2), [1, 1], [0] * 4), ((2, 2), [2, 1], [0, 1, 0, 0])], ids=str)
def test_columns_become_an_image(block: tuple[int, int], strides: list[int], pads: list[int]) -> None:
    """What falls on one pixel is joined, in the order of the places in a block."""
    image = (2, 3)
    rows = (image[0] + pads[0] + pads[2] - block[0]) // strides[0] + 1
    columns = (image[1] + pads[1] + pads[3] - block[1]) // strides[1] + 1
    x = np.array([f"{k}." for k in range(block[0] * block[1] * rows * columns)], object).reshape(1, -1, rows * columns)
    want = np.full((1, 1, *image), "", object)
    for place, at in enumerate(np.ndindex(*block)):
        for number, (i, j) in enumerate(np.ndindex(rows, columns)):
            row, column = i * strides[0] + at[0] - pads[0], j * strides[1] + at[1] - pads[1]
            if 0 <= row < 2 and 0 <= column < 3:
                want[0, 0, row, column] += x[0, place, number]
    check_op("Col2Im", x, ints(*image), ints(*block), strides=strides, pads=pads, constants=[1, 2], expected=want)


def test_no_images_are_put_together_from_no_blocks() -> None:
    x = np.empty((0, 6, 4), object)
    check_op("Col2Im", x, ints(3, 4), ints(2, 3), constants=[1, 2], expected=np.empty((0, 1, 3, 4), object))


def test_there_is_nothing_between_two_strings() -> None:
    scales = np.array([2, 2], np.float32)
    with pytest.raises(NotSupported, match="mode should be nearest"):
        op_program("Resize", [X, None, scales], {"mode": "linear"}, constants=(2,))
    with pytest.raises(NotSupported, match="reduction add over strings"):
        op_program("ScatterND", [X, np.array([[1, 2]]), np.array(["new"], object)], {"reduction": "add"})


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize(
    ("scale", "attributes"), [(1, ", extrapolation_value = 9.0"), (2, ", extrapolation_value = 9.0"), (1, "")]
)
def test_optimization_does_not_decide_whether_strings_are_resized(scale: int, attributes: str, level: str) -> None:
    """Only tf_crop_and_resize reads extrapolation_value."""
    mode = "nearest" if attributes else "linear"
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 19]> main (string[2,3] x) => (string[A,B] y) {{
        s = Constant<value = float[2] {{{scale}, 1}}>()
        y = Resize<mode = "{mode}" {attributes}>(x, "", s)
    }}""")
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel[level]
    x = np.array([["a", "b", ""], ["c", "d", "e"]], object)
    if not attributes:
        with pytest.raises(OrtLiteError, match="mode should be nearest"):
            ort_lite.InferenceSession(model.SerializeToString(), options)
        return
    [y] = ort_lite.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    np.testing.assert_array_equal(y, np.repeat(x, scale, 0))


@pytest.mark.parametrize("shape", [(3, 5), (15,), (0, 4)], ids=str)
def test_places_of_texts_are_found_in_slices(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "CHEAP", 4)
    x = np.array(["" if k % 3 else "a" for k in range(int(np.prod(shape)))], object).reshape(shape)
    [y] = run_op("NonZero", [x], {}, opset=13)
    np.testing.assert_array_equal(y, np.nonzero(x != ""))
