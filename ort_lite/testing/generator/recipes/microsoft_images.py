"""Operators of com.microsoft on images, and on windows along an axis."""

import numpy as np

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw, check_size
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import FLAGS, MICROSOFT
from ort_lite.testing.generator.recipes.microsoft_products import window


@recipe("MaxpoolWithMask", domain=MICROSOFT)
def max_pool_with_mask(draw: Draw) -> NodeProposal:
    """Draw an image, a mask for all its planes or for each, and a window."""
    x = window(draw, draw.integer(1, 3), pools=True)
    planes = draw.integer(1, 2), draw.integer(1, 3)
    operands = [draw.tensor(0, (*planes, *x.sizes)), draw.tensor(1, (*draw.choice((planes, (1, 1))), *x.sizes), FLAGS)]
    attributes = {name: value for name, value in x.attributes.items() if name not in ("dilations", "ceil_mode")}
    return call(operands, storage_order=draw.maybe(draw.integer(0, 1), 0.2), **attributes)


@recipe("CropAndResize", domain=MICROSOFT)
def crop_and_resize(draw: Draw) -> NodeProposal:
    """Draw images and rectangles that may reach beyond them."""
    images, count = draw.integer(1, 3), draw.size(4)
    x = draw.tensor(0, (images, draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 6)))
    rois, index = draw.tensor(1, (count, 4), between(-0.25, 1.25)), draw.tensor(2, (count,), between(0, images - 1))
    size = draw.ints(draw.integer(1, 4), draw.integer(1, 4), dtype="int32")
    value = draw.maybe(draw.number())
    return call([x, rois, index, size], mode=draw.choice((None, "bilinear", "nearest")), extrapolation_value=value)


@recipe("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(draw: Draw) -> NodeProposal:
    """Draw a transposed convolution, and pads that leave a result."""
    rank, groups = draw.integer(1, 3), draw.choice((1, 1, 2))
    channels, outputs, batch = groups * draw.integer(1, 3), draw.integer(1, 3), draw.integer(1, 2)
    x = window(draw, rank)
    strides, dilations = (x.attributes[name] or [1] * rank for name in ("strides", "dilations"))
    steps = zip(x.sizes, x.kernel, strides, dilations, strict=True)
    full = [(n - 1) * stride + (k - 1) * dilation + 1 for n, k, stride, dilation in steps]
    check_size((batch, groups * outputs, *full))
    padded = x.attributes["auto_pad"] in (None, "NOTSET")
    pads = [draw.integer(0, min((full[k % rank] - 1) // 2, 2)) if padded else 0 for k in range(2 * rank)]
    operands = [
        draw.tensor(0, (batch, channels, *x.sizes)),
        draw.tensor(1, (channels, outputs, *x.kernel)),
        draw.ints(*pads),
        draw.tensor(3, (groups * outputs,)) if draw.chance(0.5) else "",
    ]
    attributes = {name: x.attributes[name] for name in ("strides", "dilations", "auto_pad")}
    return call(operands, group=groups if groups > 1 else None, **attributes)


@recipe("UnfoldTensor", domain=MICROSOFT)
def unfold_tensor(draw: Draw) -> NodeProposal:
    """Draw an operand with an axis, and windows along it."""
    x = draw.value(0, low=1, high=4, least=1)
    axis = draw.axis(x.rank)
    dim, size = draw.maybe(axis, 0.8), draw.integer(1, x.sizes[axis])
    size = min(size, x.sizes[-1]) if dim is None else size
    check_size((int(np.prod(x.sizes)), size))
    return call([x.name], dim=dim, size=size, step=draw.maybe(draw.integer(1, 3)))


@recipe("SampleOp", domain=MICROSOFT)
def sample_op(draw: Draw) -> NodeProposal:
    """Draw an operand, which is the result."""
    return call([draw.value(0, open_shape=True).name])
