"""Operators that move elements."""

from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import Call, call, recipe


@recipe("Concat")
def concat(draw: Draw) -> Call:
    first = draw.value(0, low=1)
    assert first.shape is not None
    axis = draw.axis(first.rank)
    operands = [first.name]
    for _ in range(draw.integer(0, 3)):
        shape = list(first.shape)
        shape[axis] = draw.size(4)
        operands.append(draw.tensor(0, shape))
    draw.rng.shuffle(operands)
    return call(operands, axis=axis)


@recipe("Transpose")
def transpose(draw: Draw) -> Call:
    value = draw.value(0)
    permutation = draw.rng.sample(range(value.rank), value.rank)
    return call([value.name], perm=draw.maybe(permutation, 0.8) or None)
