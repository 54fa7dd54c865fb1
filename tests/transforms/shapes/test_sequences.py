"""Sequences and optionals."""

import pytest

from ort_lite.dtypes import to_onnx
from ort_lite.errors import ShapeInferenceError
from ort_lite.graph import OptionalType, SequenceType, TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import infer, numbers, scalar, tensor, text, unknown


def sequence(dtype: str, *dims: int) -> Info:
    return Info(SequenceType(TensorType(dtype, dims)))


def test_dims_that_differ_between_elements_are_marked() -> None:
    alike = infer("SequenceConstruct", tensor("float32", "N", 3), tensor("float32", "N", 3))[0]
    assert text(alike) == "seq(float32[N, 3])"
    others = infer("SequenceConstruct", tensor("float32", 2, 3), tensor("float32", 4, 3))[0]
    assert text(others) == "seq(float32[-1, 3])"
    ranks = infer("SequenceConstruct", tensor("float32", 2), tensor("float32", 4, 3))[0]
    assert text(ranks) == "seq(float32[...])"
    with pytest.raises(ShapeInferenceError, match="one element type"):
        infer("SequenceConstruct", tensor("float32", 2), tensor("int64", 2))


def test_an_element_has_a_fresh_dim_where_they_differ() -> None:
    assert text(infer("SequenceAt", sequence("float32", -1, 3), scalar(0))[0]) == "float32[y0#1, 3]"


def test_sequences_grow_and_shrink() -> None:
    empty = infer("SequenceEmpty", dtype=to_onnx("int64"))[0]
    assert text(empty) == "seq(int64[...])"
    assert text(infer("SequenceInsert", sequence("float32", 2), tensor("float32", 3))[0]) == "seq(float32[-1])"
    assert text(infer("SequenceErase", sequence("float32", 2))[0]) == "seq(float32[2])"
    assert text(infer("SequenceLength", sequence("float32", 2))[0]) == "int64[]"


def test_elements_are_joined_or_stacked() -> None:
    assert text(infer("ConcatFromSequence", sequence("float32", -1, 3), axis=0)[0]) == "float32[y0#2, 3]"
    assert text(infer("ConcatFromSequence", sequence("float32", 2, 3), axis=-1, new_axis=1)[0]) == "float32[2, 3, y0#1]"


def test_splitting_makes_pieces() -> None:
    x = tensor("float32", 6, "N")
    assert text(infer("SplitToSequence", x)[0]) == "seq(float32[1, N])"
    assert text(infer("SplitToSequence", x, keepdims=0)[0]) == "seq(float32[N])"
    assert text(infer("SplitToSequence", x, scalar(2))[0]) == "seq(float32[2, N])"
    assert text(infer("SplitToSequence", x, scalar(4))[0]) == "seq(float32[-1, N])"
    assert text(infer("SplitToSequence", x, numbers(3, 3))[0]) == "seq(float32[3, N])"
    assert text(infer("SplitToSequence", x, numbers(1, 5))[0]) == "seq(float32[-1, N])"
    assert text(infer("SplitToSequence", x, unknown("int64", 2))[0]) == "seq(float32[-1, N])"


def test_optionals_hold_what_they_were_given() -> None:
    held = infer("Optional", tensor("float32", "N"))[0]
    assert text(held) == "optional(float32[N])"
    assert text(infer("OptionalGetElement", held)[0]) == "float32[N]"
    assert text(infer("OptionalGetElement", tensor("float32", "N"))[0]) == "float32[N]"
    assert text(infer("OptionalHasElement", tensor("float32", "N"))[0]) == "bool[] = [1]"
    assert text(infer("OptionalHasElement")[0]) == "bool[] = [0]"
    assert text(infer("OptionalHasElement", Info(OptionalType(TensorType("float32"))))[0]) == "bool[]"
