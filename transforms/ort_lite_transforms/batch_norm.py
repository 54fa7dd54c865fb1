"""BatchNormalization after Conv, ConvTranspose or Gemm becomes part of its weights."""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule
from ort_lite_transforms import channels

_STATISTICS = (constant("scale"), constant("shift"), constant("mean"), constant("variance"))


class _Line(NamedTuple):
    """The effect of a BatchNormalization on a channel: slope * x + offset, in float64."""

    slope: Array
    offset: Array


@rule(
    op("BatchNormalization", op(("Conv", "ConvTranspose"), name="conv"), *_STATISTICS, name="norm"),
    level="basic",
    counterparts=("ConvBNFusion",),
    private=True,
)
def fuse_conv_batch_norm(
    rewriter: Rewriter, conv: Node, norm: Node, scale: Value, shift: Value, mean: Value, variance: Value
) -> Done | Skip:
    """Conv(x, W, b) * s + t per channel is Conv(x, s * W, s * b + t). O(weights)."""
    line = _line(rewriter, norm, (scale, shift, mean, variance))
    found = channels.weights_of(rewriter, conv)
    if isinstance(line, str) or isinstance(found, str):
        return Skip(line if isinstance(line, str) else str(found))
    weight, bias = found
    new_bias = (bias * line.slope + line.offset).astype(bias.dtype)
    return rewriter.replace(norm, channels.rebuilt(rewriter, conv, channels.scale_channels(conv, weight, line.slope), new_bias))


@rule(
    op("BatchNormalization", op("Gemm", "a", constant("b"), name="gemm", since=7), *_STATISTICS, name="norm"),
    level="basic",
    counterparts=("MatmulBNFusion", "MatMul_BatchNormalization_Fusion"),
    private=True,
)
def fuse_gemm_batch_norm(
    rewriter: Rewriter,
    gemm: Node,
    norm: Node,
    a: Value,
    b: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    variance: Value,
) -> Done | Skip:
    """The same for the columns of a Gemm, whose bias must be constant and equal in all rows."""
    line = _line(rewriter, norm, (scale, shift, mean, variance))
    weight = rewriter.array(b)
    if isinstance(line, str) or weight is None:
        return Skip(str(line))
    if not rewriter.budget.affords(weight.nbytes):
        return Skip(f"{b.name} has {weight.nbytes} bytes, more than are left for new constants")
    c = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    old = np.zeros(1, weight.dtype) if c is None else rewriter.array(c)
    if old is None or old.size not in (1, line.slope.size) or old.ndim > 2 or (old.ndim == 2 and old.shape[0] != 1):
        return Skip(f"the bias of {gemm} is not constant or differs between rows")
    slope = line.slope.reshape(-1, 1) if gemm.attr("transB", 0) else line.slope
    new_weight = rewriter.constant(derive(_scale_weight, weight, slope), b.name)
    new_bias = (old.ravel() * gemm.attr("beta", 1.0) * line.slope + line.offset).astype(weight.dtype)
    bias = rewriter.constant(new_bias, f"{b.name}_bias" if c is None else c.name)
    return rewriter.replace(norm, rewriter.op("Gemm", a, new_weight, bias, like=gemm, beta=1.0))


def _scale_weight(weight: Array, slope: Array) -> Array:
    return (weight * slope).astype(weight.dtype)


def _line(rewriter: Rewriter, norm: Node, values: tuple[Value, ...]) -> _Line | str:
    """The slope and offset of each channel, or why there are none."""
    if norm.attr("training_mode", 0) or not norm.attr("spatial", 1):
        return f"{norm} trains, or is not spatial"
    scale, shift, mean, variance = (np.asarray(rewriter.array(value), np.float64) for value in values)
    slope = scale / np.sqrt(variance + norm.attr("epsilon", 1e-5))
    return _Line(slope, shift - mean * slope)
