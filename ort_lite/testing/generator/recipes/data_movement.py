"""Operators that change shapes or move elements: Reshape, Transpose, Concat, Split, Slice and similar ones."""

from math import prod

from ort_lite.testing.generator.draw import MOST_ELEMENTS, Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

BOUNDS = (2**31 - 1, -(2**31), 2**31 - 2)
"""Ends of slices that exporters write for "as far as there is": every type of index holds them."""
FAR_BOUNDS = (2**63 - 1, -(2**63), 2**62)


@recipe("Reshape")
def reshape(draw: Draw) -> NodeProposal:
    """Draw an operand and a shape of the same size, sometimes with 0 or -1 in it."""
    value = draw.value(0)
    shape = value.sizes
    if 0 in shape and draw.has_attribute("allowzero") and draw.chance(0.7):
        sizes = draw.rng.sample(shape, len(shape))
        return call([value.name, draw.ints(*sizes)], allowzero=1)
    sizes = list(shape) if 0 in shape else regroup(draw, shape)
    allowzero = draw.choice([None, 0, 1]) if draw.has_attribute("allowzero") and 0 not in shape else None
    if not allowzero:
        sizes = [0 if k < len(shape) and shape[k] == n and draw.chance(0.2) else n for k, n in enumerate(sizes)]
    if sizes and 0 not in shape and draw.chance(0.5):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return call([value.name, draw.ints(*sizes)], allowzero=allowzero)


def regroup(draw: Draw, shape: Shape) -> list[int]:
    """Return sizes with the same product: reordered, some of them merged, with some 1 added."""
    sizes = [n for n in shape if n != 1]
    if draw.chance(0.6):
        draw.rng.shuffle(sizes)
    while len(sizes) > 1 and draw.chance(0.4):
        at = draw.integer(0, len(sizes) - 2)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    for _ in range(draw.integer(0, 2)):
        sizes.insert(draw.integer(0, len(sizes)), 1)
    return sizes


