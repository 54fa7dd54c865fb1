"""Pools over windows, over whole images and over regions."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.testing.generator.arrays import between, cast
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import image, unless_default, window


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(draw: Draw) -> NodeProposal:
    """Draw an image and a window that fits into it."""
    x = image(draw)
    dilated = draw.has_attribute("dilations")
    at = window(draw, x.sizes[2:], pooling=True, dilated=dilated)
    attributes: dict[str, Any] = at.attributes(draw, dilated) | {"kernel_shape": list(at.kernel)}
    if draw.has_attribute("ceil_mode"):
        attributes["ceil_mode"] = draw.choice([None, 0, 1, 1])
    if draw.has_attribute("count_include_pad"):
        attributes["count_include_pad"] = draw.choice([None, 0, 1])
    outputs = 1
    if draw.op_type == "LpPool":
        attributes["p"] = draw.choice([None, 1, 2, 3, 4])
    if draw.has_attribute("storage_order"):
        outputs = draw.choice([1, 1, 2])
        attributes["storage_order"] = draw.choice([None, 0, 1])
    return call([x.name], outputs, **attributes)


@recipe("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(draw: Draw) -> NodeProposal:
    """Draw an image, and for GlobalLpPool the order of the norm."""
    p = draw.choice([None, 1, 2, 3]) if draw.op_type == "GlobalLpPool" else None
    return call([image(draw).name], p=p)


@recipe("MaxUnpool")
def max_unpool(draw: Draw) -> NodeProposal:
    """Draw distinct positions in the result without `output_shape`, which only adds elements at the end."""
    shape = image(draw).sizes
    kernel = [draw.integer(1, 3) for _ in shape[2:]]
    strides = [draw.integer(1, 3) for _ in shape[2:]]
    full = [(n - 1) * s + k for n, s, k in zip(shape[2:], strides, kernel, strict=True)]
    before = [draw.integer(0, min(k, n) - 1) if draw.chance(0.2) else 0 for k, n in zip(kernel, full, strict=True)]
    pads = [*before, *[0] * len(full)]
    sizes = [n - b for n, b in zip(full, before, strict=True)]
    result = (*shape[:2], *sizes)
    count = prod(shape)
    if count > prod(result):
        shape = (0, *shape[1:])
        result, count = (0, *result[1:]), 0
    places = np.array(draw.rng.sample(range(prod(result)), count), np.int64).reshape(shape)
    larger = [*result[:2], *(n + draw.integer(0, 2) for n in sizes)]
    operands = [draw.tensor(0, shape), draw.array(places), draw.ints(*larger) if draw.chance(0.3) else ""]
    return call(
        operands,
        kernel_shape=kernel,
        strides=unless_default(draw, strides, [1] * len(strides)),
        pads=unless_default(draw, pads, [0] * len(pads)),
    )


def regions(draw: Draw, space: Sequence[int], count: int) -> Array:
    """Return boxes (left, top, right, bottom), some of which extend beyond the image."""
    height, width = space
    left, top = ([draw.integer(-4, 4 * n - 1) / 4 for _ in range(count)] for n in (width, height))
    right = [x + draw.integer(0, 4 * width) / 4 for x in left]
    bottom = [y + draw.integer(0, 4 * height) / 4 for y in top]
    return np.array([left, top, right, bottom]).T.reshape(count, 4)


@recipe("MaxRoiPool")
def max_roi_pool(draw: Draw) -> NodeProposal:
    """Draw an image `(N, C, H, W)` and regions, some of which reach beyond it."""
    x = image(draw, low=4, high=4)
    count = draw.size(4) if x.sizes[0] else 0
    batch = np.array([[draw.integer(0, x.sizes[0] - 1)] for _ in range(count)]).reshape(count, 1)
    rois = np.concatenate([batch, regions(draw, x.sizes[2:], count)], 1)
    scale = draw.choice([None, 1.0, 0.5, 0.25, 2.0])
    pooled = [draw.integer(1, 4), draw.integer(1, 4)]
    return call([x.name, draw.array(cast(rois, draw.kind(1)))], pooled_shape=pooled, spatial_scale=scale)


@recipe("RoiAlign")
def roi_align(draw: Draw) -> NodeProposal:
    """Draw an image `(N, C, H, W)`, regions and the batch index of each region."""
    x = image(draw, low=4, high=4)
    count = draw.size(4) if x.sizes[0] else 0
    rois = draw.array(cast(regions(draw, x.sizes[2:], count), draw.kind(1)))
    batch = draw.tensor(2, (count,), between(0, max(x.sizes[0] - 1, 0)))
    halves = ["half_pixel", "output_half_pixel", None]
    return call(
        [x.name, rois, batch],
        mode=draw.choice([None, "avg", "max"]),
        output_height=draw.maybe(draw.integer(1, 4), 0.8),
        output_width=draw.maybe(draw.integer(1, 4), 0.8),
        sampling_ratio=draw.choice([None, 0, 1, 2, 3]),
        spatial_scale=draw.choice([None, 1.0, 0.5, 0.25, 2.0]),
        coordinate_transformation_mode=draw.choice(halves) if draw.has_attribute("coordinate_transformation_mode") else None,
    )
