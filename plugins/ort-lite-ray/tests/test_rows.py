"""Batches of rows whose shapes differ, without Ray."""

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from ort_lite_ray.rows import Array, buckets, column, pad_columns
from ort_lite_ray.scorer import Plan, Scorer

from ort_lite.errors import InvalidArgument


def ragged(*lengths: int) -> Array:
    return column([np.arange(length, dtype=np.float32) for length in lengths])


def scorer(text: str, **more: object) -> Scorer:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}')
    return Scorer(model.SerializeToString(), Plan({"x": "x"}, {"y": "out"}, **more))  # type: ignore[arg-type]


def test_rows_of_one_shape_are_one_bucket_in_the_order_of_the_first() -> None:
    found = [(places, rows["a"].shape) for places, rows in buckets({"a": ragged(2, 3, 2, 0, 3)})]
    assert found == [([0, 2], (2, 2)), ([1, 4], (2, 3)), ([3], (1, 0))]


def test_buckets_are_cut_where_a_model_takes_few_rows() -> None:
    assert [places for places, _ in buckets({"a": np.zeros((5, 2))}, 2)] == [[0, 1], [2, 3], [4]]


def test_padding_fills_up_to_the_longest() -> None:
    made = pad_columns({"a": ragged(1, 3), "b": ragged(2, 1)}, {"a": -1})
    np.testing.assert_array_equal(made["a"], [[0, -1, -1], [0, 1, 2]])
    assert made["b"].dtype.hasobject
    with pytest.raises(InvalidArgument, match=r"'a' .* rows of \[1, 2\] axes"):
        pad_columns({"a": column([np.zeros(2), np.zeros((2, 2))])}, {"a": 0})


def test_each_row_has_its_own_result_where_shapes_differ() -> None:
    made = scorer(
        "(float[N,T] x) => (float[N] y) { y = ReduceSum<keepdims = 0>(x, a) }".replace(
            "=> (float[N] y)", "=> (float[N] y) <int64[1] a = {1}>"
        )
    )
    batch = {"x": ragged(2, 4, 0, 2, 5), "id": np.arange(5)}
    found = made(batch)
    assert list(found) == ["x", "id", "out"]
    assert found["out"].tolist() == [1, 6, 0, 1, 10]
    assert made({"x": ragged(), "id": np.arange(0)})["out"].shape == (0,)


def test_rows_of_results_may_have_shapes_of_their_own() -> None:
    found = scorer("(float[N,T] x) => (float[N,T] y) { y = Neg(x) }")({"x": ragged(2, 3)})["out"]
    assert [row.tolist() for row in found] == [[0, -1], [0, -1, -2]]
    filled = scorer("(float[N,T] x) => (float[N,T] y) { y = Neg(x) }", pad={"x": 7})({"x": ragged(2, 3)})["out"]
    assert filled.tolist() == [[0, -1, -7], [0, -1, -2]]


def test_a_model_of_one_row_gets_one_at_a_time() -> None:
    assert scorer("(float[1,T] x) => (float[1,T] y) { y = Neg(x) }")({"x": ragged(1, 1, 1)})["out"].shape == (3, 1)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"z": np.zeros((2, 2), np.float32)}, "input 'x' of the model is to come from column 'x', which the rows lack"),
        ({"x": np.array([["a"], ["b"]])}, "the column has <U1, expected float32"),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(batch: dict[str, Array], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        scorer("(float[N,T] x) => (float[N,T] y) { y = Neg(x) }")(batch)


def test_an_output_without_rows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"an output has the shape \(\) for 2 rows"):
        scorer("(float[N,T] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }")({"x": np.ones((2, 2), np.float32)})


def test_a_path_is_a_model(tmp_path: Path) -> None:
    digits = Path(__file__).parents[3] / "examples/digits/digits_cnn.onnx"
    images = np.zeros((3, 1, 8, 8), np.uint8)
    made = Scorer(str(digits), Plan({"images": "pictures"}, {"probabilities": "p"}))({"pictures": images})
    assert made["p"].shape == (3, 10)
