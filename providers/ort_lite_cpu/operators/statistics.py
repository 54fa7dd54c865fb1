"""BatchNormalization in training: by statistics of the batch."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, like, native, span
from ort_lite.shapes import product
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering


@native(fastmath=REDUCE)
@extents(x="n * c * area", mean="c", variance="c")
def channel_moments(x: Ptr, mean: Ptr, variance: Ptr, n: int, c: int, area: int, part: int, parts: int) -> int:
    """mean, variance (c,) = the moments of x (n, c, area): two passes in the element type."""
    for channel in span(c, part, parts):
        count = like(x, n * area)
        total = like(x, 0)
        for batch in range(n):
            base = (batch * c + channel) * area
            for i in range(area):
                total += x[base + i]
        centre = total / count
        squares = like(x, 0)
        for batch in range(n):
            base = (batch * c + channel) * area
            for i in range(area):
                d = x[base + i] - centre
                squares += d * d
        mean[channel] = centre
        variance[channel] = squares / count
    return OK


def train_batch_normalization(op: NodeLowering) -> None:
    """Normalize by the batch's own mean and variance, which move the running ones; before opset 14 they are outputs 3 and 4.

    Scale, bias, mean and variance have a number for each of the channels: `batch_normalization`.
    Spec: ONNX BatchNormalization-15.
    """
    x = op.input(0)
    own = x.shape[1:2] if op.attr("spatial", 1) else x.shape[1:]
    c, area = product(own), product(x.shape[1 + len(own) :])
    mean, variance = op.temporary(x.dtype, (c,)), op.temporary(x.dtype, (c,))
    op.emit(channel_moments, [x, mean, variance], n=x.shape[0], c=c, area=area, work=x.size)
    around = (*own, *(1,) * (len(x.shape) - 1 - len(own)))
    views = [op.view(tensor, around) for tensor in (op.input(1), op.input(2), mean, variance)]
    define(op, "fma(({0} - {3}) / sqrt({4} + {s0}), {1}, {2})", [x, *views], [float(op.attr("epsilon", 1e-5))], 1.0)
    momentum = float(op.attr("momentum", 0.9))
    for output, running, batch in ((1, op.raw(3), mean), (2, op.raw(4), variance)):
        if op.wants(output):
            moved = "{0} * {s0} + like({0}, {1}) * {s1}"
            define(op, moved, [running, op.view(batch, own)], [momentum, 1.0 - momentum], output=output)
    for output, batch in ((3, mean), (4, variance)):
        if op.wants(output):
            op.alias(batch, output)
