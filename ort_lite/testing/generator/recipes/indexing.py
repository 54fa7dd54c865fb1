"""Operators that read and write at indices, or select by conditions."""

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.testing.generator.arrays import Contents, between, indices, is_float, limits, numpy_random, with_nan
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe


@recipe("Gather")
def gather(draw: Draw) -> NodeProposal:
    """Draw an operand and indices into one of its axes."""
    value = draw.value(0, low=1)
    axis = draw.axis(value.rank)
    size = value.sizes[axis]
    shape = draw.shape(0, 2, most=4) if size else (0, *draw.shape(0, 1))
    if size and draw.chance(0.25):
        shape = (size,)  # as many rows as there are
    places = draw.tensor(1, shape, indices(size, draw.version >= 11) if size else between(0, 0))
    return call([value.name, places], axis=axis if axis or draw.chance(0.5) else None)


def within(draw: Draw, shape: Shape, axis: int) -> Shape:
    """Return a shape of indices that is no larger than `shape` except along the axis. That axis may be empty."""
    sizes = [n if draw.chance(0.6) else min(n, draw.size()) for n in shape]
    sizes[axis] = draw.size(4) if shape[axis] else 0
    return tuple(sizes)


@recipe("GatherElements")
def gather_elements(draw: Draw) -> NodeProposal:
    """Draw an operand and indices into one axis, of a shape that fits within the operand's other axes."""
    value = draw.value(0, low=1)
    axis = draw.axis(value.rank)
    size = value.sizes[axis]
    places = draw.tensor(1, within(draw, value.sizes, axis), indices(size) if size else between(0, 0))
    return call([value.name, places], axis=axis if axis or draw.chance(0.5) else None)


def distinct(draw: Draw, shape: Shape, axis: int, size: int, negative: bool) -> Array:
    """Return indices of which no two along the axis are equal."""
    lines = np.empty(shape, np.int64)
    for line in np.ndindex(*shape[:axis], *shape[axis + 1 :]):
        chosen = draw.rng.sample(range(size), shape[axis])
        lines[(*line[:axis], slice(None), *line[axis:])] = [at - size if negative and draw.chance(0.2) else at for at in chosen]
    return lines


def reduction(draw: Draw) -> str | None:
    """Draw how an update is combined with the data. max and min exist from version 18 on; strings and bools have no arithmetic."""
    if not draw.has_attribute("reduction"):
        return None
    kind = draw.kind(0)
    if kind in ("string", "bool") or kind.startswith("complex"):
        return draw.choice([None, "none"])
    return draw.choice([None, "none", "add", "mul", *(["max", "min"] * (draw.version >= 18))])


def scatter_data(draw: Draw, how: str | None) -> tuple[Known, Contents | None]:
    """Return the data and contents for the updates. With special numbers, max and min have NaN on both sides, which must survive."""
    if how in ("max", "min") and is_float(draw.kind(0)) and draw.draft.special:
        return draw.draft.lookup(draw.tensor(0, draw.shape(1, least=1), with_nan)), with_nan
    return draw.value(0, low=1), None


@recipe("Scatter", "ScatterElements")
def scatter_elements(draw: Draw) -> NodeProposal:
    """Draw updates along one axis. Without a reduction, no two updates have the same index."""
    how = reduction(draw)
    value, contents = scatter_data(draw, how)
    axis = draw.axis(value.rank)
    size = value.sizes[axis]
    sizes = list(within(draw, value.sizes, axis))
    negative = draw.version >= 11
    if how in (None, "none"):
        sizes[axis] = min(sizes[axis], size)
        array = distinct(draw, tuple(sizes), axis % value.rank, size, negative)
    else:
        array = np.asarray((indices(size) if size else between(0, 0))(draw.rng, sizes, "int64"))
    places = draw.array(array.astype(to_numpy(draw.kind(1))))
    updates = draw.tensor(2, sizes, contents)
    return call([value.name, places, updates], axis=axis if axis or draw.chance(0.5) else None, reduction=how)


@recipe("GatherND")
def gather_nd(draw: Draw) -> NodeProposal:
    """Draw an operand and index tuples, sometimes behind batch axes."""
    value = draw.value(0, low=1)
    batch = draw.integer(0, value.rank - 1) if draw.has_attribute("batch_dims") and draw.chance(0.5) else 0
    depth = draw.integer(1, value.rank - batch)
    named = value.sizes[batch : batch + depth]
    lead = (*value.sizes[:batch], *draw.shape(0, 2, most=3))
    if 0 in named and 0 not in lead:
        lead = (*lead, 0)
    columns = [np.asarray((indices(n) if n else between(0, 0))(draw.rng, lead, "int64")) for n in named]
    places = draw.array(np.stack(columns, -1))
    return call(
        [value.name, places], batch_dims=batch if batch or (draw.has_attribute("batch_dims") and draw.chance(0.3)) else None
    )


