"""Operators that give memory another shape, and copies of all of it in another order."""

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite import InferenceSession
from ort_lite.errors import InvalidArgument, OrtLiteError
from tests.cpu.check import check_op, ints, op_program, ramp, run_op


def test_zeros_copy_sizes_of_the_input() -> None:
    with pytest.raises(OrtLiteError, match="Reshape 'node'"):
        run_op("Reshape", [ramp((0, 3)), ints(3, 0)])


def test_a_shape_that_does_not_fit_is_refused_with_its_numbers() -> None:
    program = op_program("Reshape", [ramp((2, 3)), ints(4, -1)], constants=[1])
    assert program([ramp((2, 6))])[0].shape == (4, 3)
    message = r"Reshape 'node' \(CPUExecutionProvider\): the shape \(2, 3\) cannot become \(4, 1\)"
    with pytest.raises(InvalidArgument, match=message):
        program([ramp((2, 3))])


def test_a_squeezed_axis_has_one_element() -> None:
    program = op_program("Squeeze", [ramp((2, 3)), ints(0)], constants=[1])
    assert program([ramp((1, 3))])[0].shape == (3,)
    with pytest.raises(InvalidArgument, match="Squeeze 'node'"):
        program([ramp((2, 3))])


@settings(max_examples=40)
@given(st.permutations(range(5)), st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_any_transpose_matches_numpy(perm: list[int], shape: list[int]) -> None:
    check_op("Transpose", ramp(shape, "float64"), perm=perm, expected=lambda x, perm: x.transpose(perm))


def test_blocks_must_fit() -> None:
    program = op_program("SpaceToDepth", [ramp((1, 1, 4, 6))], {"blocksize": 2})
    with pytest.raises(InvalidArgument, match="SpaceToDepth 'node'"):
        program([ramp((1, 1, 5, 6))])


def test_dimensions_that_cannot_be_expanded_are_named() -> None:
    program = op_program("Expand", [ramp((2, 3)), ints(4, 3)])
    with pytest.raises(InvalidArgument, match=r"Expand 'node' .*: dimension 4 is neither 1 nor 2, that of the result"):
        program([ramp((2, 3)), ints(4, 3)])


@pytest.mark.parametrize("block", [0, -2])
@pytest.mark.parametrize("op", ["DepthToSpace", "SpaceToDepth"])
@pytest.mark.parametrize("fixed", [True, False])
def test_blocks_have_a_size(op: str, block: int, fixed: bool) -> None:
    with pytest.raises(OrtLiteError, match=f"{op} 'node'"):
        run_op(op, [ramp((1, 4, 2, 2))], {"blocksize": block}, fixed=fixed)


@pytest.mark.parametrize("op", ["Tile", "Expand", "Reshape"])
def test_two_sizes_below_zero_are_no_size(op: str) -> None:
    """Their product is one."""
    program = op_program(op, [ramp((1, 1)) if op == "Expand" else ramp((2, 3)), ints(-2, -3)])
    with pytest.raises(InvalidArgument, match=f"{op} 'node' .*(has the element -2|cannot become .-2, -3)"):
        program([ramp((1, 1)) if op == "Expand" else ramp((2, 3)), ints(-2, -3)])


def test_an_empty_perm_is_none() -> None:
    """With all optimisations too: transforms read it the same way."""
    x = ramp((2, 3, 4))
    check_op("Transpose", x, expected=lambda x, perm: x.transpose(), perm=[])
    text = "(float[A,B,C] x) => (float[A,B,C] z) { y = Transpose<perm: ints = []>(x) z = Transpose<perm=[2,1,0]>(y) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> main {text}')
    np.testing.assert_array_equal(InferenceSession(model).run(None, {"x": x})[0], x)


@settings(max_examples=60)
@given(
    st.permutations(range(4)),
    st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=4, max_size=4),
    st.sampled_from([(1, 1, 2, 1), (2, 1, 1, 1), (1, 1, 1, 2), (0, 1, 1, 1), (1, 1, 0, 1), (1, 2, 0, 1), (2, 2, 2, 2)]),
    st.booleans(),
)
def test_axes_are_split_and_joined_in_any_storage_order(
    perm: list[int], sizes: list[int], parts: tuple[int, ...], open_: bool
) -> None:
    """Parts of an axis: two, itself, or none, which joins it to the next."""
    x = ramp(sizes)
    shape: list[int] = []
    joined = 1
    for axis, count in zip(perm, parts, strict=True):
        if not count:
            joined *= sizes[axis]
            continue
        size, joined = sizes[axis] * joined, 1
        shape += [size] if count == 1 else [2, size // 2] if size % 2 == 0 else [1, size]
    dims = "A,B,C,D" if open_ else ",".join(map(str, sizes))
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]> g (float[{dims}] x) => (z)
        <int64[{len(shape)}] s = {{{",".join(map(str, shape))}}}> {{
            a = Transpose<perm={list(perm)}>(x) b = Reshape(a, s) c = Neg(b) z = Neg(c) }}""")
    (got,) = InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(got, x.transpose(perm).reshape(shape))
