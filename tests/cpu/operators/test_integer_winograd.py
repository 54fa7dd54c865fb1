"""3x3 convolutions of bytes by Winograd's algorithm in integers: its sums are those of the definition, and it is used where faster."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.native.cpu import host, parse_target
from ort_lite_cpu.kernels.gemm import integer_winograd
from ort_lite_cpu.kernels.gemm.byte_tile import vector_tile
from ort_lite_cpu.lowering.lowered import Instruction
from ort_lite_cpu.operators import integer_conv_costs as costs
from ort_lite_cpu.operators.convolutions import ConvolutionNumbers
from tests.cpu.check import op_program, ramp, run_op
from tests.cpu.operators.test_integer_conv import conv
from tests.cpu.operators.test_integer_matmul import full
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]
PADDED: dict[str, Any] = {"pads": [1, 1, 1, 1]}
INPUT_TRANSFORM = [
    [4, 0, -5, 0, 1, 0],
    [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0],
    [0, 4, 0, -5, 0, 1],
]
"""B' of F(4x4, 3x3)."""
CASES: list[tuple[Shape, int, dict[str, Any]]] = [
    ((1, 64, 8, 8), 64, PADDED),
    ((2, 33, 7, 10), 70, PADDED),
    ((1, 1, 5, 3), 1, {}),
    ((1, 40, 17, 21), 33, {"pads": [0, 2, 1, 0]}),
    ((1, 3, 3, 3), 5, {}),
    ((3, 5, 2, 1), 3, {"pads": [2, 1, 0, 3]}),
    ((1, 8, 61, 9), 32, PADDED),
    ((0, 4, 5, 6), 8, PADDED),
]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's algorithm wherever it can be used."""
    if not (host().has_vnni and host().has(integer_winograd.NEEDS)) or host().has_tiles:
        pytest.skip("no products of 16 bits that are added in one instruction, or tiles are used")
    monkeypatch.setattr(costs, "work_of_winograd", lambda numbers, tile: -1.0)


def kernels(inputs: list[Array], constants: list[int], **attributes: Any) -> set[str]:
    """Return the names of the kernels of a ConvInteger."""
    program = op_program("ConvInteger", inputs, attributes, opset=10, constants=constants, fixed=True)
    return {getattr(item.spec.function, "__name__", "") for item in program.lowered.items if isinstance(item, Instruction)}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("x", "outputs", "attributes"), CASES, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_exact(x: Shape, outputs: int, attributes: dict[str, Any], dtype: str) -> None:
    inputs = [full(x, dtype), full((outputs, x[1], 3, 3), "int8"), np.array(77, dtype), np.array(0, np.int8)]
    assert "integer_winograd" in kernels(inputs, [1, 3], **attributes)
    expected = conv(*inputs, **attributes) if x[0] else [np.zeros((0, outputs, 5, 6), np.int32)]
    for threads in (1, 2, 3):
        got = run_op("ConvInteger", inputs, attributes, opset=10, constants=[1, 3], fixed=True, threads=threads)
        np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("bias", [True, False])
