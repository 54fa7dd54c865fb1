"""Convolutions."""

from math import prod
from typing import Any

from ort_lite.testing.generator.arrays import between, limits, positive
from ort_lite.testing.generator.draft import Known, Rejected
from ort_lite.testing.generator.draw import Draw, check_size
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import SAME, KernelWindow, image, unless_default, weight, window

OFFSETS = between(-1.5, 1.5)


def groups(draw: Draw, channels: int) -> int:
    """Return a number of groups that divides the channels: often 1, sometimes one per channel."""
    if draw.chance(0.5):
        return 1
    return channels if draw.chance(0.4) else draw.choice([n for n in range(1, channels + 1) if channels % n == 0])


class Convolution:
    """The choices that all convolutions share: an image, groups, a window, and the shape of the weight."""

    def __init__(self, draw: Draw, x: Known, automatic: bool = True) -> None:
        self.draw, self.x, self.sizes = draw, x, x.sizes[2:]
        self.batch, self.channels = x.sizes[:2]
        self.group = groups(draw, self.channels)
        self.window: KernelWindow = window(draw, self.sizes, pooling=False, automatic=automatic)
        self.results = self.group * draw.integer(1, 4 if self.group < 4 else 2)
        """Channels of the result."""

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Return the shape of the weight, `(M, C / group, *kernel)`."""
        return self.results, self.channels // self.group, *self.window.kernel

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the node. Those that have their default value are sometimes left out."""
        return {
            **self.window.attributes(self.draw),
            "kernel_shape": self.draw.maybe(list(self.window.kernel), 0.7),
            "group": unless_default(self.draw, self.group, 1),
        }


@recipe("Conv")
def conv(draw: Draw) -> NodeProposal:
    """Draw an image, a weight and sometimes a bias."""
    own = Convolution(draw, image(draw))
    bias = weight(draw, 2, (own.results,)) if draw.chance(0.5) else ""
    return call([own.x.name, weight(draw, 1, own.weight_shape), bias], **own.attributes())


@recipe("ConvInteger")
def conv_integer(draw: Draw) -> NodeProposal:
    """Draw an integer image and weight, sometimes with zero points, per tensor or per output channel."""
    own = Convolution(draw, image(draw))
    points = [
        zero_point(draw, index, draw.choice([(), (1,)]) if index == 2 else draw.choice([(), (1,), (own.results,)]))
        if draw.chance(0.6)
        else ""
        for index in (2, 3)
    ]
    return call([own.x.name, weight(draw, 1, own.weight_shape), *points], **own.attributes())


@recipe("QLinearConv")
def qlinear_conv(draw: Draw) -> NodeProposal:
    """Draw a quantized image and weight with scales and zero points, per tensor or per output channel. No kernel cuts edges off."""
    own = Convolution(draw, image(draw))
    if min(own.window.pads) < 0:
        raise Rejected("pads below zero")
    by_channel = draw.chance(0.5)
    shape = (own.results,) if by_channel else ()
    operands = [
        own.x.name,
        weight(draw, 1, (), between(0.03125, 0.5)),
        zero_point(draw, 2),
        weight(draw, 3, own.weight_shape),
        weight(draw, 4, shape, between(0.03125, 0.5)),
        zero_point(draw, 5, shape),
        weight(draw, 6, (), positive),
        zero_point(draw, 7),
        weight(draw, 8, (own.results,), between(-200, 200)) if draw.chance(0.5) else "",
    ]
    return call(operands, **own.attributes())


def zero_point(draw: Draw, index: int, shape: tuple[int, ...] = ()) -> str:
    """Return a zero point, small or of the whole range, usually constant."""
    least, most = limits(draw.kind(index))
    return weight(draw, index, shape, between(-4, 4) if draw.chance(0.6) else between(least, most))


