"""Matrix products and convolutions of com.microsoft with fused operations, distances and inverses."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.testing.generator.arrays import cast, numbers
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT

_CONVOLUTION_PARAMETERS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}
"""How many parameters an activation has that a convolution is fused with."""
_PRODUCT_PARAMETERS = {
    "LeakyRelu": 1,
    "Elu": 1,
    "HardSigmoid": 2,
    "Relu": 0,
    "Sigmoid": 0,
    "Softplus": 0,
    "Softsign": 0,
    "Tanh": 0,
}


class FittingWindow(Record, eq=False):
    """The spatial sizes of an input, a kernel that fits into it, and their attributes."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    attributes: dict[str, Any]
    results: tuple[int, ...]
    """Spatial sizes of the result; those of a pool that rounds up are not known."""


def window(draw: Draw, rank: int, pools: bool = False) -> FittingWindow:
    """Return a window. Pads of a pool are smaller than its kernel, and with auto_pad there are none."""
    kernel = tuple(draw.integer(1, 3) for _ in range(rank))
    strides = [draw.integer(1, 2) for _ in range(rank)] if draw.chance(0.5) else [1] * rank
    auto = draw.choice(("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    dilations = [draw.integer(1, 2) for _ in range(rank)] if draw.chance(0.3) and auto == "NOTSET" else [1] * rank
    pads = [0] * (2 * rank)
    if auto == "NOTSET" and draw.chance(0.5):
        pads = [draw.integer(0, kernel[k % rank] - 1 if pools else 2) for k in range(2 * rank)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = tuple(span + draw.integer(0, 4) for span in spans)
    same = auto.startswith("SAME")
    results = tuple(
        -(-n // s) if same else (n + pads[k] + pads[k + rank] - spans[k]) // s + 1
        for k, (n, s) in enumerate(zip(sizes, strides, strict=True))
    )
    attributes: dict[str, Any] = {
        "kernel_shape": list(kernel),
        "strides": strides if max(strides) > 1 else draw.maybe(strides),
        "dilations": dilations if max(dilations) > 1 else draw.maybe(dilations, 0.3),
        "auto_pad": auto if auto != "NOTSET" else draw.maybe(auto, 0.2),
        "pads": pads if any(pads) else draw.maybe(pads, 0.2) if auto == "NOTSET" else None,
    }
    if pools:
        attributes["ceil_mode"] = draw.maybe(draw.integer(0, 1), 0.4)
    return FittingWindow(sizes, kernel, attributes, results)


@recipe("FusedConv", domain=MICROSOFT)
def fused_conv(draw: Draw) -> NodeProposal:
    """Draw activation(Conv + Z)."""
    x = window(draw, draw.integer(1, 3))
    groups = draw.choice((1, 1, 2))
    batch, channels, outputs = draw.integer(1, 2), groups * draw.integer(1, 3), groups * draw.integer(1, 3)
    operands = [
        draw.tensor(0, (batch, channels, *x.sizes)),
        draw.tensor(1, (outputs, channels // groups, *x.kernel)),
        draw.tensor(2, (outputs,)) if draw.chance(0.6) else "",
        draw.tensor(3, (batch, outputs, *x.results)) if draw.chance(0.4) else "",
    ]
    name = draw.choice(sorted(_CONVOLUTION_PARAMETERS))
    parameters = sorted(draw.integer(1, 8) / 8 for _ in range(_CONVOLUTION_PARAMETERS[name]))
    x.attributes["kernel_shape"] = draw.maybe(x.attributes["kernel_shape"], 0.7)
    return call(
        operands,
        activation=name,
        activation_params=parameters or None,
        group=groups if groups > 1 else draw.maybe(1),
        **x.attributes,
    )


@recipe("FusedGemm", domain=MICROSOFT)
def fused_gemm(draw: Draw) -> NodeProposal:
    """Draw a product of two matrices with an activation and sometimes an addend that broadcasts."""
    m, n, k = (draw.integer(1, 6) for _ in range(3))
    turns = draw.choice((0, 0, 1)), draw.choice((0, 0, 1))
    addend: Shape = draw.choice(((), (n,), (1, n), (m, 1), (m, n)))
    operands = [
        draw.tensor(0, (k, m) if turns[0] else (m, k)),
        draw.tensor(1, (n, k) if turns[1] else (k, n)),
        draw.tensor(2, addend) if draw.chance(0.7) else "",
    ]
    name = draw.choice(sorted(_PRODUCT_PARAMETERS))
    parameters: dict[str, Any] = {
        f"activation_{letter}": draw.integer(1, 8) / 8 for letter in ("alpha", "beta")[: _PRODUCT_PARAMETERS[name]]
    }
    return call(
        operands,
        transA=turns[0] or draw.maybe(0),
        transB=turns[1] or draw.maybe(0),
        alpha=draw.maybe(draw.number()),
        beta=draw.maybe(draw.number()),
        activation=name,
        **parameters,
    )


@recipe("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(draw: Draw) -> NodeProposal:
    """Draw a product. transBatchA and transBatchB use the first axis as rows, and then both operands have the same rank."""
    m, n, k = (draw.size() for _ in range(3))
    batch = draw.shape(0, 2, most=3, least=1)
    may_swap = bool(batch) and draw.has_attribute("transBatchA")
    swaps = (may_swap and draw.chance(0.3), may_swap and draw.chance(0.3))
    other = batch if any(swaps) or draw.chance(0.5) else draw.choice((batch[1:], tuple(1 for _ in batch)))
    turns = draw.chance(0.4), draw.chance(0.4)
    a = (k, m) if turns[0] else (m, k)
    b = (n, k) if turns[1] else (k, n)
    return call(
        [draw.tensor(0, _with_batch(batch, a, swaps[0])), draw.tensor(1, _with_batch(other, b, swaps[1]))],
        transA=int(turns[0]) or draw.maybe(0),
        transB=int(turns[1]) or draw.maybe(0),
        transBatchA=int(swaps[0]) or draw.maybe(0, 0.3 if may_swap else 0),
        transBatchB=int(swaps[1]) or draw.maybe(0, 0.3 if may_swap else 0),
        alpha=draw.maybe(draw.number()),
    )


def _with_batch(batch: Shape, matrix: Shape, swaps: bool) -> Shape:
    return (matrix[0], *batch, matrix[1]) if swaps else (*batch, *matrix)


@recipe("CDist", domain=MICROSOFT)
def c_dist(draw: Draw) -> NodeProposal:
    """Draw two matrices with equally long rows, and a distance."""
    width = draw.integer(1, 6)
    operands = [draw.tensor(0, (draw.integer(1, 6), width)), draw.tensor(1, (draw.integer(1, 6), width))]
    return call(operands, metric=draw.maybe(draw.choice(("euclidean", "sqeuclidean")), 0.8))


@recipe("Inverse", domain=MICROSOFT)
def inverse(draw: Draw) -> NodeProposal:
    """Draw matrices with a large diagonal, which are far from singular."""
    size = draw.integer(1, 5)
    shape = (*draw.shape(0, 2, most=3), size, size)
    array: Array = cast(numbers(draw.rng, shape, "float64") / 2 + 8 * np.eye(size), draw.kind(0))
    return call([draw.array(array)])
