"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: class scores (N, C, d...) against labels (N, d...)."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    REDUCE,
    Ptr,
    Static,
    exp,
    failure_status,
    fmax,
    like,
    log,
    native,
    null,
    read_once,
    span,
)
from ort_lite.shapes import product, same
from ort_lite_cpu.lowering.attributes import choice
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

INFINITY = float("inf")


class Scores(NamedTuple):
    """The shape of class scores: (n, classes, inner)."""

    n: int
    classes: int
    inner: int


@native(fastmath=REDUCE)
@extents(
    x="g.n * g.classes * g.inner",
    labels="g.n * g.inner",
    weight="g.classes",
    loss="g.n * g.inner",
    used="g.n * g.inner",
    logarithms="g.n * g.classes * g.inner",
)
def losses(
    x: Ptr,
    labels: Ptr,
    weight: Ptr,
    loss: Ptr,
    used: Ptr,
    logarithms: Ptr,
    g: Scores,
    ignored: int,
    softmax: Static,
    ignores: Static,
    dense: Static,
    part: int,
    parts: int,
) -> int:
    """loss (n, inner) = -x[i, label, j] * weight[label], its weight in used; both 0 where the label is the one that is ignored.

    softmax: x (n, classes, inner) are scores, whose log-softmax over the classes counts, and goes to `logarithms` unless that
    is null. weight and used may be null. dense: inner is 1. Spec: ONNX NegativeLogLikelihoodLoss-22, SoftmaxCrossEntropyLoss-13.
    """
    classes, inner = g.classes, g.inner
    step = 1 if dense else inner
    for job in span(g.n * inner, part, parts):
        p = job * classes if dense else job // inner * classes * inner + job % inner
        shift = like(x, 0)
        if softmax:
            top = like(x, -INFINITY)
            for c in range(classes):
                top = fmax(top, x[p + c * step])
            total = like(x, 0)
            for c in range(classes):
                total += exp(x[p + c * step] - top)
            shift = top + log(total)
            if not null(logarithms):
                for c in range(classes):
                    logarithms[p + c * step] = x[p + c * step] - shift
        label = int(read_once(labels, job))
        factor = like(x, 1)
        if ignores and label == ignored:
            factor = like(x, 0)
            loss[job] = factor
        else:
            if label < 0 or label >= classes:
                return failure_status(INDEX_OUT_OF_RANGE, job)
            if not null(weight):
                factor = weight[label]
            loss[job] = factor * (shift - x[p + label * step])
        if not null(used):
            used[job] = factor
    return OK


@native(fastmath=REDUCE)
@extents(loss="count", used="count", y="1")
def total(loss: Ptr, used: Ptr, y: Ptr, count: int, part: int, parts: int) -> int:
    """y = the sum of the losses, divided by that of their weights unless `used` is null; one part does all."""
    for _ in span(1, part, parts):
        above = like(y, 0)
        for i in range(count):
            above += loss[i]
        if not null(used):
            below = like(y, 0)
            for i in range(count):
                below += used[i]
            above /= below
        y[0] = above
    return OK


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", since=12, types=REAL)
def lower_loss(op: NodeLowering) -> None:
    """Emit the losses, and their sum or mean (by weight). Labels that are not ignored are checked.

    Spec: ONNX NegativeLogLikelihoodLoss-22, SoftmaxCrossEntropyLoss-13.
    """
    x, labels = op.input(0), op.input(1)
    dims: Any = (*x.shape[:2], product(x.shape[2:]))
    softmax = op.node.op_type == "SoftmaxCrossEntropyLoss"
    reduction, ignored = choice(op, "reduction", "mean", ("none", "sum", "mean")), op.attr("ignore_index")
    y = op.output(0)
    loss = y if reduction == "none" else op.temporary(x.dtype, labels.shape)
    used = op.temporary(x.dtype, labels.shape) if reduction == "mean" else None
    logarithms = op.output(1) if softmax and op.wants(1) else None
    operands, shape = [x, labels, op.optional(2), loss, used, logarithms], Scores(*dims)
    form: dict[str, Any] = {"softmax": softmax, "ignores": ignored is not None, "dense": same(dims[2], 1)}
    work = x.size * 2 if softmax else labels.size
    op.emit(losses, operands, g=shape, ignored=ignored or 0, **form, work=work, message=_no_class)
    if reduction != "none":
        op.emit(total, [loss, used, y], count=labels.size)


def _no_class(failure: "Failure") -> str:
    return failure.outside("label", 1, 0, failure.scalar("g.classes"))