@recipe("ConvTranspose")
def conv_transpose(draw: Draw) -> NodeProposal:
    """Draw a transposed convolution, sometimes with output padding or an output shape."""
    x = image(draw)
    own = Convolution(draw, x)
    shape = (own.channels, own.results // own.group, *own.window.kernel)
    bias = weight(draw, 2, (own.results,)) if draw.chance(0.5) else ""
    attributes = own.attributes() | _spread(draw, own)
    return call([x.name, weight(draw, 1, shape), bias], **attributes)


def _spread(draw: Draw, own: Convolution) -> dict[str, Any]:
    """Return attributes of a transposed convolution whose output has a size of at least 1 after padding."""
    at, rank = own.window, own.window.rank
    more = [0] * rank
    if draw.chance(0.3):
        more = [draw.integer(0, max(s, d) - 1) for s, d in zip(at.strides, at.dilations, strict=True)]
    full = [(n - 1) * s + reach + m for n, s, reach, m in zip(own.sizes, at.strides, at.extents, more, strict=True)]
    found: dict[str, Any] = {"output_padding": unless_default(draw, more, [0] * rank)}
    check_size((max(own.batch, 1), own.results, *full))
    if (at.auto_pad in SAME and draw.chance(0.6)) or at.auto_pad == "VALID":
        return found
    if draw.chance(0.15):
        # The pads that follow from the size are less than the window.
        found["output_shape"] = [max(1, n - draw.integer(0, reach - 1)) for n, reach in zip(full, at.extents, strict=True)]
        return found | {"pads": None}
    pads = [max(0, pad) for pad in at.pads]
    for k, size in enumerate(full):
        while pads[k] + pads[rank + k] >= size:
            pads[k], pads[rank + k] = pads[k] // 2, pads[rank + k] // 2
    return found | {"auto_pad": None, "pads": unless_default(draw, pads, [0] * 2 * rank)}


@recipe("DeformConv")
def deform_conv(draw: Draw) -> NodeProposal:
    """Draw an image `(N, C, H, W)`, offsets of the kernel's taps and sometimes a mask."""
    own = Convolution(draw, image(draw, high=4, low=4), automatic=False)
    counts = own.window.counts(own.sizes)
    offset_group = groups(draw, own.channels)
    taps = offset_group * prod(own.window.kernel)
    operands = [
        own.x.name,
        weight(draw, 1, own.weight_shape),
        draw.tensor(2, (own.batch, taps * len(counts), *counts), OFFSETS),
        weight(draw, 3, (own.results,)) if draw.chance(0.4) else "",
        draw.tensor(4, (own.batch, taps, *counts), between(0, 1)) if draw.chance(0.5) else "",
    ]
    attributes = own.attributes() | {"offset_group": unless_default(draw, offset_group, 1)}
    attributes.pop("auto_pad")
    return call(operands, **attributes)


@recipe("Col2Im")
def col2im(draw: Draw) -> NodeProposal:
    """Draw the columns `(N, C * prod(kernel), windows)` of an image with one to three spatial axes."""
    sizes = [draw.integer(1, 5) for _ in range(draw.choice([1, 2, 2, 2, 3]))]
    at = window(draw, sizes, pooling=True, automatic=False)
    shape = (draw.size(3), draw.integer(1, 3) * prod(at.kernel), prod(at.counts(sizes)))
    attributes = at.attributes(draw)
    attributes.pop("auto_pad")
    return call([draw.tensor(0, shape), draw.ints(*sizes), draw.ints(*at.kernel)], **attributes)


@recipe("CausalConvWithState")
def causal_conv(draw: Draw) -> NodeProposal:
    """Draw an image `(N, C, L)`, a depthwise weight and sometimes a bias and a past state."""
    x = image(draw, high=3)
    batch, channels, _ = x.sizes
    size = draw.integer(1, 5)
    operands = [
        x.name,
        weight(draw, 1, (channels, 1, size)),
        weight(draw, 2, (channels,)) if draw.chance(0.5) else "",
        draw.tensor(3, (batch, channels, size - 1)) if draw.chance(0.5) else "",
    ]
    return call(operands, 2, activation=draw.choice([None, "none", "silu", "swish"]))
