"""MoEGroupRouter of com.microsoft: the experts of each token, of the groups of experts that suit it best."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, fmax, isnan, like, log, native, shift, sigmoid, span
from ort_lite.shapes import equal, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

SMALLEST, LOWEST = 1e-20, float("-inf")


class RouterSizes(NamedTuple):
    """The sizes of scores (rows, experts), and how many are taken of what."""

    rows: int
    experts: int
    groups: int
    active: int
    """The groups whose experts can be taken."""
    counted: int
    """The experts that make the score of a group."""
    taken: int


def _best(scores: Ptr, n: int) -> int:
    """Return the position of the first largest number, NaN above all, or -1 if all are -inf."""
    best = -1
    for i in range(n):
        if isnan(scores[i]):
            return i
        if scores[i] > (like(scores, LOWEST) if best < 0 else scores[best]):
            best = i
    return best


def _score_groups(order: Ptr, work: Ptr, groups: Ptr, g: RouterSizes) -> None:
    """groups (groups,) = the sums of the largest scores of each group."""
    size = g.experts // g.groups
    for group in range(g.groups):
        groups[group] = like(order, 0)
        for i in range(size):
            work[i] = order[group * size + i]
        for _ in range(g.counted):
            at = _best(work, size)
            if at >= 0:
                groups[group] += work[at]
                work[at] = like(order, LOWEST)


@native
@extents(x="g.rows * g.experts", bias="g.experts", y="g.rows * g.experts", scratch="parts * 4 * g.experts")
def route(x: Ptr, bias: Ptr, y: Ptr, scratch: Ptr, g: RouterSizes, sentinel: float, part: int, parts: int) -> int:
    """y (rows, experts) = log(sigmoid(x)) where an expert is taken, else the sentinel.

    Taken are the experts of the active groups whose sigmoid plus bias is largest. Active are the groups with the largest sums.
    scratch: 4 * experts a part. The groups divide the experts.
    """
    n, size = g.experts, g.experts // g.groups
    order = shift(scratch, part * 4 * n)
    work, groups, open_scores = shift(order, n), shift(order, 2 * n), shift(order, 3 * n)
    for row in span(g.rows, part, parts):
        p = row * n
        for e in range(n):
            order[e] = sigmoid(x[p + e]) + bias[e]
            open_scores[e] = like(x, LOWEST)
            y[p + e] = like(x, sentinel)
        _score_groups(order, work, groups, g)
        for _ in range(g.active):
            group = _best(groups, g.groups)
            if group >= 0:
                groups[group] = like(x, LOWEST)
                for e in range(group * size, (group + 1) * size):
                    open_scores[e] = order[e]
        for _ in range(g.taken):
            at = _best(open_scores, n)
            if at >= 0:
                y[p + at] = log(fmax(sigmoid(x[p + at]), like(x, SMALLEST)))
                open_scores[at] = like(x, LOWEST)
    return OK


@native
@extents(x="rows * n", bias="n", biased="rows * n", y="rows * n")
def score(x: Ptr, bias: Ptr, biased: Ptr, y: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """y (rows, n) = sigmoid(x), and biased = y + bias (n,)."""
    for row in span(rows, part, parts):
        p = row * n
        for i in range(n):
            y[p + i] = sigmoid(x[p + i])
        for i in range(n):
            biased[p + i] = y[p + i] + bias[i]
    return OK


@operator("MoEGroupRouter", domain="com.microsoft", types=frozenset({"float32"}))
def moe_group_router(op: NodeLowering) -> None:
    """Emit the logarithms of taken scores, or all scores with and without bias. Spec: onnxruntime MoEGroupRouter-1."""
    groups, active, counted, taken = (op.attr(name, default) for name, default in _ATTRIBUTES)
    experts = op.dim(1, 0)
    if not 1 <= groups <= experts or experts % groups or not 1 <= active <= groups or not 1 <= taken <= experts or counted < 1:
        raise op.reject(f"{experts} experts in {groups} groups, of which {active} are active and {taken} experts are taken")
    x, bias = op.input(0), op.input(1)
    op.require(equal(x.shape[-1], experts) if not op.has(2) else 1, "{0} logits for {1} experts", x.shape[-1], experts)
    rows, full = product(x.shape[:-1]), op.wants(1) and op.wants(2)
    if op.wants(1) != op.wants(2) or op.wants(0) == full or (op.has(2) and not full) or (full and groups != 1):
        raise op.reject("these outputs: takes router_probs, or selection_scores and router_weights of one group")
    if not full:
        scratch = op.temporary("float32", (op.most_parts * 4 * experts,))
        sizes: Any = (rows, experts, groups, active, min(counted, experts // groups), taken)
        operands = [x, bias, op.output(0), scratch]
        sentinel = float(op.attr("router_sentinel", -10000.0))
        op.emit(route, operands, g=RouterSizes(*sizes), sentinel=sentinel, work=x.size * (8 + 2 * taken))
        return
    logits = _project(op, x, rows, experts) if op.has(2) else x
    op.emit(score, [logits, bias, op.output(1), op.output(2)], rows=rows, n=experts, work=rows * experts * 8)


_ATTRIBUTES = (("n_group", 1), ("topk_group", 1), ("group_topk", 2), ("top_k", 1))


def _project(op: NodeLowering, x: Tensor, rows: Dim, experts: int) -> Tensor:
    """Return x (rows, width) times the transposed weights (experts, width)."""
    width = op.input(2).shape[1] if op.constant(2) is None else op.dim(2, 1)
    op.agree(x.shape, (rows, width), "the activations do not fit the weights")
    logits = op.temporary("float32", (rows, experts))
    spec, weights = Product(rows, experts, width, transposed=True), op.constant(2)
    if weights is None:
        emit_dynamic_gemm(op, spec, x, op.input(2), logits)
    else:
        emit_gemm(op, spec, x, weights.astype("float32"), source=weights, y=logits, form="router")
    return logits