@recipe("Transpose")
def transpose(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes a permutation of its axes."""
    value = draw.value(0)
    permutation = draw.rng.sample(range(value.rank), value.rank)
    return call([value.name], perm=draw.maybe(permutation, 0.8) or None)


@recipe("Flatten")
def flatten(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes the first axis of the columns."""
    value = draw.value(0)
    least = -value.rank if draw.version >= 11 else 0
    axis = draw.integer(least, value.rank)
    return call([value.name], axis=draw.maybe(axis, 0.8) if value.rank else axis)


@recipe("Squeeze")
def squeeze(draw: Draw) -> NodeProposal:
    """Draw an operand, and some or all of its axes of size 1."""
    value = draw.value(0)
    sizes = list(value.shape or ())
    if 1 not in sizes and draw.chance(0.8):
        del sizes[4:]
        for _ in range(draw.integer(1, 2)):
            sizes.insert(draw.integer(0, len(sizes)), 1)
        value = draw.draft.lookup(draw.tensor(0, sizes))
    units = [axis for axis, n in enumerate(sizes) if n == 1]
    chosen = draw.rng.sample(units, draw.integer(1, len(units))) if units else []
    axes = [axis - value.rank if draw.version >= 11 and draw.chance(0.3) else axis for axis in chosen]
    if not axes or draw.chance(0.2):
        return call([value.name])
    return call([value.name, draw.ints(*axes)]) if draw.has_input(1) else call([value.name], axes=axes)


@recipe("Unsqueeze")
def unsqueeze(draw: Draw) -> NodeProposal:
    """Draw an operand and the positions of one or two new axes."""
    value = draw.value(0, high=4)
    count = draw.integer(1, 2)
    axes = draw.axes(value.rank + count, count, count, negative=draw.version >= 11)
    if draw.version < 11:
        axes.sort()
    return call([value.name, draw.ints(*axes)]) if draw.has_input(1) else call([value.name], axes=axes)


@recipe("Concat")
def concat(draw: Draw) -> NodeProposal:
    """Draw one to four operands whose shapes differ only along one axis."""
    first = draw.value(0, low=1)
    axis = draw.axis(first.rank)
    operands = [first.name]
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        shape = list(first.sizes)
        shape[axis] = draw.size(4)
        operands.append(first.name if draw.chance(0.1) else draw.tensor(0, shape))
    draw.rng.shuffle(operands)
    return call(operands, axis=axis if draw.version >= 11 else axis % first.rank)


@recipe("Split")
def split(draw: Draw) -> NodeProposal:
    """Draw an operand, and equal or explicit sizes of the parts of one axis."""
    value = draw.value(0, low=1)
    axis = draw.axis(value.rank)
    size = value.sizes[axis]
    axis = axis if draw.version >= 11 else axis % value.rank
    named_axis = None if axis == 0 and draw.chance(0.5) else axis
    if draw.chance(0.5):
        counts = [count for count in range(1, min(size, 5) + 1) if divides(size, count, draw.version >= 18)] or [1]
        count = draw.choice(counts)
        return call([value.name], count, axis=named_axis, num_outputs=count if draw.has_attribute("num_outputs") else None)
    cuts = sorted(draw.integer(0, size) for _ in range(draw.integer(0, 3)))
    sizes = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    if draw.has_input(1):
        return call([value.name, draw.ints(*sizes)], len(sizes), axis=named_axis)
    return call([value.name], len(sizes), axis=named_axis, split=sizes)


def divides(size: int, count: int, rest: bool) -> bool:
    """Return True if `size` elements make `count` equal parts; with `rest` the last part may be smaller, but not empty."""
    return size > -(-size // count) * (count - 1) if rest else size % count == 0


@recipe("Slice")
def slices(draw: Draw) -> NodeProposal:
    """Draw starts, ends and steps, some of them negative or out of range."""
    value = draw.value(0)
    axes = draw.axes(value.rank, negative=draw.version >= 10)
    if plain := draw.chance(0.3):
        axes = list(range(len(axes)))
    narrow = draw.version >= 10 and draw.kind(1) == "int32"
    starts, ends = [endpoint(draw, narrow) for _ in axes], [endpoint(draw, narrow) for _ in axes]
    steps = [draw.choice([1, 1, 1, 2, 3, -1, -2, 7, -7]) for _ in axes]
    if draw.version < 10:
        return call([value.name], starts=starts, ends=ends, axes=None if plain else axes)
    kind = draw.kind(1)
    constant = draw.chance(0.8)
    operands = [draw.ints(*numbers, constant=constant, dtype=kind) for numbers in (starts, ends)]
    if not plain or draw.chance(0.3):
        operands.append(draw.ints(*axes, constant=constant, dtype=kind))
    stepped = draw.chance(0.6)
    if stepped and len(operands) == 2:
        operands.append("")
    return call([value.name, *operands, *([draw.ints(*steps, constant=constant, dtype=kind)] if stepped else [])])


def endpoint(draw: Draw, narrow: bool) -> int:
    """Return a start or end of a slice: usually near the axis, sometimes far outside it."""
    if draw.chance(0.15):
        return draw.choice(BOUNDS if narrow else (*BOUNDS, *FAR_BOUNDS))
    return draw.integer(-7, 7)


@recipe("Expand")
def expand(draw: Draw) -> NodeProposal:
    """Draw an operand and a shape that broadcasts with its own."""
    value = draw.value(0, high=4)
    sizes = list(draw.broadcastable(value.sizes))
    if draw.chance(0.2):
        sizes.insert(0, draw.size(3))
    return call([value.name, draw.ints(*sizes)])


@recipe("Tile")
def tile(draw: Draw) -> NodeProposal:
    """Draw an operand and the number of repeats along each axis, which may be 0."""
    value = draw.value(0, low=0 if draw.version >= 6 else 1)
    repeats = [draw.choice([1, 1, 2, 3, 0 if draw.chance(0.1) else 1]) for _ in value.sizes]
    if prod(repeats) * prod(value.sizes) > MOST_ELEMENTS:
        repeats = [1] * value.rank
    return call([value.name, draw.ints(*repeats)])
