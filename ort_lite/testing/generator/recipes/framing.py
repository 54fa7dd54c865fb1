"""Operators on planes and borders: Pad, CenterCropPad, Trilu, DepthToSpace, SpaceToDepth, ReverseSequence."""

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe


@recipe("Pad")
def pad(draw: Draw) -> NodeProposal:
    """Draw a padding mode and pads, which may be negative, for some axes or for all."""
    modes = ["constant", "constant", "reflect", "edge"] + ["wrap"] * (draw.version >= 19)
    mode = draw.choice(modes)
    value = draw.value(0, low=1, least=0 if mode == "constant" else 1)
    axes = None
    if (draw.version >= 18 and draw.chance(0.4)) or (draw.has_input(3) and draw.kind(3) == "int32"):
        axes = draw.axes(value.rank, least=1)
    chosen = range(value.rank) if axes is None else [axis % value.rank for axis in axes]
    pairs = [borders(draw, mode, value.sizes[axis]) for axis in chosen]
    pads = [pair[side] for side in (0, 1) for pair in pairs]
    named = mode if mode != "constant" or draw.chance(0.5) else None
    if draw.version < 11:
        return call([value.name], mode=named, pads=pads, value=draw.maybe(draw.number(), 0.5))
    filling = draw.tensor(2, ()) if draw.chance(0.5) else ""
    operands = [value.name, draw.ints(*pads), filling]
    if axes is not None:
        operands.append(draw.ints(*axes, dtype=draw.kind(3)))
    return call(operands, mode=named)


def borders(draw: Draw, mode: str, size: int) -> tuple[int, int]:
    """Return the number of elements to add before and after an axis. Negative numbers remove elements."""
    most = min(3, size - 1) if mode == "reflect" else 3
    least = -1 if draw.chance(0.3) else 0
    begin, end = draw.integer(least, most), draw.integer(least, most)
    rest = size + min(begin, 0) + min(end, 0)
    fits = rest >= 0 if mode == "constant" else rest >= 1 and (mode != "reflect" or max(begin, end) < rest)
    return (begin, end) if fits else (0, 0)


@recipe("CenterCropPad")
def center_crop_pad(draw: Draw) -> NodeProposal:
    """Draw target sizes, smaller or larger than the operand's, for some axes or for all."""
    value = draw.value(0, low=1)
    axes = draw.axes(value.rank, least=1) if draw.chance(0.6) else None
    count = value.rank if axes is None else len(axes)
    sizes = [draw.size(7) for _ in range(count)]
    return call([value.name, draw.ints(*sizes, dtype=draw.kind(1))], axes=axes)


@recipe("Trilu")
def trilu(draw: Draw) -> NodeProposal:
    """Draw a matrix or a stack of matrices, and a diagonal that may lie outside them."""
    value = draw.value(0, low=2)
    k = draw.scalar(draw.integer(-6, 6), "int64") if draw.chance(0.7) else ""
    return call([value.name, k], upper=draw.choice([None, 0, 1]))


def plane(draw: Draw, multiple: int, channels: int) -> Shape:
    """Return the shape of an image `(N, C, H, W)`, with C a multiple of `channels`, and H and W multiples of `multiple`."""
    return (draw.size(2), channels * draw.size(3), multiple * draw.size(3), multiple * draw.size(3))


@recipe("DepthToSpace")
def depth_to_space(draw: Draw) -> NodeProposal:
    """Draw an image whose channels are a multiple of the squared block size."""
    block = draw.choice([1, 2, 2, 3])
    image = draw.tensor(0, plane(draw, 1, block * block))
    mode = draw.choice([None, "DCR", "CRD"]) if draw.has_attribute("mode") else None
    return call([image], blocksize=block, mode=mode)


@recipe("SpaceToDepth")
def space_to_depth(draw: Draw) -> NodeProposal:
    """Draw an image whose height and width are multiples of the block size."""
    block = draw.choice([1, 2, 2, 3])
    mode = draw.choice([None, "DCR", "CRD"]) if draw.has_attribute("mode") else None
    return call([draw.tensor(0, plane(draw, block, 1))], blocksize=block, mode=mode)


@recipe("ReverseSequence")
def reverse_sequence(draw: Draw) -> NodeProposal:
    """Draw sequences with batch and time as the first two axes, and their lengths."""
    value = draw.value(0, low=2)
    batch = draw.choice([0, 1])
    lengths = draw.tensor(1, (value.sizes[batch],), between(min(1, value.sizes[1 - batch]), value.sizes[1 - batch]))
    if batch == 1 and draw.chance(0.5):
        return call([value.name, lengths])
    return call([value.name, lengths], batch_axis=batch, time_axis=1 - batch)
