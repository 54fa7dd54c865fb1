"""Resized images, sampling grids, and boxes."""

import struct
import zlib
from collections.abc import Sequence
from math import floor
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, Array
from ort_lite.testing.generator.arrays import between, cast
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw, check_size
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import image

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")


def scale_of(draw: Draw, size: int, least: float = 0.25) -> float:
    """Return a scale for an axis that keeps a nonzero size at least 1."""
    scale = draw.choice([1.0, 2.0, 3.0, 1.5, 0.5, 0.75, 2.5, 1.25, draw.integer(4, 50) / 16])
    return 1.0 if scale < least or (size and floor(scale * size) < 1) else scale


def scales_of(draw: Draw, x: Known, axes: Sequence[int], least: float = 0.25) -> list[float]:
    """Return scales of the axes, usually 1 for the first two of an image. Raises Rejected if the result is too large."""
    inner = draw.chance(0.85)
    scales = [1.0 if inner and x.rank > 2 and axis % x.rank < 2 else scale_of(draw, x.sizes[axis], least) for axis in axes]
    result = list(x.sizes)
    for axis, scale in zip(axes, scales, strict=True):
        result[axis] = floor(x.sizes[axis] * scale)
    check_size(result)
    return scales


def floats(draw: Draw, values: Sequence[float], dtype: str = "float32") -> str:
    """Return a vector of floats, usually constant."""
    return draw.array(cast(np.array(values, np.float32), dtype), draw.chance(0.85))