@recipe("ScatterND")
def scatter_nd(draw: Draw) -> NodeProposal:
    """Draw updates by index tuples. Without a reduction, no two updates have the same index."""
    how = reduction(draw)
    value, contents = scatter_data(draw, how)
    depth = draw.integer(1, value.rank)
    named = value.sizes[:depth]
    lead = draw.shape(0, 2, most=3)
    if 0 in named and 0 not in lead:
        lead = (*lead, 0)
    total, count = int(np.prod(named)), int(np.prod(lead))
    if how in (None, "none") and count > total:
        lead, count = (1,) * len(lead), min(1, total)
    chosen = (
        draw.rng.sample(range(total), count) if how in (None, "none") else [draw.integer(0, total - 1) for _ in range(count)]
    )
    columns = np.unravel_index(np.array(chosen, np.int64).reshape(lead), named) if count else [np.zeros(lead, np.int64)] * depth
    places = np.stack(columns, -1).astype(np.int64)
    if draw.chance(0.3):
        negative = numpy_random(draw.rng).random(places.shape) < 0.3
        places = np.where(negative, places - np.array(named), places)
    updates = draw.tensor(2, (*lead, *value.sizes[depth:]), contents)
    return call([value.name, draw.array(places), updates], reduction=how)


@recipe("TensorScatter")
def tensor_scatter(draw: Draw) -> NodeProposal:
    """Draw a cache and an update that fits behind each batch's write index, or wraps in circular mode."""
    cache = draw.value(0, low=3, least=1)
    axis = draw.choice([*range(1, cache.rank), *range(1 - cache.rank, 0)])
    length = draw.integer(1, cache.sizes[axis])
    shape = list(cache.sizes)
    shape[axis] = length
    mode = draw.choice([None, "linear", "circular"])
    most = cache.sizes[axis] - (1 if mode == "circular" else length)
    operands = [cache.name, draw.tensor(1, shape)]
    if draw.chance(0.8):
        operands.append(draw.tensor(2, (cache.sizes[0],), between(0, most)))
    return call(operands, axis=None if axis == -2 and draw.chance(0.5) else axis, mode=mode)


@recipe("OneHot")
def one_hot(draw: Draw) -> NodeProposal:
    """Draw indices, some of which are out of range, a depth, and the off and on values."""
    places = draw.value(0, high=3) if draw.chance(0.3) else None
    depth = draw.integer(1, 5)
    shape = draw.shape(0, 3, most=4) if places is None else places.sizes
    beyond = between(-depth - 2 if draw.version >= 11 else 0, depth + 1)
    name = draw.array(whole(draw, beyond(draw.rng, shape, "int64"), draw.kind(0)))
    size = draw.array(whole(draw, np.array(depth if draw.chance(0.5) else [depth], np.int64), draw.kind(1)))
    axis = draw.choice([None, -1, draw.integer(-len(shape) - 1 if draw.version >= 11 else 0, len(shape))])
    return call([name, size, draw.tensor(2, (2,))], axis=axis)


def whole(draw: Draw, array: Array, dtype: str) -> Array:
    """Return whole numbers in a type of any kind, not negative in an unsigned one."""
    if dtype.startswith("u"):
        array = np.clip(array, *limits("uint8"))
    return np.asarray(array).astype(to_numpy(dtype))


@recipe("Compress")
def compress(draw: Draw) -> NodeProposal:
    """Draw an operand and a condition along one axis or over all elements, which may be shorter."""
    value = draw.value(0, low=1)
    axis = draw.axis(value.rank) if draw.chance(0.7) else None
    size = int(np.prod(value.sizes)) if axis is None else value.sizes[axis]
    length = draw.integer(max(0, size - 2), size) if draw.chance(0.4) else size
    if axis is not None and draw.version < 11:
        axis %= value.rank
    return call([value.name, draw.tensor(1, (length,))], axis=axis)


@recipe("NonZero")
def nonzero(draw: Draw) -> NodeProposal:
    """Draw the only operand."""
    return call([draw.value(0).name])


@recipe("Unique")
def unique(draw: Draw) -> NodeProposal:
    """Draw an operand and the optional outputs, along one axis or over all elements."""
    value = draw.value(0)
    axis = draw.axis(value.rank) if value.rank and draw.chance(0.5) else None
    outputs = draw.choice([(True,), (True, True, True, True), (True, False, True), (True, True), (True, False, False, True)])
    return call([value.name], outputs, axis=axis, sorted=draw.choice([None, 0, 1]))
