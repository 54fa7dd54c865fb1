"""GridSample and AffineGrid."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import to_numpy
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import OrtLiteError
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.ort import both


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_is_onnxruntimes_for_60_sizes(mode: str, padding: str, align: int) -> None:
    """Which is PyTorch's for the same sizes: decision 0076."""
    text = f'mode="{mode}", padding_mode="{padding}", align_corners={align}'
    draw = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    nodes = []
    for k in range(60):
        height, width, points = draw.integers(1, 13, 3).tolist()
        feeds[f"x{k}"] = draw.standard_normal((1, 2, height, width)).astype(np.float32)
        feeds[f"g{k}"] = draw.uniform(-2.5, 2.5, (1, points, 5, 2)).astype(np.float32)
        nodes.append(f"y{k} = GridSample<{text}>(x{k}, g{k})")
    for ours, theirs in zip(*both(nodes, feeds, 20), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_images_have_the_numbers_of_volumes_of_one_layer(mode: str, padding: str, dtype: Any) -> None:
    """Images with few channels and with many, over several blocks. Some positions are NaN or infinite, and so are some pixels.

    A volume reads its layer again, without weight, unless its padding is zeros: then its pixels are finite here.
    """
    draw = np.random.default_rng(1)
    for n, c, points in ((2, 3, 67), (1, 40, 67), (1, 2, 4500)):
        x, grid = draw.standard_normal((n, c, 5, 6)).astype(dtype), draw.uniform(-1.8, 1.8, (n, points, 2, 2)).astype(dtype)
        if padding == "zeros":
            x[0, 0, :2, 1] = np.nan, np.inf
        grid[0, :9, 0, 0], grid[0, 5:14, 0, 1] = np.repeat([np.nan, np.inf, -np.inf], 3), np.repeat([np.inf, -1e30, np.nan], 3)
        volume = np.concatenate([grid, np.zeros_like(grid[..., :1])], -1)[:, None]
        attributes: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": 1}
        [want] = run_op("GridSample", [x[:, :, None], volume], attributes, opset=22)
        for threads in (1, 3):
            [got] = run_op("GridSample", [x, grid], attributes, opset=22, threads=threads)
            np.testing.assert_allclose(got, want[:, :, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("channels", [3, 40])
def test_grid_sample_behind_a_convolution_is_onnxruntimes(mode: str, channels: int) -> None:
    """The result of a convolution may lie with channels last."""
    draw = np.random.default_rng(2)
    feeds: dict[str, Any] = {
        "x": draw.standard_normal((1, channels, 9, 8)).astype(np.float32),
        "w": draw.standard_normal((channels, channels, 3, 3)).astype(np.float32),
        "g": draw.uniform(-1.2, 1.2, (1, 7, 6, 2)).astype(np.float32),
    }
    nodes = ["y0 = Conv<pads = [1, 1, 1, 1]>(x, w)", f'y1 = GridSample<mode = "{mode}">(y0, g)', "y2 = Conv(y1, w)"]
    for ours, theirs in zip(*both(nodes, feeds, 20), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_of_volumes_matches_the_reference(mode: str) -> None:
    x, grid = ramp((1, 2, 3, 4, 5)), ramp((1, 2, 3, 2, 3), low=-1.3, high=1.3)
    check_op("GridSample", x, grid, opset=22, atol=1e-4, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_grids_of_16_bits_are_read_as_numbers(dtype: str, mode: str) -> None:
    x, grid = ramp((2, 3, 4, 5)), ramp((2, 3, 6, 2), low=-1, high=1).astype(to_numpy(dtype))
    [got] = run_op("GridSample", [x, grid], {"mode": mode}, opset=22)
    [want] = run_op("GridSample", [x, grid.astype(np.float32)], {"mode": mode}, opset=22)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_positions_in_float64_images_are_computed_in_float64(mode: str) -> None:
    draw = np.random.default_rng(3)
    x, grid = draw.standard_normal((2, 2, 3, 5)), draw.uniform(-1, 1, (2, 4, 3, 2)).astype(np.float32)
    [got] = run_op("GridSample", [x, grid], {"mode": mode}, opset=20)
    [want] = run_op("GridSample", [x, grid.astype(np.float64)], {"mode": mode}, opset=20)
    np.testing.assert_array_equal(got, want)


def test_far_away_and_undefined_positions_read_nothing() -> None:
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 3, 2), 1e30, np.float32)
    check_op("GridSample", x, grid, opset=22, mode="linear", expected=np.zeros((1, 1, 1, 3), np.float32))
    [got] = run_op("GridSample", [x, np.full_like(grid, np.nan)], {"mode": "nearest"}, opset=22)
    assert not got.any()


def test_grid_sample_of_vectors_is_declined() -> None:
    with pytest.raises(NotSupported, match=r"GridSample 'node' .*rank 3; there are 4 and 5"):
        run_op("GridSample", [ramp((1, 1, 4)), ramp((1, 2, 1))], opset=22)


@pytest.mark.parametrize("dtype", ["int16", "uint64", "bool"])
def test_integers_are_interpolated_as_floats_and_rounded(dtype: str) -> None:
    x, grid = ramp((1, 2, 3, 4), dtype), ramp((1, 3, 5, 2), low=-1, high=1)
    check_op("GridSample", x, grid, opset=22, mode="nearest")
    floats = x.astype(np.float32 if dtype == "int16" else np.float64)
    [wide] = run_op("GridSample", [floats, grid], {"padding_mode": "border"}, opset=22)
    want = wide != 0 if dtype == "bool" else np.rint(wide).astype(dtype)
    check_op("GridSample", x, grid, opset=22, padding_mode="border", expected=want)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("width", [4, 1, 0])
def test_positions_of_anything_read_nothing_but_the_image(mode: str, padding: str, align: int, width: int) -> None:
    far = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e38, -9.3e18, 9.3e18], np.float32)
    grid = np.stack(np.meshgrid(far, far), -1)[None]
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    [got] = run_op("GridSample", [ramp((1, 2, 3, width)), grid], attributes, opset=22)
    assert got.shape == (1, 2, 8, 8)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("grid", "attributes", "message"),
    [
        ((1, 3, 3, 2), {}, "grid, .* is 1, but N is 2"),
        ((2, 3, 3, 3), {}, "grid, .* is 3, but rank-2 is 2"),
        ((2, 3, 3, 1, 2), {}, "the ranks of grid and input differ: 5 against 4"),
        ((2, 3, 3, 2), {"mode": "area"}, "mode 'area'"),
        ((2, 3, 3, 2), {"padding_mode": "wrap"}, "padding_mode 'wrap'"),
    ],
    ids=str,
)
def test_grids_that_do_not_fit_are_refused(
    grid: tuple[int, ...], attributes: dict[str, Any], message: str, fixed: bool
) -> None:
    with pytest.raises(OrtLiteError, match=f"GridSample 'node'.*{message}"):
        run_op("GridSample", [ramp((2, 1, 4, 5)), ramp(grid)], attributes, opset=22, fixed=fixed)


@pytest.mark.parametrize(
    ("theta", "size", "message"),
    [
        ((1, 2, 3), (2, 1, 3, 4), "theta and size are of different batches: 1 against 2"),
        ((2, 2, 2), (2, 1, 3, 4), r"theta, .* but k\+1|size, .* is 5, but k\+2 is 4"),
        (
            (2, 2, 3),
            (2, 1, 3, 4, 5),
            r"theta, .* but k\+1|size, .* is 5, but k\+2 is 4",
        ),
        ((2, 6), (2, 1, 3, 4), "theta, .*has rank 2"),
        ((2, 2, 3), (2, 1, 3), "a size of 3 numbers"),
        ((2, 2, 3), (2, 1, -3, -4), "a size of -3 along an axis"),
    ],
    ids=str,
)
def test_transforms_that_do_not_fit_are_refused(theta: tuple[int, ...], size: tuple[int, ...], message: str) -> None:
    for constants in ([], [1]):
        with pytest.raises(OrtLiteError, match=f"AffineGrid 'node'.*{message}"):
            run_op("AffineGrid", [ramp(theta), ints(*size)], {}, constants=constants)
