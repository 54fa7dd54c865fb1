"""Normalizations."""

from typing import Any

from ort_lite.testing.generator.arrays import positive
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import image, weight

STASH_TYPES = {"float32": 1, "bfloat16": 16, "float16": 10, "float64": 11}


def epsilon(draw: Draw) -> float | None:
    """Return a value for the attribute `epsilon`, or None for its default."""
    return draw.choice([None, None, 1e-5, 1e-3, 0.125, 1e-6])


@recipe("BatchNormalization")
def batch_normalization(draw: Draw) -> NodeProposal:
    """Draw an image and statistics. Before version 14 more than one output means training, which is not drawn."""
    x = image(draw, low=2)
    attributes: dict[str, Any] = {"epsilon": epsilon(draw), "momentum": draw.maybe(draw.choice([0.0, 0.5, 0.875, 1.0]), 0.3)}
    shape, outputs = x.sizes[1:2], 1
    if draw.has_attribute("spatial"):
        attributes["spatial"] = draw.choice([None, 1, 1, 0])
        if attributes["spatial"] == 0:
            shape = x.sizes[1:]
    if draw.has_attribute("training_mode"):
        attributes["training_mode"] = draw.choice([None, 0, 0, 1])
        if attributes["training_mode"] == 1:
            x = image(draw, low=2) if x.sizes[0] else x
            shape, outputs = x.sizes[1:2], draw.choice([1, 3])
    operands = [weight(draw, 1, shape), weight(draw, 2, shape), weight(draw, 3, shape), weight(draw, 4, shape, positive)]
    return call([x.name, *operands], outputs, **attributes)


@recipe("InstanceNormalization")
def instance_normalization(draw: Draw) -> NodeProposal:
    """Draw an image, and one scale and bias per channel."""
    x = image(draw)
    return call([x.name, weight(draw, 1, x.sizes[1:2]), weight(draw, 2, x.sizes[1:2])], epsilon=epsilon(draw))


def over_last_axes(draw: Draw) -> tuple[Known, int | None, tuple[int, ...]]:
    """Return an operand, its first normalized axis (None: the last one) and the shape from there on."""
    x = draw.value(0, low=1, least=1)
    axis = draw.maybe(draw.axis(x.rank), 0.7)
    return x, axis, x.sizes[-1 if axis is None else axis :]


@recipe("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(draw: Draw) -> NodeProposal:
    """Draw an operand, the first normalized axis, a scale and sometimes a bias."""
    x, axis, shape = over_last_axes(draw)
    operands = [x.name, weight(draw, 1, shape)]
    if draw.has_input(2) and draw.chance(0.6):
        operands.append(weight(draw, 2, shape))
    outputs: list[bool] = [True]
    stash = None
    if draw.op_type == "LayerNormalization":
        outputs += draw.choice([[], [], [True], [True, True], [False, True]])
        stash = STASH_TYPES[draw.types.get("U", "float32")]
    elif draw.op_type == "SimplifiedLayerNormalization":
        outputs += draw.choice([[], [True]])
        stash = STASH_TYPES[draw.types.get("U", "float32")]
    return call(operands, outputs, axis=axis, epsilon=epsilon(draw), stash_type=None if stash == 1 else stash)


@recipe("GroupNormalization")
def group_normalization(draw: Draw) -> NodeProposal:
    """Draw an image and groups. Version 18 scales each group, later versions each channel."""
    x = image(draw)
    channels = x.sizes[1]
    count = draw.choice([n for n in range(1, channels + 1) if channels % n == 0])
    shape = (count if draw.version < 21 else channels,)
    return call([x.name, weight(draw, 1, shape), weight(draw, 2, shape)], num_groups=count, epsilon=epsilon(draw))


@recipe("LpNormalization")
def lp_normalization(draw: Draw) -> NodeProposal:
    """Draw an operand, an axis and the order of the norm."""
    x = draw.value(0, low=1)
    return call([x.name], axis=draw.maybe(draw.axis(x.rank), 0.8), p=draw.choice([None, 1, 2]))


@recipe("LRN")
def lrn(draw: Draw) -> NodeProposal:
    """Draw an image and attributes with a positive base of the power: a positive bias and a non-negative alpha."""
    return call(
        [image(draw).name],
        size=draw.integer(1, 6),
        alpha=draw.choice([None, 0.0, 0.125, 1.0, 0.0001]),
        beta=draw.choice([None, 0.0, 0.5, 0.75, 1.0]),
        bias=draw.choice([None, 1.0, 0.5, 2.0]),
    )


@recipe("MeanVarianceNormalization")
def mean_variance_normalization(draw: Draw) -> NodeProposal:
    """Draw an operand and axes. The default axes are those of an image `(N, C, H, W)`."""
    if draw.chance(0.4):
        return call([image(draw, low=4, high=4).name])
    x = draw.value(0, low=1, least=1)
    return call([x.name], axes=draw.axes(x.rank, least=1))
