"""Convolutions and products with the nodes that can be folded into them: normalization, channel constants, sums and activations."""

from ort_lite.testing.generator.arrays import positive
from ort_lite.testing.generator.chain import ChainDraft, chain_for

GEMM_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")
CONV_ACTIVATIONS = (*GEMM_ACTIVATIONS, "Clip", "HardSwish")


def activation(chain: ChainDraft, x: str, op_types: tuple[str, ...]) -> str:
    """Append one of the activations, sometimes with parameters."""
    op_type = chain.rng.choice(op_types)
    if op_type == "HardSwish" and chain.opset < 14:
        op_type = "Relu"
    if op_type == "LeakyRelu" and chain.chance(0.5):
        return chain.node(op_type, x, alpha=0.25)
    if op_type == "HardSigmoid" and chain.chance(0.5):
        return chain.node(op_type, x, alpha=0.25, beta=0.75)
    if op_type == "Clip" and chain.opset < 11:
        return chain.node(op_type, x, min=-1.0, max=2.0)
    if op_type == "Clip":
        return chain.node(op_type, x, chain.array_of(-1.0), chain.array_of(2.0) if chain.chance(0.7) else "")
    return chain.node(op_type, x)


def batch_norm(chain: ChainDraft, x: str) -> str:
    """Append BatchNormalization with constant statistics."""
    channels = chain.shape(x)[1:2]
    operands = [chain.constant(channels) for _ in range(3)]
    variance = chain.array(positive(chain.rng, channels, "float32"))
    return chain.node("BatchNormalization", x, *operands, variance)


def convolution(chain: ChainDraft) -> str:
    """Append a Conv or ConvTranspose and return the name of its output."""
    return chain.by_recipe("Conv" if chain.chance(0.7) else "ConvTranspose")


@chain_for("fuse_conv_batch_norm")
def conv_batch_norm(chain: ChainDraft) -> None:
    """Append a convolution, BatchNormalization and sometimes an activation."""
    y = batch_norm(chain, convolution(chain))
    if chain.chance(0.5):
        activation(chain, y, CONV_ACTIVATIONS)


@chain_for("fuse_gemm_batch_norm")
def gemm_batch_norm(chain: ChainDraft) -> None:
    """Normalize the columns of a product with constant weights."""
    a = chain.value(2, 2, least=1)
    depth, columns = chain.shape(a)[1], chain.draw.integer(1, 6)
    flip = chain.rng.choice([0, 1])
    b = chain.constant((columns, depth) if flip else (depth, columns))
    c = chain.constant(chain.rng.choice([(columns,), (1, columns), (1,), ()])) if chain.opset < 11 or chain.chance(0.7) else ""
    operands = [a, b, c] if c else [a, b]
    batch_norm(chain, chain.node("Gemm", *operands, transB=flip, beta=chain.rng.choice([1.0, 0.5])))


@chain_for("fuse_conv_scale")
def conv_scale(chain: ChainDraft) -> None:
    """Multiply or divide a convolution's output by one constant per channel."""
    y = convolution(chain)
    if chain.chance(0.3):
        chain.node("Div", y, chain.array(positive(chain.rng, chain.channel_shape(y), "float32")))
    else:
        chain.either_way("Mul", y, chain.constant(chain.channel_shape(y)))


@chain_for("fuse_conv_bias")
def conv_bias(chain: ChainDraft) -> None:
    """Add one constant per channel to a convolution's output, or subtract it."""
    y = convolution(chain)
    if chain.chance(0.3):
        chain.node("Sub", y, chain.constant(chain.channel_shape(y)))
    else:
        chain.either_way("Add", y, chain.constant(chain.channel_shape(y)))


@chain_for("fuse_norm_affine")
def norm_affine(chain: ChainDraft) -> None:
    """Append a normalization without a convolution before it, then a scale and a shift."""
    y = batch_norm(chain, chain.value(3, 4, least=1))
    for op_type in chain.rng.choice((("Mul",), ("Add",), ("Mul", "Add"))):
        y = chain.either_way(op_type, y, chain.constant(chain.channel_shape(y)))


@chain_for("fuse_conv_sum")
def conv_sum(chain: ChainDraft) -> None:
    """Append a convolution, an addition to its result and sometimes an activation."""
    y = chain.by_recipe("Conv")
    total = chain.either_way("Add", y, chain.draw.tensor_of("float32", chain.shape(y), constant=False))
    if chain.chance(0.6):
        activation(chain, total, CONV_ACTIVATIONS)


@chain_for("fuse_conv_activation")
def conv_activation(chain: ChainDraft) -> None:
    """Append a Conv and an activation."""
    activation(chain, chain.by_recipe("Conv"), CONV_ACTIVATIONS)


@chain_for("fuse_matmul_bias")
def matmul_bias(chain: ChainDraft) -> None:
    """Append a MatMul, an addition that broadcasts, and sometimes an activation."""
    a = chain.value(2, 2)
    product = chain.node("MatMul", a, chain.fresh((chain.shape(a)[1], chain.draw.integer(1, 6))))
    y = chain.either_way("Add", product, chain.broadcast(product))
    if chain.chance(0.5):
        activation(chain, y, GEMM_ACTIVATIONS)


@chain_for("fuse_gemm_bias")
def gemm_bias(chain: ChainDraft) -> None:
    """Append an Add after a Gemm without a bias or with a constant one."""
    a = chain.value(2, 2)
    columns = chain.draw.integer(1, 6)
    b = chain.fresh((chain.shape(a)[1], columns))
    if chain.opset >= 11 and chain.chance(0.5):
        product = chain.node("Gemm", a, b, alpha=chain.rng.choice([1.0, 0.5]), beta=chain.rng.choice([1.0, 2.0]))
        chain.either_way("Add", product, chain.broadcast(product))
    else:
        product = chain.node("Gemm", a, b, chain.constant((columns,)), beta=chain.rng.choice([1.0, 2.0]))
        chain.either_way("Add", product, chain.constant(chain.rng.choice([(columns,), (1, columns), (1,)])))
