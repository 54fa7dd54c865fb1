"""Activations and layer normalization, written out as exporters do."""

import math

from ort_lite.testing.generator.patterns.chain import Chain, pattern


@pattern("compose_gelu")
def gelu(chain: Chain) -> None:
    """x / 2 * (1 + Erf(x / sqrt(2))), its factors in any order."""
    if chain.opset < 9:
        chain.skip("Erf is of opset 9")
    x = chain.value(1)
    root = math.sqrt(2)
    inner = (
        chain.node("Div", x, chain.scalar(root)) if chain.chance(0.5) else chain.either_way("Mul", x, chain.scalar(1 / root))
    )
    gate = chain.either_way("Add", chain.node("Erf", inner), chain.scalar(1))
    half = chain.scalar(0.5)
    order = chain.rng.choice(("last", "first", "gate"))
    if order == "last":
        chain.either_way("Mul", chain.either_way("Mul", x, gate), half)
    elif order == "first":
        chain.either_way("Mul", chain.either_way("Mul", x, half), gate)
    else:
        chain.either_way("Mul", x, chain.either_way("Mul", gate, half))


@pattern("compose_swish")
def swish(chain: Chain) -> None:
    x = chain.value()
    chain.either_way("Mul", x, chain.node("Sigmoid", x))


def clipped(chain: Chain, x: str) -> str:
    """Clip(x + 3, 0, 6)."""
    moved = chain.either_way("Add", x, chain.scalar(3))
    if chain.opset < 11:
        return chain.node("Clip", moved, min=0.0, max=6.0)
    return chain.node("Clip", moved, chain.array_of(0), chain.array_of(6))


def sixth(chain: Chain, x: str) -> None:
    if chain.chance(0.5):
        chain.node("Div", x, chain.scalar(6))
    else:
        chain.either_way("Mul", x, chain.scalar(1 / 6))


@pattern("compose_hard_sigmoid")
def hard_sigmoid(chain: Chain) -> None:
    sixth(chain, clipped(chain, chain.value(1)))


@pattern("compose_hard_swish")
def hard_swish(chain: Chain) -> None:
    x = chain.value(1)
    sixth(chain, chain.either_way("Mul", x, clipped(chain, x)))


@pattern("compose_gated_hard_swish")
def gated_hard_swish(chain: Chain) -> None:
    x = chain.value(1)
    chain.either_way("Mul", x, chain.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def mean(chain: Chain, x: str, axes: list[int]) -> str:
    """ReduceMean, whose axes are an input from opset 18 on."""
    if chain.opset >= 18:
        return chain.node("ReduceMean", x, chain.ints(*axes))
    return chain.node("ReduceMean", x, axes=axes)


@pattern("compose_layer_norm", "fuse_layer_norm_bias")
def layer_norm(chain: Chain) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale, and mostly a bias."""
    x = chain.value(1, least=1)
    shape = chain.shape(x)
    first = chain.draw.integer(1, min(2, len(shape)))
    axes = list(range(-first, 0))
    centred = chain.node("Sub", x, mean(chain, x, axes))
    square = chain.node("Pow", centred, chain.scalar(2)) if chain.chance(0.5) else chain.node("Mul", centred, centred)
    total = chain.either_way("Add", mean(chain, square, axes), chain.array_of(chain.rng.choice([1e-5, 0.125])))
    scale = shape[-first:]
    operands = [chain.constant(scale) if chain.chance(0.7) else chain.fresh(scale) for _ in range(2)]
    y = chain.either_way("Mul", chain.node("Div", centred, chain.node("Sqrt", total)), operands[0])
    if chain.chance(0.7):
        chain.either_way("Add", y, operands[1])
