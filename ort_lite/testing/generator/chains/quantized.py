"""DequantizeLinear and QuantizeLinear around products and around operators that move elements."""

from typing import Any

import numpy as np

from ort_lite.testing.generator.arrays import between, numbers
from ort_lite.testing.generator.chain import ChainDraft, chain_for


class Scale:
    """A constant scale and zero point of an 8-bit type."""

    def __init__(self, chain: ChainDraft, kind: str, count: int | None = None) -> None:
        self.chain, self.kind = chain, kind
        self.shape = () if count is None else (count,)
        self.scale = chain.array(between(0.03125, 0.5)(chain.rng, self.shape, "float32"))
        self.zero = self._zero()

    def _zero(self) -> str:
        return self.chain.array(between(-3, 5)(self.chain.rng, self.shape, self.kind))

    def move(self) -> None:
        """Draw another zero point."""
        self.zero = self._zero()

    def dequantize(self, x: str, **attributes: Any) -> str:
        """Append a DequantizeLinear and return the name of its output."""
        return self.chain.node("DequantizeLinear", x, self.scale, self.zero, **attributes)

    def quantize(self, x: str) -> str:
        """Append a QuantizeLinear and return the name of its output."""
        return self.chain.node("QuantizeLinear", x, self.scale, self.zero)


def scale(chain: ChainDraft, kind: str | None = None) -> Scale:
    """Return a scale and zero point for `kind`, by default uint8 or int8. Skips the chain before opset 10."""
    if chain.opset < 10:
        chain.skip("QuantizeLinear is of opset 10")
    return Scale(chain, kind or chain.rng.choice(("uint8", "int8")))


def bytes_of(chain: ChainDraft, shape: tuple[int, ...], kind: str) -> str:
    """Return a new non-constant operand of an 8-bit type."""
    return chain.draw.tensor_of(kind, shape, numbers, constant=False)


@chain_for("keep_integers")
def there_and_back(chain: ChainDraft) -> None:
    """Quantize a dequantized tensor again, sometimes moved in between or with another zero point."""
    own = scale(chain)
    x = own.dequantize(bytes_of(chain, chain.draw.shape(1, 4, least=1), own.kind))
    if chain.chance(0.2):
        own.move()
    own.dequantize(own.quantize(_move(chain, x) if chain.chance(0.5) else x))


@chain_for("move_integers")
def reordering(chain: ChainDraft) -> None:
    """Dequantize a tensor, move its elements and quantize them with the same scale."""
    own = scale(chain)
    x = own.dequantize(bytes_of(chain, chain.draw.shape(2, 4, least=1), own.kind))
    own.quantize(_move(chain, x))


def _move(chain: ChainDraft, x: str) -> str:
    shape = chain.shape(x)
    if chain.chance(0.5):
        return chain.node("Transpose", x, perm=chain.rng.sample(range(len(shape)), len(shape)))
    if len(shape) == 4 and chain.opset >= 12 and chain.chance(0.5):
        return chain.node("MaxPool", x, kernel_shape=[1, 1])
    return chain.node("Reshape", x, chain.ints(-1))


@chain_for("join_integers")
def concatenation(chain: ChainDraft) -> None:
    """Dequantize two or three tensors, concatenate them and quantize the result with the same scale."""
    own = scale(chain)
    shape = chain.draw.shape(1, 3, least=1)
    parts = [own.dequantize(bytes_of(chain, shape, own.kind)) for _ in range(chain.draw.integer(2, 3))]
    own.quantize(chain.node("Concat", *parts, axis=0))


@chain_for("saturate_once")
def redundant_relu(chain: ChainDraft) -> None:
    """Append a Relu whose limit the zero point implies, or one above it."""
    if chain.opset < 10:
        chain.skip("QuantizeLinear is of opset 10")
    limit = chain.node("Relu", chain.value(1))
    step = chain.array(np.array(0.0625, np.float32))
    zero = np.array(0, np.uint8) if chain.chance(0.7) else np.array(chain.draw.integer(-5, 5), np.int8)
    chain.node("QuantizeLinear", limit, step, chain.array(zero))


