"""GridSample and AffineGrid."""

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_of_images_matches_the_reference(mode: str, padding: str, align: int) -> None:
    x, grid = ramp((2, 3, 4, 5)), ramp((2, 3, 6, 2), low=-1.7, high=1.7)
    check_op("GridSample", x, grid, opset=22, atol=1e-4, mode=mode, padding_mode=padding, align_corners=align)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_of_volumes_matches_the_reference(mode: str) -> None:
    x, grid = ramp((1, 2, 3, 4, 5)), ramp((1, 2, 3, 2, 3), low=-1.3, high=1.3)
    check_op("GridSample", x, grid, opset=22, atol=1e-4, mode=mode)


def test_the_grid_of_the_pixels_themselves_is_the_image() -> None:
    x = ramp((1, 2, 3, 4))
    rows, columns = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    grid = np.stack([columns, rows], -1)[None].astype(np.float32)
    check_op("GridSample", x, grid, opset=22, mode="cubic", align_corners=1, expected=lambda x, grid, **_: x)


def test_far_away_and_undefined_positions_read_nothing() -> None:
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 3, 2), 1e30, np.float32)
    check_op("GridSample", x, grid, opset=22, mode="linear", expected=np.zeros((1, 1, 1, 3), np.float32))
    [got] = run_op("GridSample", [x, np.full_like(grid, np.nan)], {"mode": "nearest"}, opset=22)
    assert not got.any()


def test_grid_sample_of_vectors_is_declined() -> None:
    with pytest.raises(NotSupported, match=r"GridSample 'node' .*rank 3; there are 4 and 5"):
        run_op("GridSample", [ramp((1, 1, 4)), ramp((1, 2, 1))], opset=22)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("space", [(3, 4), (2, 3, 4)], ids=str)
def test_affine_grid_matches_the_reference(space: tuple[int, ...], align: int) -> None:
    rank = len(space)
    theta = ramp((2, rank, rank + 1))
    check_op("AffineGrid", theta, ints(2, 3, *space), align_corners=align, constants=[1])


@pytest.mark.parametrize("dtype", ["int16", "uint64", "bool"])
def test_integers_are_interpolated_as_floats_and_rounded(dtype: str) -> None:
    x, grid = ramp((1, 2, 3, 4), dtype), ramp((1, 3, 5, 2), low=-1, high=1)
    check_op("GridSample", x, grid, opset=22, mode="nearest")
    floats = x.astype(np.float32 if dtype == "int16" else np.float64)
    [wide] = run_op("GridSample", [floats, grid], {"padding_mode": "border"}, opset=22)
    want = wide != 0 if dtype == "bool" else np.rint(wide).astype(dtype)
    check_op("GridSample", x, grid, opset=22, padding_mode="border", expected=want)
