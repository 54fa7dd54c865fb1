"""Operators that move elements: shapes, parts, paddings."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.cpu.check import ints, ramp

X = ramp((2, 3, 4), low=0.5, high=6)
IMAGE = ramp((1, 4, 4, 6), low=0.5, high=6)
EMPTY = np.zeros((0, 3), np.float32)
POINT = np.array(1.5, np.float32)


def reshaped(x: Array, *_: Any, **__: Any) -> Array:
    """Of a Reshape to (4, 3, -1) of (2, 3, 4)."""
    return x.reshape(4, 3, -1)


RESHAPES = [
    case("Reshape", X, until=4, shape=[4, 3, -1], oracle=reshaped),
    case("Reshape", X, until=4, shape=[0, -1], types=(), oracle=lambda x, **_: x.reshape(2, -1)),
    case("Reshape", X, ints(4, 3, -1), since=5, constants=(1,)),
    case("Reshape", X, ints(0, -1), since=5, types=(), constants=(1,)),
    case("Reshape", X, ints(0, 0, 2, 2), since=5, types=(), constants=(1,)),
    case("Reshape", POINT, ints(1, 1), since=5, types=(), constants=(1,)),
    case("Reshape", X[:1, :1, :1], ints(), since=5, types=(), constants=(1,)),
    case("Reshape", EMPTY, ints(3, 0), since=14, types=(), constants=(1,), allowzero=1),
    case("Reshape", EMPTY, ints(0, 3, 1), since=5, types=(), constants=(1,)),
]


def flattened(x: Array, axis: int = 1) -> Array:
    return x.reshape(int(np.prod(x.shape[: axis if axis >= 0 else axis + x.ndim])), -1)


FLATTENS = [
    case("Flatten", X, oracle=flattened),
    *(case("Flatten", X, types=(), axis=axis, oracle=flattened) for axis in (0, 2, 3)),
    case("Flatten", X, since=11, types=(), axis=-1, oracle=flattened),
    case("Flatten", np.zeros((3, 0), np.float32), types=(), oracle=lambda x: x),
]

_ONES = ramp((1, 3, 1, 2))
SQUEEZES = [
    case("Squeeze", _ONES, until=12, axes=[0, 2], oracle=lambda x, axes: x.reshape(3, 2)),
    case("Squeeze", _ONES, until=12, types=(), oracle=lambda x: x.reshape(3, 2)),
    case("Squeeze", _ONES, since=11, until=12, types=(), axes=[-2], oracle=lambda x, axes: x.reshape(1, 3, 2)),
    case("Squeeze", _ONES, ints(0, 2), since=13, constants=(1,)),
    case("Squeeze", _ONES, ints(-2), since=13, types=(), constants=(1,)),
    case("Squeeze", np.zeros((1, 0), np.float32), ints(0), since=13, types=(), constants=(1,)),
    case("Unsqueeze", X, until=12, axes=[0, 3]),
    case("Unsqueeze", X, since=11, until=12, types=(), axes=[-1]),
    case("Unsqueeze", X, ints(0, 3), since=13, constants=(1,)),
    case("Unsqueeze", X, ints(-1, 1), since=13, types=(), constants=(1,)),
    case("Unsqueeze", POINT, ints(0), since=13, types=(), constants=(1,)),
    case("Unsqueeze", EMPTY, ints(1), since=13, types=(), constants=(1,)),
]

TURNS = [
    case("Transpose", X, perm=[2, 0, 1]),
    case("Transpose", X, types=()),
    case("Transpose", EMPTY, types=(), perm=[1, 0]),
    case("Transpose", POINT, types=()),
    case("Identity", X),
    case("Identity", POINT, types=()),
    case("Identity", EMPTY, types=()),
    case("Identity", [X, X[0]], since=14, types=(), oracle=lambda x: x),
]

SIZES = [
    case("Shape", X),
    case("Shape", POINT, types=()),
    case("Shape", EMPTY, types=()),
    case("Shape", X, since=15, types=(), start=1),
    case("Shape", X, since=15, types=(), start=-2, end=-1),
    case("Shape", X, since=15, types=(), start=-9, end=9),
    case("Shape", X, since=15, types=(), start=2, end=1),
    case("Size", X),
    case("Size", POINT, types=()),
    case("Size", EMPTY, types=()),
]


def joined(*parts: Array, axis: int = 1) -> Array:
    return np.concatenate(parts, axis)


JOINS = [
    case("Concat", X, X[:, :1], X[:, 1:], until=3, oracle=joined),
    case("Concat", X, X[:1], until=3, types=(), axis=0, oracle=joined),
    case("Concat", X, X[:, :1], X[:, 1:], since=4, axis=1),
    case("Concat", X, types=(), axis=2),
    case("Concat", EMPTY, X[0, :, :3], EMPTY, types=(), axis=0),
    case("Concat", X, X[..., :1], since=11, types=(), axis=-1),
]


def sections(
    x: Array, given: Array | None = None, *, split: Any = None, axis: int = 0, num_outputs: int = 2
) -> tuple[Array, ...]:
    sizes = given if given is not None else split
    if sizes is None:
        size = -(-x.shape[axis] // num_outputs)
        sizes = [size] * (num_outputs - 1)
        sizes.append(x.shape[axis] - sum(sizes))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


_SPLIT: dict[str, Any] = {"oracle": sections, "outputs": 2}
SPLITS = [
    case("Split", X, until=1, axis=2, **_SPLIT),
    case("Split", X, until=1, axis=1, split=[1, 2], types=(), **_SPLIT),
    case(
        "Split",
        X,
        np.array([1, 2], np.float32),
        until=1,
        axis=1,
        types=(),
        constants=(1,),
        outputs=2,
        oracle=lambda x, split, axis: (x[:, :1], x[:, 1:]),
    ),
    case("Split", X, since=2, until=17, axis=2, **_SPLIT),
    case("Split", X, since=2, until=17, types=(), **_SPLIT),
    case("Split", X, since=2, until=12, axis=1, split=[1, 2], types=(), **_SPLIT),
    case("Split", X, since=11, until=12, axis=-2, split=[1, 2], types=(), **_SPLIT),
    case("Split", X, ints(1, 2), since=13, axis=-2, types=(), constants=(1,), **_SPLIT),
    case("Split", X, ints(0, 3), since=13, axis=1, types=(), constants=(1,), **_SPLIT),
    case("Split", X, since=18, axis=2, num_outputs=2, **_SPLIT),
    case("Split", X, since=18, axis=1, num_outputs=2, types=(), **_SPLIT),
    case("Split", EMPTY, ints(0, 0), since=13, types=(), constants=(1,), **_SPLIT),
]

_I32 = np.int32
SLICES = [
    case("Slice", X, until=9, starts=[1, 0], ends=[3, 2], axes=[1, 2]),
    case("Slice", X, until=9, types=(), starts=[0, -2], ends=[2**31, -1]),
    case("Slice", X, until=9, types=(), starts=[2], ends=[1], axes=[2]),
    case("Slice", X, ints(1, 0), ints(3, 2), ints(1, 2), since=10, constants=(1, 2, 3)),
    case("Slice", X, ints(0, -2), ints(2**62, -1), since=10, types=(), constants=(1, 2)),
    case("Slice", X, ints(0, 5), ints(3, -9), ints(1, 2), ints(2, -2), since=10, types=(), constants=(1, 2, 3, 4)),
    case("Slice", X, ints(-1), ints(-(2**63)), ints(-1), ints(-1), since=10, types=(), constants=(1, 2, 3, 4)),
    case("Slice", X, ints(2), ints(1), ints(0), since=10, types=(), constants=(1, 2, 3)),
    case("Slice", X, ints(1).astype(_I32), ints(3).astype(_I32), ints(1).astype(_I32), since=10, types=(), constants=(1, 2, 3)),
    case("Slice", EMPTY, ints(0), ints(5), ints(0), since=10, types=(), constants=(1, 2, 3)),
]


def padded(x: Array, pads: Any = None, fill: Array | None = None, axes: Array | None = None, **how: Any) -> Array:
    """With NumPy; negative pads cut afterwards."""
    if x.ndim == 0:
        return x
    amounts = np.asarray(pads if pads is not None else how["paddings"])
    named = range(x.ndim) if axes is None else [int(axis) % x.ndim for axis in axes]
    pairs = [(0, 0)] * x.ndim
    for axis, low, high in zip(named, amounts[: len(amounts) // 2], amounts[len(amounts) // 2 :], strict=True):
        pairs[axis] = (int(low), int(high))
    mode: Any = how.get("mode", "constant")
    grown = [(max(low, 0), max(high, 0)) for low, high in pairs]
    zero = "" if x.dtype == object else 0
    value: dict[str, Any] = {}
    if mode == "constant":
        value["constant_values"] = np.asarray(how.get("value", zero) if fill is None else fill.item())
    made: Array = np.pad(x, grown, mode, **value)
    return made[tuple(slice(-min(low, 0), n + min(high, 0)) for n, (low, high) in zip(made.shape, pairs, strict=True))]


_FILL = np.array(2.0, np.float32)
_PAD: dict[str, Any] = {"oracle": padded, "types": ()}
PADS = [
    case("Pad", X, until=1, paddings=[0, 1, 2, 1, 0, 1], value=1.5, oracle=padded),
    *(case("Pad", X, until=1, paddings=[1, 0, 2, 0, 2, 1], mode=mode, **_PAD) for mode in ("edge", "reflect")),
    case("Pad", X, since=2, until=10, pads=[0, 1, 2, 1, 0, 1], value=1.5, oracle=padded),
    case("Pad", X, since=2, until=10, pads=[0, -1, 2, 1, 0, -2], **_PAD),
    *(case("Pad", X, since=2, until=10, pads=[1, 0, 2, 0, 2, 1], mode=mode, **_PAD) for mode in ("edge", "reflect")),
    case("Pad", X, ints(0, 1, 2, 1, 0, 1), _FILL, since=11, constants=(1, 2), oracle=padded),
    case("Pad", X, ints(0, -1, 2, 1, 0, -2), since=11, constants=(1,), **_PAD),
    *(case("Pad", X, ints(1, 0, 2, 0, 2, 1), since=11, mode=mode, constants=(1,), **_PAD) for mode in ("edge", "reflect")),
    case("Pad", X, ints(1, 2, 2, 1), None, ints(-1, 0), since=18, constants=(1, 3), **_PAD),
    case("Pad", X, ints(1, 2, 3, 4), None, ints(1, 2).astype(np.int32), since=19, mode="wrap", constants=(1, 3), **_PAD),
    case("Pad", np.zeros((0,), np.float32), ints(1, 2), _FILL, since=11, constants=(1,), **_PAD),
    case("Pad", POINT, ints(), since=11, **_PAD),
]


def tiled_axis(x: Array, tiles: Array, axis: Array) -> Array:
    return np.concatenate([x] * int(tiles), int(axis))


REPEATS = [
    case("Tile", X, np.array(2, np.float32), np.array(1, np.float32), until=1, constants=(1, 2), oracle=tiled_axis),
    case("Tile", X, ints(1, 2, 3), since=6, constants=(1,)),
    case("Tile", X, ints(1, 0, 1), since=6, types=(), constants=(1,)),
    case("Tile", EMPTY, ints(2, 2), since=6, types=(), constants=(1,)),
    case("Expand", X[:, :1], ints(2, 3, 4), constants=(1,)),
    case("Expand", X[0, :, :1], ints(2, 1, 4), types=(), constants=(1,)),
    case("Expand", X, ints(1), types=(), constants=(1,)),
    case("Expand", POINT, ints(2, 0), types=(), constants=(1,)),
]

_SHUFFLE = ramp((1, 8, 2, 3), low=0.5, high=9)


def space_to_depth(x: Array, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    split = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return split.transpose(order).reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


BLOCKS = [
    case("DepthToSpace", _SHUFFLE, blocksize=2),
    case("DepthToSpace", _SHUFFLE, since=11, types=(), blocksize=2, mode="CRD"),
    case("DepthToSpace", np.zeros((0, 4, 1, 1), np.float32), types=(), blocksize=2),
    case("SpaceToDepth", IMAGE, blocksize=2, oracle=space_to_depth),
    case("SpaceToDepth", IMAGE, since=28, types=(), blocksize=2, mode="CRD", oracle=space_to_depth),
]


def triangle(x: Array, k: Array | None = None, upper: int = 1) -> Array:
    """Strings beyond the triangle are empty."""
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    away = columns - rows - (0 if k is None else int(k))
    return np.where(away >= 0 if upper else away <= 0, x, np.zeros((), x.dtype) if x.dtype != object else "").astype(x.dtype)


def centred(x: Array, shape: Array, axes: tuple[int, ...] | None = None) -> Array:
    """Cut and padded around the middle; an odd element more or less is one at the end."""
    for axis, size in zip(axes or range(x.ndim), shape.tolist(), strict=True):
        spare = size - x.shape[axis]
        start = max(-spare, 0) // 2
        x = np.take(x, range(start, start + min(size, x.shape[axis])), axis)
        pairs = [(0, 0)] * x.ndim
        pairs[axis] = (max(spare, 0) // 2, -(-max(spare, 0) // 2))
        x = np.pad(x, pairs, constant_values="" if x.dtype == object else np.zeros((), x.dtype))
    return x


_SQUARE = ramp((2, 4, 5), low=1, high=6)
CUTS = [
    case("Trilu", _SQUARE, oracle=triangle),
    case("Trilu", _SQUARE, types=(), upper=0, oracle=triangle),
    *(
        case("Trilu", _SQUARE, np.array(k), types=(), upper=up, constants=(1,), oracle=triangle)
        for k in (1, -2, 9)
        for up in (0, 1)
    ),
    case("Trilu", np.zeros((0, 3, 3), np.float32), types=(), oracle=triangle),
    case("CenterCropPad", X, ints(4, 2, 4), constants=(1,), oracle=centred),
    case("CenterCropPad", X, ints(1, 7), types=(), axes=[1, 2], constants=(1,), oracle=centred),
    case("CenterCropPad", X, ints(5).astype(np.int32), types=(), axes=[-1], constants=(1,), oracle=centred),
    case("ReverseSequence", X, ints(2, 1, 2)),
    case("ReverseSequence", X, ints(1, 3), types=(), batch_axis=0, time_axis=1),
]

CASES: tuple[Case, ...] = (
    *RESHAPES,
    *FLATTENS,
    *SQUEEZES,
    *TURNS,
    *SIZES,
    *JOINS,
    *SPLITS,
    *SLICES,
    *PADS,
    *REPEATS,
    *BLOCKS,
    *CUTS,
)
