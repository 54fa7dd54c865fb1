"""Convolutions and what goes with them."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.casting import NUMBERS
from tests.cpu.check import ints, ramp

X, W, B = ramp((1, 4, 6, 5)), ramp((6, 4, 3, 3)), ramp((6,))
GROUPED = ramp((4, 2, 3, 3))
_PLAIN: dict[str, Any] = {"types": (), "constants": (1,), "rtol": 1e-4, "atol": 1e-5}
CONVOLUTIONS = [
    case("Conv", X, W, B, rtol=1e-4, atol=1e-5),
    case("Conv", X, W, strides=[2, 1], pads=[1, 0, 2, 1], **_PLAIN),
    case("Conv", X, GROUPED, group=2, dilations=[2, 1], **_PLAIN),
    case("Conv", X, ramp((4, 1, 3, 3)), B[:4], group=4, pads=[1, 1, 1, 1], **_PLAIN),
    *(
        case("Conv", X, W, strides=[2, 2], auto_pad=mode, oracle="onnxruntime", **_PLAIN)
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    case("Conv", ramp((2, 3, 8)), ramp((4, 3, 3)), pads=[1, 1], **_PLAIN),
    case("Conv", ramp((1, 2, 4, 4, 3)), ramp((3, 2, 2, 2, 2)), **_PLAIN),
    case("Conv", X, W[:, :, :1, :1], B, **_PLAIN),
    case("Conv", X[:0], W, **_PLAIN),
]


def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    group: int = 1,
    strides: Any = (1, 1),
    dilations: Any = (1, 1),
    pads: Any = (0,) * 4,
    output_padding: Any = (0, 0),
    output_shape: Any = None,
    auto_pad: str = "NOTSET",
    kernel_shape: Any = None,
) -> Array:
    """Every input element adds its multiple of the kernel to the output; then the borders are cut."""
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    sizes = [s * (n - 1) + r + o for s, n, r, o in zip(strides, x.shape[2:], reach, output_padding, strict=True)]
    pads = list(pads)
    wanted = output_shape
    if auto_pad.startswith("SAME") and wanted is None:
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        for k, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
            total = max(size - want, 0)
            small, large = total // 2, total - total // 2
            first_larger = auto_pad != "SAME_UPPER"
            pads[k], pads[k + 2] = (large, small) if first_larger else (small, large)
    y = np.zeros((x.shape[0], w.shape[1] * group, *sizes), np.float64)
    per = x.shape[1] // group
    for g in range(group):
        part, into = slice(g * per, (g + 1) * per), slice(g * w.shape[1], (g + 1) * w.shape[1])
        for i, j in np.ndindex(*w.shape[2:]):
            rows = slice(i * dilations[0], i * dilations[0] + strides[0] * (x.shape[2] - 1) + 1, strides[0])
            columns = slice(j * dilations[1], j * dilations[1] + strides[1] * (x.shape[3] - 1) + 1, strides[1])
            y[:, into, rows, columns] += np.einsum("nchw,co->nohw", x[:, part].astype(np.float64), w[part, :, i, j])
    y = y[:, :, pads[0] : sizes[0] - pads[2], pads[1] : sizes[1] - pads[3]]
    return np.asarray(y if b is None else y + b.reshape(-1, 1, 1)).astype(x.dtype)


_TW = ramp((4, 3, 3, 3))
_TRANSPOSED: dict[str, Any] = _PLAIN | {"oracle": conv_transpose}
TRANSPOSED = [
    case("ConvTranspose", X, _TW, B[:3], rtol=1e-4, atol=1e-5, oracle=conv_transpose),
    case("ConvTranspose", X, _TW, strides=[2, 2], pads=[1, 0, 1, 2], output_padding=[1, 0], **_TRANSPOSED),
    case("ConvTranspose", X, ramp((4, 3, 2, 3)), group=2, dilations=[2, 1], **_TRANSPOSED),
    case("ConvTranspose", X, _TW, strides=[2, 2], output_shape=[12, 10], **_TRANSPOSED),
    *(
        case("ConvTranspose", X, _TW, since=11, strides=[2, 2], auto_pad=mode, **_TRANSPOSED)
        for mode in ("SAME_UPPER", "SAME_LOWER")
    ),
    case("ConvTranspose", ramp((2, 3, 5)), ramp((3, 2, 3)), strides=[2], **(_PLAIN | {"oracle": "onnxruntime"})),
    case("ConvTranspose", X[:0], _TW, **_TRANSPOSED),
]


def conv_integer(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, pads: Any = (0,) * 4) -> Array:
    """Padding has the value of the zero point."""
    wide = x.astype(np.int32) - (0 if x_zero is None else int(x_zero))
    kernel = w.astype(np.int32)
    if w_zero is not None:
        kernel = kernel - w_zero.astype(np.int32).reshape(-1, 1, 1, 1)
    wide = np.pad(wide, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, kernel)).astype(np.int32)


_QX, _QW = ramp((1, 2, 5, 4), "uint8"), ramp((3, 2, 3, 3), "int8")
INTEGERS = [
    case("ConvInteger", _QX, _QW, oracle=conv_integer, types=()),
    case("ConvInteger", _QX, _QW.view(np.uint8), oracle=conv_integer, types=()),
    case("ConvInteger", _QX, _QW, np.array(9, np.uint8), pads=[1, 1, 1, 1], oracle=conv_integer, types=(), constants=(1, 2)),
    case("ConvInteger", _QX, _QW, np.array(9, np.uint8), np.array([1, -2, 3], np.int8), oracle=conv_integer, types=()),
    case("ConvInteger", _QX.view(np.int8), _QW, oracle=conv_integer, types=()),
]


def bilinear(plane: Array, y: float, x: float) -> float:
    """0 beyond the plane."""
    rows, columns = np.ogrid[: plane.shape[0], : plane.shape[1]]
    return float((plane * np.maximum(1 - abs(y - rows), 0) * np.maximum(1 - abs(x - columns), 0)).sum())


def deformed(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    kernel_shape: list[int],
    pads: Any = (0, 0, 0, 0),
    strides: Any = (1, 1),
) -> Array:
    """Every tap of the kernel is moved by two offsets, down and to the right, and read between the pixels."""
    y = np.zeros((x.shape[0], w.shape[0], *offset.shape[2:]))
    wide = x.astype(np.float64)
    for n, i, j in np.ndindex(x.shape[0], *offset.shape[2:]):
        for tap, (down, right) in enumerate(np.ndindex(*kernel_shape)):
            row = i * strides[0] - pads[0] + down + float(offset[n, 2 * tap, i, j])
            column = j * strides[1] - pads[1] + right + float(offset[n, 2 * tap + 1, i, j])
            read = np.array([bilinear(plane, row, column) for plane in wide[n]])
            y[n, :, i, j] += w[:, :, down, right] @ read * (1 if mask is None else mask[n, tap, i, j])
    return np.asarray(y if b is None else y + b.reshape(-1, 1, 1)).astype(x.dtype)


_OFFSET = ramp((1, 18, 4, 3), low=-1, high=1)
_MASK, _SPARSE_OFFSET = ramp((1, 9, 4, 3), low=0, high=1), ramp((1, 18, 3, 5), low=-1, high=1)
_DEFORMED: dict[str, Any] = _PLAIN | {"oracle": deformed, "kernel_shape": [3, 3]}
DEFORMED = [
    case("DeformConv", X, W, _OFFSET, B, **(_DEFORMED | {"types": None})),
    case("DeformConv", X, W, _OFFSET, None, _MASK, **_DEFORMED),
    case("DeformConv", X, W, _SPARSE_OFFSET, pads=[1, 1, 1, 1], strides=[2, 1], **_DEFORMED),
]

COLUMNS = [
    case("Col2Im", ramp((1, 8, 12), low=1, high=6), ints(4, 5), ints(2, 2), constants=(1, 2), types=NUMBERS),
    case("Col2Im", ramp((2, 4, 9)), ints(5, 5), ints(2, 2), constants=(1, 2), types=(), strides=[2, 2], pads=[0, 0, 1, 1]),
    case("Col2Im", ramp((1, 4, 9)), ints(5, 5), ints(2, 2), constants=(1, 2), types=(), dilations=[2, 2]),
]

CASES: tuple[Case, ...] = (*CONVOLUTIONS, *TRANSPOSED, *INTEGERS, *DEFORMED, *COLUMNS)
