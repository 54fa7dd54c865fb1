"""Resizing, sampling, boxes."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import NEWEST, Case, case
from tests.cpu.check import ints, ramp, reference

X = ramp((1, 2, 3, 4), low=0.5, high=6)
_F = np.float32


def floats(*values: float) -> Array:
    return np.array(values, _F)


def doubled(x: Array, *_: Any, **__: Any) -> Array:
    """The nearest elements at twice the size are each element twice."""
    return x.repeat(2, 2).repeat(2, 3)


_TWICE = floats(1, 1, 2, 2)
UPSAMPLES = [
    case("Upsample", X, until=1, height_scale=2.0, width_scale=2.0, oracle=doubled),
    case("Upsample", X, since=7, until=8, scales=[1.0, 1.0, 2.0, 2.0], oracle=doubled),
    case("Upsample", X, since=7, until=8, types=(), scales=[1.0, 1.0, 1.5, 2.5], mode="linear", oracle="onnxruntime"),
    case("Upsample", X, _TWICE, since=9, until=9, constants=(1,), oracle=doubled),
    case(
        "Upsample", X, floats(1, 1, 1.5, 2.5), since=9, until=9, types=(), mode="linear", constants=(1,), oracle="onnxruntime"
    ),
]

_ROI = floats(0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8)
_SCALES = floats(1, 1, 1.5, 2.5)
_FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # what version 10 does
_WHOLE = floats(1, 1, 2, 1.5)  # where scaled sizes are no whole numbers, onnxruntime is at odds with onnx.reference
_RESIZE: dict[str, Any] = {"types": (), "oracle": "onnxruntime", "constants": (1, 2, 3)}
RESIZES = [
    case("Resize", X, _TWICE, until=10, constants=(1,), oracle=doubled),
    *(
        case("Resize", X, scales, until=10, mode=mode, **(_RESIZE | {"constants": (1,)}))
        for scales in (_SCALES, floats(1, 1, 0.5, 0.75))
        for mode in ("nearest", "linear")
    ),
    case("Resize", X, floats(), _TWICE, since=11, until=12, constants=(1, 2), oracle=doubled, **_FLOOR),
    case("Resize", X, None, _TWICE, since=13, constants=(2,), oracle=doubled, **_FLOOR),
    *(
        case("Resize", X, floats(), scales, since=11, mode=mode, coordinate_transformation_mode=coordinates, **_RESIZE)
        for mode, coordinates, scales in (
            ("nearest", "half_pixel", _SCALES),
            ("nearest", "pytorch_half_pixel", floats(1, 1, 0.5, 2)),
            ("nearest", "asymmetric", _SCALES),
            ("linear", "half_pixel", _SCALES),
            ("linear", "align_corners", _WHOLE),
            ("linear", "asymmetric", _SCALES),
            ("cubic", "half_pixel", _SCALES),
            ("cubic", "align_corners", _WHOLE),
        )
    ),
    *(
        case("Resize", X, floats(), _SCALES, since=11, nearest_mode=mode, **_RESIZE)
        for mode in ("round_prefer_ceil", "floor", "ceil")
    ),
    case("Resize", X, floats(), _SCALES, since=11, until=12, coordinate_transformation_mode="tf_half_pixel_for_nn", **_RESIZE),
    case(
        "Resize",
        X,
        _ROI,
        _WHOLE,
        since=11,
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
        **_RESIZE,
    ),
    case(
        "Resize", X, floats(), floats(1, 1, 0.8, 1.3), since=11, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1, **_RESIZE
    ),
    case("Resize", X, floats(), floats(), ints(1, 2, 5, 3), since=11, until=12, mode="linear", **_RESIZE),
    case("Resize", X, None, None, ints(1, 2, 5, 3), since=13, mode="linear", **_RESIZE),
    case("Resize", X, None, None, ints(5, 3), since=18, mode="linear", axes=[2, 3], **_RESIZE),
    case("Resize", X, None, None, ints(7, 6), since=18, axes=[2, 3], keep_aspect_ratio_policy="not_larger", **_RESIZE),
    case("Resize", X, None, floats(1, 1, 0.6, 0.5), since=18, mode="linear", antialias=1, **_RESIZE),
    case("Resize", X, None, _SCALES, since=19, mode="linear", coordinate_transformation_mode="half_pixel_symmetric", **_RESIZE),
]


def nearest(x: Array, grid: Array, mode: str) -> Array:
    """What lies outside is 0, or an empty string."""
    n, c, height, width = x.shape
    y = np.full((n, c, *grid.shape[1:3]), "" if x.dtype == object else 0).astype(x.dtype)
    for at in np.ndindex(*grid.shape[:3]):
        column, row = (np.rint(((grid[at][k] + 1) * size - 1) / 2) for k, size in ((0, width), (1, height)))
        if 0 <= row < height and 0 <= column < width:
            y[at[0], :, at[1], at[2]] = x[at[0], :, int(row), int(column)]
    return y


def renamed(x: Array, grid: Array, mode: str, **how: Any) -> Any:
    """Before version 20 the modes were named after two axes; onnx.reference knows the newer names alone."""
    return reference("GridSample", [x, grid], {"mode": mode.removeprefix("bi"), **how}, 20, "", 1)[0]


def bordered(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: int) -> Any:
    """Cubic with border padding reads the nearest pixel of x for each of the sixteen: x continued by its edges (decision 0076).

    Corners are aligned, as they are in the cases below.
    """
    assert mode in ("cubic", "bicubic") and padding_mode == "border" and align_corners
    far = 8
    continued = np.pad(x, ((0, 0), (0, 0), (far, far), (far, far)), "edge")
    sizes = np.array([x.shape[3], x.shape[2]], grid.dtype)
    moved = 2 * ((grid + 1) / 2 * (sizes - 1) + far) / (sizes + 2 * far - 1) - 1
    return reference("GridSample", [continued, moved], {"mode": "cubic", "align_corners": 1}, 20, "", 1)[0]


def affine(theta: Array, size: Array, align_corners: int = 0) -> Array:
    """Each position, x first, in [-1, 1]: the ends are the corners, or the middles of the outermost pixels."""
    axes = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:].tolist()]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:].tolist())], -1)
    return np.asarray(np.einsum("...k,njk->n...j", places, theta)).astype(theta.dtype)


GRID = ramp((1, 3, 2, 2), low=-1.2, high=1.2)
_VOLUME, _GRID_3D = ramp((1, 2, 3, 3, 2)), ramp((1, 2, 2, 2, 3), low=-1.1, high=1.1)
SAMPLES = [
    case("GridSample", X, GRID, mode="nearest", oracle=nearest),
    *(
        case(
            "GridSample",
            X,
            GRID,
            types=(),
            align_corners=align,
            padding_mode=padding,
            since=since,
            until=until,
            mode=mode,
            oracle=bordered if padding == "border" and "cubic" in mode else renamed if since < 20 else "reference",
        )
        for since, until, modes in ((16, 19, ("bilinear", "bicubic")), (20, NEWEST, ("linear", "cubic")))
        for mode in modes
        for align, padding in ((0, "zeros"), (1, "border"), (0, "reflection"))
    ),
    case("GridSample", _VOLUME, _GRID_3D, since=20, types=()),
    case("AffineGrid", ramp((2, 2, 3)), ints(2, 3, 3, 2), constants=(1,), oracle=affine),
    case("AffineGrid", ramp((2, 2, 3)), ints(2, 3, 3, 2), types=(), constants=(1,), align_corners=1, oracle=affine),
    case("AffineGrid", ramp((1, 3, 4)), ints(1, 2, 2, 3, 2), types=(), constants=(1,), oracle=affine),
]

_BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], _F
)
_SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], _F)
BOXES = [
    case("NonMaxSuppression", _BOXES, _SCORES, *limits, oracle="onnxruntime", center_point_box=centred)
    for limits in ((), (ints(3),), (ints(3), floats(0.5)), (ints(9), floats(0.5), floats(0.4)), (ints(0), floats(0.5)))
    for centred in (0, 1)
]

CASES: tuple[Case, ...] = (*UPSAMPLES, *RESIZES, *SAMPLES, *BOXES)
