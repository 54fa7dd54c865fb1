"""Activations and layer normalization, written out as exporters do."""

from ort_lite.testing.generator.chain import ChainDraft, chain_for


def hard_clip(chain: ChainDraft, x: str) -> str:
    """Append Clip(x + 3, 0, 6)."""
    moved = chain.either_way("Add", x, chain.scalar(3))
    if chain.opset < 11:
        return chain.node("Clip", moved, min=0.0, max=6.0)
    return chain.node("Clip", moved, chain.array_of(0), chain.array_of(6))


def sixth(chain: ChainDraft, x: str) -> None:
    """Divide a value by 6, or multiply it by 1/6."""
    if chain.chance(0.5):
        chain.node("Div", x, chain.scalar(6))
    else:
        chain.either_way("Mul", x, chain.scalar(1 / 6))


@chain_for("compose_hard_sigmoid")
def hard_sigmoid(chain: ChainDraft) -> None:
    """Append HardSigmoid, written out as a clip and a division by 6."""
    sixth(chain, hard_clip(chain, chain.value(1)))


@chain_for("compose_hard_swish")
def hard_swish(chain: ChainDraft) -> None:
    """Append HardSwish, written out as a clip, a multiplication and a division by 6."""
    x = chain.value(1)
    sixth(chain, chain.either_way("Mul", x, hard_clip(chain, x)))


@chain_for("compose_gated_hard_swish")
def hard_swish_gate(chain: ChainDraft) -> None:
    """Draft a gated hard swish, at times with the default of HardSigmoid, 0.2, which is near 1/6."""
    x = chain.value(1)
    slope = {"alpha": 1 / 6} if chain.chance(0.7) else {}
    chain.either_way("Mul", x, chain.node("HardSigmoid", x, beta=0.5, **slope))


def mean(chain: ChainDraft, x: str, axes: list[int]) -> str:
    """Append ReduceMean, whose axes are an input from opset 18 on."""
    if chain.opset >= 18:
        return chain.node("ReduceMean", x, chain.ints(*axes))
    return chain.node("ReduceMean", x, axes=axes)


@chain_for("compose_layer_norm", "fuse_layer_norm_bias")
def layer_norm(chain: ChainDraft) -> None:
    """Append (x - mean) / sqrt(variance + epsilon) * scale and usually a bias."""
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