@chain_for("multiply_integers")
def product(chain: ChainDraft) -> None:
    """Append a MatMul, Gemm or Conv of dequantized bytes, with or without a QuantizeLinear after it."""
    left = scale(chain)
    kind = chain.rng.choice(("MatMul", "Gemm", "Conv"))
    depth, columns = chain.draw.integer(1, 6), chain.draw.integer(1, 5)
    if kind == "Conv":
        shape: tuple[int, ...] = (chain.draw.integer(1, 2), depth, 5, 4)
        weights: tuple[int, ...] = (columns, depth, 3, 2)
    else:
        shape, weights = (chain.draw.integer(1, 4), depth), (depth, columns)
    by_column = chain.opset >= 13 and chain.chance(0.5)
    right = Scale(chain, chain.rng.choice(("int8", "uint8")), columns if by_column else None)
    axis = {"axis": 0 if kind == "Conv" else 1} if by_column else {}
    x = left.dequantize(bytes_of(chain, shape, left.kind))
    w = right.dequantize(chain.array(numbers(chain.rng, weights, right.kind)), **axis)
    operands = [x, w]
    if kind != "MatMul" and (chain.chance(0.5) or (kind == "Gemm" and chain.opset < 11)):
        operands.append(chain.constant((columns,)))
    factors = {key: chain.rng.choice((1.0, 1.0, 0.5, 2.0)) for key in ("alpha", "beta")} if kind == "Gemm" else {}
    y = chain.node(kind, *operands, **factors)
    if chain.chance(0.6):
        scale(chain).quantize(y)


@chain_for("multiply_blocks")
def product_by_blocks(chain: ChainDraft) -> None:
    """Append a MatMul of finite numbers by weights that have a scale, and sometimes a zero point, for each block of a column."""
    if chain.opset < 21:
        chain.skip("blocks of DequantizeLinear are of opset 21")
    depth, columns, size = chain.draw.integer(1, 40), chain.draw.integer(1, 5), chain.rng.choice((8, 16, 32))
    blocks, kind = (-(-depth // size), columns), chain.rng.choice(("int8", "uint8"))
    operands = [
        chain.array(numbers(chain.rng, (depth, columns), kind)),
        chain.array(between(0.03125, 0.5)(chain.rng, blocks, "float32")),
    ]
    if chain.chance(0.5):
        operands.append(chain.array(between(-3, 5)(chain.rng, blocks, kind)))
    w = chain.node("DequantizeLinear", *operands, axis=0, block_size=size)
    shape = (*chain.draw.shape(1, 2, least=1), depth)
    chain.node("MatMul", chain.draw.tensor_of("float32", shape, numbers, constant=False), w)


@chain_for("fuse_integer_scales", "fuse_integer_bias")
def scaled_product(chain: ChainDraft) -> None:
    """Append one or two MatMulIntegers of a dynamically quantized operand, with their scales and sometimes a bias."""
    if chain.opset < 11:
        chain.skip("DynamicQuantizeLinear is of opset 11")
    depth, columns = chain.draw.integer(1, 6), chain.draw.integer(1, 5)
    x, step, zero = chain.nodes("DynamicQuantizeLinear", chain.fresh((*chain.draw.shape(1, 2, least=1), depth)), outputs=3)
    for _ in range(chain.draw.integer(1, 2)):
        right = Scale(chain, chain.rng.choice(("int8", "uint8")), columns if chain.chance(0.4) else None)
        w = chain.array(numbers(chain.rng, (depth, columns), right.kind))
        sums = chain.node("Cast", chain.node("MatMulInteger", x, w, zero, right.zero), to=1)
        y = chain.either_way("Mul", sums, chain.either_way("Mul", step, right.scale))
        if chain.chance(0.6):
            chain.either_way("Add", y, chain.fresh((columns,)))
