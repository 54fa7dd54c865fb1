"""Reshape, Flatten, Squeeze, Unsqueeze, Transpose, DepthToSpace, SpaceToDepth."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown, NumbersUnknown, RankUnknown
from ort_lite.shapes import Dim, equal, floordiv, select, symbol
from tests.transforms.shapes.checking import check, floats, infer, integers, numbers, tensor, text, unknown

B, H = symbol("B"), symbol("H")


@given(st.data(), st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
@settings(max_examples=80)
def test_any_reshape_gives_what_the_standard_says(data: st.DataObject, shape: list[int]) -> None:
    target = data.draw(st.permutations(shape))
    kinds = data.draw(st.lists(st.sampled_from(["number", "copy"]), min_size=len(shape), max_size=len(shape)))
    wanted = [0 if kind == "copy" and target[k] == shape[k] else target[k] for k, kind in enumerate(kinds)]
    if data.draw(st.booleans()):
        wanted[data.draw(st.integers(0, len(shape) - 1))] = -1
    assume(wanted.count(-1) <= 1)
    check("Reshape", floats(*shape), integers(*wanted), expected=[floats(*target)])


@pytest.mark.parametrize(
    ("dims", "target", "shape"),
    [
        (("N", "C", "H", "W"), (0, 0, -1), "N, C, H*W"),
        (("N", 12, "T"), (0, -1, 4, "T"), "N, 3, 4, T"),
        (("N", 12, "T"), ("N", "T", 12), "N, T, 12"),
        (("N", "T", 8), (-1, 8), "N*T, 8"),
        (("N", 8, "T"), (-1, 4), "2*N*T, 4"),
        (("N", "T"), (-1,), "N*T"),
    ],
    ids=str,
)
def test_common_reshapes_have_simple_shapes(dims: tuple[Dim | str, ...], target: tuple[Dim | str, ...], shape: str) -> None:
    wanted = [symbol(dim) if isinstance(dim, str) else dim for dim in target]
    (y,) = infer("Reshape", tensor("float32", *dims), tensor("int64", len(wanted), contents=wanted))
    assert text(y) == f"float32[{shape}]"


def test_what_is_left_is_found_through_rounded_dims() -> None:
    height = floordiv(H + 1, 2) - 3  # as after convolutions without padding
    (y,) = infer("Reshape", tensor("float32", B, 6, height), tensor("int64", 3, contents=[B, -1, height]))
    assert text(y) == f"float32[B, 6, {height}]"
    (flat,) = infer("Reshape", tensor("float32", B, height * height), tensor("int64", 3, contents=[B, height, -1]))
    assert text(flat) == f"float32[B, {height}, {height}]"


def test_an_element_that_may_be_a_mark_is_resolved_when_it_is_known() -> None:
    chosen = select(equal(B, 1), -1, B)
    (y,) = infer("Reshape", tensor("float32", B, 4), tensor("int64", 2, contents=[chosen, 4]))
    assert y.shape is not None
    assert "select" in str(y.shape[0])


def test_an_unknown_target_leaves_the_rank() -> None:
    assert text(infer("Reshape", tensor("float32", "N"), unknown("int64", 2))[0]) == "float32[y0#1, y0#2]"
    assert text(infer("Reshape", tensor("float32", "N"), unknown("int64", "K"))[0]) == "float32[...]"
    with pytest.raises(ContentsUnknown):
        infer("Reshape", tensor("float32", "N"), unknown("int64", 2), strict=True)


@pytest.mark.parametrize("target", [(5,), (-1, 4), (2, 0, 0), (-2, 3), (-1, -1)], ids=str)
def test_a_target_that_does_not_fit_is_refused(target: tuple[int, ...]) -> None:
    with pytest.raises(ShapeInferenceError, match="node"):
        infer("Reshape", tensor("float32", 2, 3), numbers(*target))


@pytest.mark.parametrize("axes", [(0,), (-1,), (0, 2), ()], ids=str)
def test_squeezing_takes_axes_away(axes: tuple[int, ...]) -> None:
    check("Squeeze", floats(1, 3, 1), integers(*axes), expected=[np.squeeze(floats(1, 3, 1), axes)])


def test_squeezing_all_needs_to_know_which_dims_are_1() -> None:
    assert text(infer("Squeeze", tensor("float32", 1, 3, 1))[0]) == "float32[3]"
    assert text(infer("Squeeze", tensor("float32", B + 2, 3))[0]) == "float32[B + 2, 3]"
    assert text(infer("Squeeze", tensor("float32", "N", 1))[0]) == "float32[...]"
    with pytest.raises(RankUnknown):
        infer("Squeeze", tensor("float32", "N", 1), strict=True)


def test_squeezing_more_than_one_element_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="axis 1 to be squeezed has 3 elements"):
        infer("Squeeze", tensor("float32", 1, 3), numbers(1))


def test_axes_that_are_not_known_as_numbers_leave_the_rank() -> None:
    assert text(infer("Unsqueeze", tensor("float32", "N"), unknown("int64", 2))[0]) == "float32[y0#1, y0#2, y0#3]"
    with pytest.raises(NumbersUnknown):
        infer("Unsqueeze", tensor("float32", "N"), unknown("int64", 2), strict=True)


def test_a_doubled_axis_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="name one axis twice"):
        infer("Unsqueeze", tensor("float32", "N"), numbers(0, -3))


def test_transposing_contents() -> None:
    (y,) = infer("Transpose", tensor("int64", 2, 2, contents=[1, 2, 3, B]), perm=[1, 0])
    assert text(y) == "int64[2, 2] = [1, 3, 2, B]"


def test_a_perm_that_is_none_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"perm \[0, 0\] is no permutation"):
        infer("Transpose", tensor("float32", 2, 3), perm=[0, 0])


def test_pads_of_an_exporter_are_followed_through_a_matrix() -> None:
    """PyTorch turns its pads into ONNX's with Reshape (-1, 2), a reversing Slice, Transpose and Reshape (-1)."""
    (pairs,) = infer("Reshape", tensor("int64", 4, contents=[0, B, 0, 1]), numbers(-1, 2))
    (turned,) = infer("Slice", pairs, numbers(-1), numbers(-(2**63) + 1), numbers(0), numbers(-1))
    (columns,) = infer("Transpose", turned, perm=[1, 0])
    assert text(infer("Reshape", columns, numbers(-1))[0]) == "int64[4] = [0, 0, 1, B]"


def test_blocks_move_between_channels_and_space() -> None:
    check("DepthToSpace", floats(1, 8, 2, 3), blocksize=2)
    check("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2)
    with pytest.raises(ShapeInferenceError, match="6 channels"):
        infer("DepthToSpace", tensor("float32", 1, 6, "H", "W"), blocksize=2)
    with pytest.raises(ShapeInferenceError, match="height 3"):
        infer("SpaceToDepth", tensor("float32", 1, 6, 3, "W"), blocksize=2)
