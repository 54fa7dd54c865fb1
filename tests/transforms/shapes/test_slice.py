"""Slice, Split, Concat, Pad, Tile, Expand."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown, NumbersUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, floats, infer, integers, numbers, scalar, tensor, text, unknown

END = 2**63 - 1


def length_of_slice(dim: int, start: int, end: int, step: int) -> int:
    """ONNX's words: bounds below 0 count from the end, then start is clamped to [0, dim] or [0, dim - 1], end likewise."""
    low, high = (0, dim) if step > 0 else (0, dim - 1)
    first = min(max(start + dim * (start < 0), low), high)
    last = min(max(end + dim * (end < 0), low - (step < 0)), high)
    return max(-((first - last) // step), 0) if dim else 0


BOUNDS = st.integers(-8, 8) | st.sampled_from([END, -END, 2**31 - 1, -(2**31)])


@pytest.mark.slow
@given(st.integers(0, 6), BOUNDS, BOUNDS, st.integers(-3, 3).filter(bool))
@settings(max_examples=300)
def test_any_slice_has_the_length_that_the_standard_gives(dim: int, start: int, end: int, step: int) -> None:
    expected = [floats(length_of_slice(dim, start, end, step), 2)]
    check("Slice", floats(dim, 2), integers(start), integers(end), integers(0), integers(step), expected=expected)


@pytest.mark.parametrize(
    ("start", "end", "step", "shape"),
    [
        (0, END, 1, "N"),
        (0, 3, 1, "min(3, N)"),
        (2, END, 1, "max(0, N - 2)"),
        (1, -1, 1, "max(0, N - 2)"),
        (0, -1, 1, "max(0, N - 1)"),
        (-1, END, 1, "min(1, N)"),
        (0, END, 2, "floordiv(N + 1, 2)"),
        (-1, -END, -1, "N"),
    ],
)
def test_common_slices_have_simple_lengths(start: int, end: int, step: int, shape: str) -> None:
    (y,) = infer("Slice", tensor("float32", "N"), numbers(start), numbers(end), numbers(0), numbers(step))
    assert text(y) == f"float32[{shape}]"


@given(st.lists(st.integers(-9, 9), max_size=5), BOUNDS, BOUNDS, st.integers(-3, 3).filter(bool))
def test_contents_are_sliced_too(contents: list[int], start: int, end: int, step: int) -> None:
    (y,) = infer("Slice", numbers(*contents), numbers(start), numbers(end), numbers(0), numbers(step))
    assert y.contents is not None
    assert len(y.contents) == length_of_slice(len(contents), start, end, step)
    if step > 0:
        assert list(y.contents) == contents[start:end:step]


def test_contents_of_higher_rank_are_sliced_too() -> None:
    pairs = tensor("int64", 2, 2, contents=[1, 2, 3, 4])
    (y,) = infer("Slice", pairs, numbers(-1), numbers(-END), numbers(0), numbers(-1))
    assert text(y) == "int64[2, 2] = [3, 4, 1, 2]"


def test_other_axes_stay_known_when_the_bounds_are_not() -> None:
    (y,) = infer("Slice", tensor("float32", "N", 7), unknown("int64", 1), unknown("int64", 1), numbers(0))
    assert text(y) == "float32[y0#1, 7]"


def test_a_step_of_0_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="step along axis 0 is 0"):
        infer("Slice", tensor("float32", 4), numbers(0), numbers(2), numbers(0), numbers(0))


def test_axes_must_be_numbers() -> None:
    with pytest.raises(NumbersUnknown):
        infer("Slice", tensor("float32", 4), numbers(0), numbers(2), unknown("int64", 1), strict=True)


def test_parts_of_given_sizes() -> None:
    check("Split", floats(3, 7), integers(2, 5), outputs=2, axis=1)
    found = infer("Split", numbers(4, 5, 6), numbers(1, 2), outputs=2)
    assert [text(part) for part in found] == ["int64[1] = [4]", "int64[2] = [5, 6]"]


def test_sizes_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"parts \[2, 2\] do not make up 5"):
        infer("Split", tensor("float32", 5), numbers(2, 2), outputs=2)


def test_contents_are_joined() -> None:
    (y,) = infer("Concat", tensor("int64", 1, contents=[3]), numbers(4, 5), axis=0)
    assert text(y) == "int64[3] = [3, 4, 5]"
    columns = [tensor("int64", 2, 1, contents=[1, 2]), tensor("int64", 2, 1, contents=[3, 4])]
    assert text(infer("Concat", *columns, axis=1)[0]) == "int64[2, 2] = [1, 3, 2, 4]"


def test_a_number_wins_over_a_symbol_where_dims_must_be_equal() -> None:
    (y,) = infer("Concat", tensor("float32", "N", "C"), tensor("float32", "M", 3), axis=0)
    assert text(y) == "float32[M + N, 3]"


def test_dims_that_can_never_be_equal_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="dimensions 3 and 4 should be equal"):
        infer("Concat", tensor("float32", "N", 3), tensor("float32", "M", 4), axis=0)


@given(st.integers(0, 4), st.integers(0, 4), st.lists(st.integers(-1, 3), min_size=4, max_size=4))
@settings(max_examples=60)
def test_padding_adds_and_cuts(rows: int, columns: int, pads: list[int]) -> None:
    shape = (rows + pads[0] + pads[2], columns + pads[1] + pads[3])
    assume(min(shape) >= 0)
    check("Pad", floats(rows, columns), integers(*pads), expected=[floats(*shape)])


def test_padding_of_some_axes() -> None:
    check("Pad", floats(2, 3, 4), integers(1, 2), None, integers(-1))
    assert text(infer("Pad", tensor("float32", "N", 3), version=2, pads=[0, 1, 0, 1])[0]) == "float32[N, 5]"


def test_cutting_more_than_there_is_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="cut more than the 3 of axis 0"):
        infer("Pad", tensor("float32", 3), numbers(-2, -2))


def test_known_contents_are_tiled() -> None:
    assert text(infer("Tile", numbers(1, 2), numbers(2))[0]) == "int64[4] = [1, 2, 1, 2]"


def test_expanding_to_an_unknown_shape_leaves_the_rank() -> None:
    assert text(infer("Expand", tensor("float32", "N", 3), unknown("int64", 4))[0]) == "float32[y0#1, y0#2, y0#3, y0#4]"
    with pytest.raises(ContentsUnknown):
        infer("Expand", tensor("float32", "N", 3), unknown("int64", 4), strict=True)


def test_nothing_is_expanded_or_repeated_to_a_size_that_is_open() -> None:
    nothing, sizes = tensor("int64", 1, 0, contents=[]), tensor("int64", 2, contents=[symbol("N"), 1])
    for op_type in ("Expand", "Tile"):
        assert text(infer(op_type, nothing, sizes)[0]) == "int64[N, 0]"


def test_a_known_scalar_is_expanded() -> None:
    assert text(infer("Expand", scalar(7), numbers(3))[0]) == "int64[3] = [7, 7, 7]"