@recipe("Resize")
def resize(draw: Draw) -> NodeProposal:
    """Draw an image, and scales or sizes for some axes or for all."""
    x = image(draw, least=1) if draw.chance(0.8) else draw.value(0, low=1, least=1)
    if draw.version < 11:
        scales = scales_of(draw, x, range(x.rank))
        return call([x.name, floats(draw, scales)], mode=draw.choice([None, *_modes(draw, 0)[:2]]))
    axes = list(range(x.rank))
    attributes = _coordinates(draw, _modes(draw, x.rank))
    if draw.has_attribute("axes") and draw.chance(0.5):
        axes = draw.axes(x.rank, least=1) if draw.chance(0.3) else list(range(min(2, x.rank - 1), x.rank))
        attributes["axes"] = axes
    sized = draw.chance(0.4)
    if draw.has_attribute("antialias") and attributes.get("mode") in ("linear", "cubic"):
        attributes["antialias"] = draw.choice([None, 0, 1])
    if sized and 0 not in x.sizes and draw.has_attribute("keep_aspect_ratio_policy"):
        attributes["keep_aspect_ratio_policy"] = draw.choice([None, None, *POLICIES])
    roi = _region(draw, len(axes), attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize")
    if not sized:
        return call([x.name, roi, floats(draw, scales_of(draw, x, axes))], **attributes)
    no_scales = "" if draw.version >= 13 else floats(draw, [])
    return call([x.name, roi, no_scales, draw.ints(*_sizes(draw, x, axes))], **attributes)


def _modes(draw: Draw, rank: int) -> Sequence[str]:
    """Return the possible modes: only numbers can be interpolated; cubic ones over two axes."""
    if draw.kind(0) not in (*FLOATS, "int8", "uint8", "int32"):
        return MODES[:1]
    return MODES if rank == 4 else MODES[:2]


def _coordinates(draw: Draw, modes: Sequence[str]) -> dict[str, Any]:
    mode = draw.choice([None, *modes, *modes])
    ways = [*COORDINATES]
    if draw.version < 13:
        ways.append("tf_half_pixel_for_nn")
    if draw.version >= 19:
        ways.append("half_pixel_symmetric")
    way = draw.choice([None, *ways])
    found: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": way}
    if mode in (None, "nearest"):
        found["nearest_mode"] = draw.choice([None, *NEAREST])
    if mode == "cubic":
        found["cubic_coeff_a"] = draw.choice([None, -0.75, -0.5])
        found["exclude_outside"] = draw.choice([None, 0, 1])
    if way == "tf_crop_and_resize":
        # No number stands for a text, and not every one for an integer.
        numbers = {"string": [0.0]}.get(draw.kind(0), [0.0, 9.0, -1.5] if draw.kind(0) in FLOATS else [0.0, 1.0])
        found["extrapolation_value"] = draw.choice([None, *numbers])
    elif draw.chance(0.1):
        found["extrapolation_value"] = 9.0  # which nothing reads
    return found


def _region(draw: Draw, count: int, needed: bool) -> str:
    """Return the starts and ends of each axis as fractions of its size, or an empty vector or nothing if they are not read."""
    if not needed:
        return "" if draw.version >= 13 and draw.chance(0.8) else floats(draw, [], draw.kind(1))
    starts = [draw.choice([0.0, 0.0, 0.125, 0.25, -0.125]) for _ in range(count)]
    ends = [draw.choice([1.0, 1.0, 0.75, 0.875, 1.25]) for _ in range(count)]
    return floats(draw, [*starts, *ends], draw.kind(1))


def _sizes(draw: Draw, x: Known, axes: Sequence[int]) -> list[int]:
    """Return sizes of the axes, usually unchanged for the first two of an image. An empty axis is not resized."""
    inner = draw.chance(0.85)
    kept = [not x.sizes[axis] or (inner and x.rank > 2 and axis % x.rank < 2) for axis in axes]
    return [
        x.sizes[axis] if keep else draw.integer(1, 2 * min(x.sizes[axis], 5) + 1) for axis, keep in zip(axes, kept, strict=True)
    ]


@recipe("Upsample")
def upsample(draw: Draw) -> NodeProposal:
    """Draw an image and scales of at least 1."""
    x = image(draw, high=4)
    scales = scales_of(draw, x, range(x.rank), least=1.0)
    scales = [max(scale, 1.0) for scale in scales]
    mode = draw.choice([None, *_modes(draw, 0)[:2]])
    if draw.version < 9:
        return call([x.name], scales=scales, mode=mode)
    return call([x.name, floats(draw, scales)], mode=mode)


@recipe("GridSample")
@recipe("GridSample", domain="com.microsoft")
def grid_sample(draw: Draw) -> NodeProposal:
    """Draw an image and a grid, from version 20 on also volumes. Elements that are not numbers are picked, not interpolated."""
    x = image(draw, low=4, high=4 if draw.version < 20 or draw.chance(0.7) else 5)
    space = x.rank - 2
    grid = (x.sizes[0], *[draw.integer(1, 4) for _ in range(space)], space)
    modes = ["bilinear", "nearest", "bicubic"] if draw.version < 20 else ["linear", "nearest", "cubic"]
    if draw.kind(0) not in FLOATS:
        mode: str | None = "nearest"
    else:
        mode = draw.choice([None, *(modes if space == 2 else modes[:2])])
    return call(
        [x.name, draw.tensor(1, grid, between(-1.25, 1.25))],
        mode=mode,
        padding_mode=draw.choice([None, "zeros", "border", "reflection"]),
        align_corners=draw.choice([None, 0, 1]),
    )


@recipe("AffineGrid")
def affine_grid(draw: Draw) -> NodeProposal:
    """Draw one affine matrix per batch, for a grid with two or three spatial axes."""
    space = draw.choice([2, 2, 3])
    batch = draw.integer(1, 3)
    sizes = [batch, draw.integer(1, 3), *[draw.integer(1, 5) for _ in range(space)]]
    return call([draw.tensor(0, (batch, space, space + 1)), draw.ints(*sizes)], align_corners=draw.choice([None, 0, 1]))


@recipe("NonMaxSuppression")
def non_max_suppression(draw: Draw) -> NodeProposal:
    """Draw boxes and distinct scores, whose order is therefore defined."""
    batch, count, classes = draw.size(2), draw.size(8), draw.size(3)
    centred = draw.choice([None, 0, 1])
    boxes = between(0, 4)(draw.rng, (batch, count, 4), "float32")
    if not centred and draw.chance(0.7):
        boxes[..., 2:] += boxes[..., :2]
    size = batch * classes * count
    scores = np.array(draw.rng.sample(range(size), size), np.float32).reshape(batch, classes, count) / max(size, 1)
    operands = [draw.array(boxes), draw.array(cast(scores, "float32"))]
    for index, value in ((2, draw.integer(0, 5)), (3, draw.choice([0.0, 0.25, 0.5, 1.0])), (4, draw.choice([0.0, 0.3, 0.9]))):
        array = cast(np.array(value), draw.kind(index)).reshape(draw.choice([(), (1,)]))
        operands.append(draw.array(array, draw.chance(0.7)) if draw.chance(0.7) else "")
    return call(operands, center_point_box=centred)


@recipe("ImageDecoder")
def image_decoder(draw: Draw) -> NodeProposal:
    """Draw a PNG or BMP file, which are lossless."""
    height, width, channels = draw.integer(1, 5), draw.integer(1, 5), draw.choice([1, 3])
    pixels = between(0, 255)(draw.rng, (height, width, channels), "uint8")
    data = png(pixels) if channels == 1 or draw.chance(0.5) else bmp(pixels)
    stream = draw.array(np.frombuffer(data, np.uint8).copy())
    return call([stream], pixel_format=draw.choice([None, "RGB", "BGR", "Grayscale"]))


def png(pixels: Array) -> bytes:
    """Encode gray or RGB pixels `(height, width, channels)`."""
    height, width, channels = pixels.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def bmp(pixels: Array) -> bytes:
    """Encode RGB pixels `(height, width, 3)`: rows from the bottom, blue first, padded to four bytes."""
    height, width, _ = pixels.shape
    padding = b"\0" * (-3 * width % 4)
    rows = b"".join(row[:, ::-1].tobytes() + padding for row in pixels[::-1])
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(rows), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54) + header + rows