def test_bytes_are_those_of_the_operator(dtype: str, bias: bool, threads: int) -> None:
    scale, zero = ramp((70,), low=0.01, high=0.1), np.array(3, dtype)
    given = [full((2, 20, 9, 6), dtype), np.array(0.02, np.float32), zero, full((70, 20, 3, 3), "int8") // 2, scale]
    inputs = [*given, np.zeros(70, np.int8), np.array(2, np.float32), zero, *([full((70,), "int32") >> 20] if bias else [])]
    expected = ort_op("QLinearConv", inputs, PADDED, opset=10, outputs=[dtype])
    constants = list(range(1, len(inputs)))
    got = run_op("QLinearConv", inputs, PADDED, opset=10, constants=constants, fixed=True, threads=threads)
    np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("weight", [127, -128])
def test_the_largest_numbers_fit(weight: int) -> None:
    """All weights alike, as many as sums below 2 ** 25 allow, and all patterns of inputs that a transform adds up."""
    channels = ((1 << 25) - 1) // (255 * 9 * abs(weight))
    w = np.full((2, channels, 3, 3), weight, np.int8)
    w[1, :, ::2], w[1, :, :, ::2] = -w[1, :, ::2] - 1, -w[1, :, :, ::2] - 1
    rows = np.array(INPUT_TRANSFORM)
    assert 255 * np.einsum("ik,jl->ijkl", rows, rows).clip(0).sum((2, 3)).max() == 17340
    patterns = [sign * np.multiply.outer(rows[i], rows[j]) > 0 for i in range(6) for j in range(6) for sign in (1, -1)]
    x = np.broadcast_to((255 * np.stack(patterns)).astype(np.uint8)[:, None], (len(patterns), channels, 6, 6)).copy()
    assert "integer_winograd" in kernels([x, w], [1])
    np.testing.assert_array_equal(run_op("ConvInteger", [x, w], {}, opset=10, constants=[1], fixed=True)[0], conv(x, w)[0])


@pytest.mark.usefixtures("always")
def test_sums_that_do_not_fit_are_computed_directly() -> None:
    channels = ((1 << 25) - 1) // (255 * 9 * 127) + 1
    x, w = np.full((1, channels, 6, 6), 255, np.uint8), np.full((1, channels, 3, 3), 127, np.int8)
    assert not integer_winograd.fits(w) and "integer_winograd" not in kernels([x, w], [1])
    np.testing.assert_array_equal(run_op("ConvInteger", [x, w], {}, opset=10, constants=[1], fixed=True)[0], conv(x, w)[0])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "attributes", [{"strides": [1, 2]}, {"dilations": [2, 1]}, {"group": 2}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}], ids=str
)
def test_other_convolutions_are_computed_directly(attributes: dict[str, Any]) -> None:
    x, w = full((1, 8, 9, 9), "uint8"), full((8, 8 // attributes.get("group", 1), 3, 3), "int8")
    assert "integer_winograd" not in kernels([x, w], [1], **attributes)


@pytest.mark.usefixtures("always")
def test_windows_of_three_by_three_have_winograd() -> None:
    x = full((1, 8, 9, 9), "uint8")
    assert "integer_winograd" not in kernels([x, full((8, 8, 3, 5), "int8")], [1])
    assert "integer_winograd" in kernels([x, full((8, 8, 3, 3), "int8")], [1])


@pytest.mark.usefixtures("always")
def test_images_may_have_a_third_axis_of_one() -> None:
    x, w = full((1, 64, 1, 28, 28), "uint8"), full((64, 64, 1, 3, 3), "int8")
    inputs, attributes = [x, w, np.array(77, np.uint8), np.array(0, np.int8)], {"pads": [0, 1, 1, 0, 1, 1]}
    assert "integer_winograd" in kernels(inputs, [1, 3], **attributes)
    got = run_op("ConvInteger", inputs, attributes, opset=10, constants=[1, 3], fixed=True)
    expected = conv(x[:, :, 0], w[:, :, 0], *inputs[2:], **PADDED)
    np.testing.assert_array_equal(got[0][:, :, 0], expected[0])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("batch", [0, 1, 5])
def test_the_batch_may_be_open(batch: int) -> None:
    inputs = [full((batch, 16, 9, 11), "int8"), full((33, 16, 3, 3), "int8"), np.array(7, np.int8), np.array(0, np.int8)]
    expected = conv(*inputs, **PADDED) if batch else [np.zeros((0, 33, 9, 11), np.int32)]
    got = run_op("ConvInteger", inputs, PADDED, opset=10, constants=[1, 3], threads=3)
    np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.usefixtures("always")
def test_weights_of_which_zero_points_leave_bytes() -> None:
    """Zero points of weights are subtracted before they are transformed, unless the differences are no bytes."""
    x, w = full((1, 8, 9, 9), "uint8"), full((8, 8, 3, 3), "uint8")
    for zero, taken in ((np.array(128, np.uint8), True), (np.array(3, np.uint8), False)):
        inputs = [x, w, np.array(9, np.uint8), zero]
        assert ("integer_winograd" in kernels(inputs, [1, 3])) == taken
        got = run_op("ConvInteger", inputs, {}, opset=10, constants=[1, 3], fixed=True)
        np.testing.assert_array_equal(got[0], conv(*inputs)[0])


@pytest.mark.parametrize("pin", ["winograd-pairs", "dots", "pairs"])
def test_it_is_a_candidate_that_can_be_pinned(pin: str) -> None:
    """Pinned or not, the sums are the same."""
    if not host().has_vnni or host().has_tiles:
        pytest.skip("the host has no dot products of bytes, or tiles")
    inputs = [full((1, 64, 28, 28), "uint8"), full((64, 64, 3, 3), "int8"), np.array(77, np.uint8), np.array(0, np.int8)]
    how: dict[str, Any] = {"opset": 10, "constants": [1, 3], "fixed": True, "pin": pin}
    choice = op_program("ConvInteger", inputs, PADDED, **how).kernels()["node"]
    assert choice.taken == pin and {"winograd-pairs", "dots", "pairs"} <= {*choice.costs}
    assert any("integer_winograd" in kernel for kernel in choice.kernels) == (pin == "winograd-pairs")
    expected = {"winograd-pairs": "pairs s16s16", "dots": "dots u8s8", "pairs": "pairs s16s16"}
    assert choice.instruction == expected[pin]
    free = op_program("ConvInteger", inputs, PADDED, **{**how, "pin": ""}).kernels()["node"]
    assert free.taken == "winograd-pairs" == min(free.costs, key=lambda name: free.costs[name].total)
    np.testing.assert_array_equal(run_op("ConvInteger", inputs, PADDED, **how)[0], conv(*inputs, **PADDED)[0])


@pytest.mark.parametrize(
    ("shape", "attributes", "constants", "reason"),
    [
        ((64, 64, 3, 3), {"strides": [2, 2]}, [1], "it is no 3x3 convolution without strides"),
        ((64, 64, 1, 1), {}, [1], "it is no 3x3 convolution without strides"),
        ((64, 64, 3, 3), {}, [], "its weight is computed when the model runs"),
        ((2, 200, 3, 3), {}, [1], "its sums may exceed 25 bits"),
    ],
)
def test_a_pin_that_cannot_be_says_why(shape: Shape, attributes: dict[str, Any], constants: list[int], reason: str) -> None:
    if not host().has_vnni or host().has_tiles:
        pytest.skip("the host has no dot products of bytes, or tiles")
    inputs = [full((1, shape[1], 9, 9), "uint8"), np.full(shape, 127, np.int8)]
    with pytest.raises(InvalidArgument, match=f"asks for 'winograd-pairs': {reason}"):
        op_program("ConvInteger", inputs, attributes, opset=10, constants=constants, fixed=True, pin="winograd-pairs")


def numbers(channels: int, size: int, outputs: int, taps: int = 3, stride: int = 1) -> ConvolutionNumbers:
    """Return a convolution of a square image that is padded so that its size stays as it is, over the stride."""
    result = -(-size // stride)
    return ConvolutionNumbers(
        1, 1, channels, outputs, size * size, 1, result, result, taps * taps, taps, stride, taps, taps - 1
    )


def form(case: ConvolutionNumbers) -> str:
    """Return the form of the least predicted work."""
    tile = vector_tile(parse_target("znver4"))
    assert tile is not None
    works = {"lines": costs.work_of_lines(case, tile), "windows": costs.work_of_windows(case, tile)}
    if case.taps == 9 and case.stride == 1:
        works["winograd"] = costs.work_of_winograd(case, tile)
    return min(works, key=lambda name: works[name])


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (numbers(64, 56, 64), "winograd"),
        (numbers(128, 28, 128), "winograd"),
        (numbers(256, 14, 256), "winograd"),
        (numbers(512, 28, 512), "winograd"),
        (numbers(512, 14, 512), "lines"),  # filters of 18 MiB for 16 tiles
        (numbers(512, 7, 512), "windows"),  # lines of 7 pixels leave an eighth of the rows that are computed for them
        (numbers(256, 14, 512, stride=2), "windows"),
        (numbers(64, 56, 128, stride=2), "lines"),
        (numbers(3, 224, 64, taps=7, stride=2), "lines"),  # windows of few channels take long to gather
        (numbers(3, 64, 64), "lines"),
        (numbers(8, 56, 64), "lines"),
    ],
    ids=str,
)
def test_the_form_of_the_least_work_is_the_fastest(case: ConvolutionNumbers, expected: str) -> None:
    """As measured on Zen 4, see decision 0125."""
    assert form(case) == expected


@pytest.mark.parametrize(
    ("m", "computed"), [(0, 0), (1, 2), (3, 4), (7, 8), (11, 14), (14, 14), (15, 16), (16, 16), (18, 18), (30, 30), (49, 50)]
)
def test_rows_are_counted_as_tiles_compute_them(m: int, computed: int) -> None:
    tile = vector_tile(parse_target("znver4"))
    assert tile is not None
    assert costs.computed_rows(m, tile) == computed


@pytest.mark.parametrize("tiles", [0, 1, 13, 28, 29, 30, 49, 57, 98, 196])
def test_blocks_are_alike(tiles: int) -> None:
    """No block has a few tiles only, since each reads all filters."""
    block = integer_winograd.block_tiles(tiles, 28, 4)
    assert block <= 28 and (tiles == 0 or block > 0)
    assert tiles <= 28 or (-(-tiles // block) == -(-tiles // 28) and (tiles - 1) % block + 1 > 8)
