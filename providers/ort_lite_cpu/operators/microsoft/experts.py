"""MoE of com.microsoft: each token goes through the layers of the experts that its router prefers, and their results are mixed."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, Static, exp, fmax, fmin, like, native, null, sigmoid, span, tanh
from ort_lite.shapes import equal, floordiv, less, modulo, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import operator

GATED = ("swiglu", "geglu")
"""Activations of a gate, which a value is multiplied by."""
ACTIVATIONS = ("relu", "gelu", "silu", "identity", *GATED)
NO_LIMIT = float("inf")
ROOT = 0.7978845608028654
"""The square root of 2 / pi."""
PRODUCT, PASS, ACTIVATION = 0.04, 0.1, 0.5
"""Nanoseconds: of a product, of an element that is read, of an element's activation."""


class Routing(NamedTuple):
    """The sizes of a router: tokens, experts, the experts of each token, and the weight that an expert must exceed."""

    tokens: int
    experts: int
    taken: int
    least: float


@native
@extents(
    logits="g.tokens * g.experts",
    weights="g.tokens * g.experts",
    experts="g.tokens * g.taken",
    shares="g.tokens * g.taken",
)
def choose_experts(
    logits: Ptr, weights: Ptr, experts: Ptr, shares: Ptr, g: Routing, whole: Static, normalize: Static, part: int, parts: int
) -> int:
    """experts (tokens, taken) = those of the largest logits, the last of equal ones, or -1 where the share does not exceed `least`.

    shares (tokens, taken): of `weights`, or, if that is null, of the softmax over all experts (whole) or over the chosen ones.
    normalize: divided by their sum.
    """
    n, k = g.experts, g.taken
    for token in span(g.tokens, part, parts):
        p, q = token * n, token * k
        for j in range(k):
            best = -1
            for e in range(n):
                free = True
                for i in range(j):
                    if int(experts[q + i]) == e:
                        free = False
                if free and (best < 0 or logits[p + e] >= logits[p + best]):
                    best = e
            experts[q + j] = like(experts, best)
        top = logits[p + int(experts[q])]
        total = like(shares, 0)
        for j in range(k):
            at = p + int(experts[q + j])
            shares[q + j] = exp(logits[at] - top) if null(weights) else weights[at]
            total += shares[q + j]
        if null(weights) and whole:
            every = like(shares, 0)
            for e in range(n):
                every += exp(logits[p + e] - top)
            for j in range(k):
                shares[q + j] /= every
            total /= every
        if normalize:
            for j in range(k):
                shares[q + j] = shares[q + j] / total if total != 0 else like(shares, 0)
        for j in range(k):
            if not shares[q + j] > like(shares, g.least):
                experts[q + j] = like(experts, -1)
    return OK


@native
@extents(experts="routes", order="routes", starts="count + 1")
def sort_routes(experts: Ptr, order: Ptr, starts: Ptr, routes: int, count: int, part: int, parts: int) -> int:
    """order = the positions in experts (routes,) of each expert's routes, from starts (count + 1,) on. The first part does it all."""
    if part == 0:
        at = 0
        for e in range(count):
            starts[e] = like(starts, at)
            for route in range(routes):
                if int(experts[route]) == e:
                    order[at] = like(order, route)
                    at += 1
        starts[count] = like(starts, at)
    return OK


class Layer(NamedTuple):
    """The sizes of a layer that each expert has: (n, k), and how many routes share a row of its input, 1 if each has its own."""

    routes: int
    experts: int
    n: int
    k: int
    shared: int


def multiply_four(
    x: Ptr, w: Ptr, y: Ptr, order: Ptr, at: int, shared: int, first: int, second: int, k: int, n: int, column: int, other: int
) -> None:
    """Write two columns of y for four routes: the products of their rows of x and the rows of w at `first` and at `second`."""
    p0, p1 = int(order[at]) // shared * k, int(order[at + 1]) // shared * k
    p2, p3 = int(order[at + 2]) // shared * k, int(order[at + 3]) // shared * k
    a0, a1, a2, a3 = like(y, 0), like(y, 0), like(y, 0), like(y, 0)
    b0, b1, b2, b3 = like(y, 0), like(y, 0), like(y, 0), like(y, 0)
    for i in range(k):
        u, v = w[first + i], w[second + i]
        a0 += x[p0 + i] * u
        a1 += x[p1 + i] * u
        a2 += x[p2 + i] * u
        a3 += x[p3 + i] * u
        b0 += x[p0 + i] * v
        b1 += x[p1 + i] * v
        b2 += x[p2 + i] * v
        b3 += x[p3 + i] * v
    q0, q1, q2, q3 = int(order[at]) * n, int(order[at + 1]) * n, int(order[at + 2]) * n, int(order[at + 3]) * n
    y[q0 + column], y[q1 + column], y[q2 + column], y[q3 + column] = a0, a1, a2, a3
    y[q0 + other], y[q1 + other], y[q2 + other], y[q3 + other] = b0, b1, b2, b3


def multiply_rows(
    x: Ptr, w: Ptr, bias: Ptr, y: Ptr, order: Ptr, g: Layer, start: int, end: int, first: int, second: int, e: int, column: int
) -> None:
    """Write two columns of y for the routes of expert e, start to end: the products of their rows of x and two rows of w."""
    n, k, other = g.n, g.k, column + 1 if column + 1 < g.n else column
    at = start
    while at + 4 <= end:
        multiply_four(x, w, y, order, at, g.shared, first, second, k, n, column, other)
        at += 4
    while at < end:
        p, q = int(order[at]) // g.shared * k, int(order[at]) * n
        a, b = like(y, 0), like(y, 0)
        for i in range(k):
            a += x[p + i] * w[first + i]
            b += x[p + i] * w[second + i]
        y[q + column], y[q + other] = a, b
        at += 1
    if not null(bias):
        for at in range(start, end):
            q = int(order[at]) * n
            y[q + column] += bias[e * n + column]
            if other > column:
                y[q + other] += bias[e * n + other]


@native(fastmath=SUMS)
@extents(
    x="g.routes // g.shared * g.k",
    w="g.experts * g.n * g.k",
    bias="g.experts * g.n",
    order="g.routes",
    starts="g.experts + 1",
    y="g.routes * g.n",
)
def multiply_experts(x: Ptr, w: Ptr, bias: Ptr, order: Ptr, starts: Ptr, y: Ptr, g: Layer, part: int, parts: int) -> int:
    """y (routes, n) = x (routes / shared, k) times the transposed w (experts, n, k) of each route's expert, + bias (experts, n).

    bias may be null. Rows of y without an expert are left as they are. Parts share the columns, two at a time.
    """
    for e in range(g.experts):
        start, end = int(starts[e]), int(starts[e + 1])
        if start < end:
            for pair in span((g.n + 1) // 2, part, parts):
                first = (e * g.n + 2 * pair) * g.k
                second = first + (g.k if 2 * pair + 1 < g.n else 0)
                multiply_rows(x, w, bias, y, order, g, start, end, first, second, e, 2 * pair)
    return OK


@native
def gelu(z: Any) -> Any:
    """Return Gelu of a number, approximated by tanh."""
    return z / 2 * (1 + tanh(like(z, ROOT) * (z + like(z, 0.044715) * z * z * z)))


@native
@extents(x="routes * n * (2 if kind in ('swiglu', 'geglu') else 1)", y="routes * n")
def activate_experts(
    x: Ptr, y: Ptr, routes: int, n: int, kind: Static, alpha: float, beta: float, limit: float, part: int, parts: int
) -> int:
    """y (routes, n) = the activation of x. For gated ones, x (routes, n, 2) has gates and values in turn."""
    for row in span(routes, part, parts):
        q = row * n
        if kind == "swiglu":
            for i in range(n):
                gate = fmin(x[2 * (q + i)], like(x, limit))
                value = fmin(fmax(x[2 * (q + i) + 1], like(x, -limit)), like(x, limit))
                y[q + i] = gate * sigmoid(like(x, alpha) * gate) * (value + like(x, beta))
        elif kind == "geglu":
            for i in range(n):
                y[q + i] = gelu(x[2 * (q + i)]) * x[2 * (q + i) + 1]
        elif kind == "relu":
            for i in range(n):
                y[q + i] = x[q + i] if x[q + i] > 0 else like(x, 0)
        elif kind == "gelu":
            for i in range(n):
                y[q + i] = gelu(x[q + i])
        else:
            for i in range(n):
                y[q + i] = x[q + i] * sigmoid(x[q + i])
    return OK


@native
@extents(x="tokens * taken * n", experts="tokens * taken", shares="tokens * taken", y="tokens * n")
def mix_experts(x: Ptr, experts: Ptr, shares: Ptr, y: Ptr, tokens: int, taken: int, n: int, part: int, parts: int) -> int:
    """y (tokens, n) = the sum of the rows of x (tokens, taken, n) that have an expert, times their shares."""
    for token in span(tokens, part, parts):
        q = token * n
        for i in range(n):
            y[q + i] = like(y, 0)
        for j in range(taken):
            route = token * taken + j
            if int(experts[route]) >= 0:
                share, p = shares[route], route * n
                for i in range(n):
                    y[q + i] += share * x[p + i]
    return OK


@operator("MoE", domain="com.microsoft", types=frozenset({"float32"}))
def moe(op: NodeLowering) -> None:
    """Emit two layers of each token's experts. Spec: onnxruntime MoE-1, whose kernel for CPUs takes no third layer either."""
    if op.has(6) or op.has(7):
        raise op.reject("fc3_experts_weights and fc3_experts_bias")
    routes = emit_routes(op, None, whole=True, least=0.0)
    inter = floordiv(op.input(4).size, routes.experts * op.input(0).shape[-1])
    emit_layers(op, routes, _layer(op, 2, 3), _layer(op, 4, 5), inter)


def _layer(op: NodeLowering, weights: int, bias: int) -> "Emit":
    """Return a function that emits a layer of weights as they are."""

    def emit(x: Tensor, y: Tensor, routes: "Routes", g: Layer) -> None:
        w, b = op.input(weights), op.optional(bias)
        check_layer(op, w, b, g, 1)
        operands = [x, w, b, routes.order, routes.starts, y]
        op.emit(multiply_experts, operands, g=g, work=linear_work(g.routes * g.n * g.k, PRODUCT))

    return emit


def check_layer(op: NodeLowering, w: Tensor, bias: Tensor | None, g: Layer, packed: int) -> None:
    """Require weights (experts, n, k / packed), or in the legacy order of dimensions, and biases (experts, n)."""
    if len(w.shape) != 3:
        raise op.reject(f"weights of rank {len(w.shape)}, takes 3")
    size = g.experts * g.n * floordiv(g.k, packed)
    fits = equal(modulo(g.k, packed), 0) * equal(w.shape[0], g.experts) * equal(w.size, size)
    op.require(fits, "weights of {0} elements do not fit {1} experts of {2} x {3}", w.size, g.experts, g.n, g.k)
    if bias is not None:
        op.agree(bias.shape, (g.experts, g.n), "the bias does not fit the weights")


def activation_of(op: NodeLowering) -> str:
    """Return the activation. geglu is one that onnxruntime has for other devices alone; other such forms raise Rejection."""
    kind: str = op.attr("activation_type", "relu")
    if kind not in ACTIVATIONS:
        raise op.reject(f"activation_type {kind!r}, takes {', '.join(ACTIVATIONS)}")
    if kind in GATED and op.attr("swiglu_fusion", 0) != 1:
        raise op.reject(f"{kind} without swiglu_fusion 1, which has gates and values in turn")
    if kind not in GATED and op.attr("swiglu_fusion", 0):
        raise op.reject(f"swiglu_fusion {op.attr('swiglu_fusion')} with activation_type {kind!r}")
    if op.attr("swiglu_limit_after_activation", 0):
        raise op.reject("swiglu_limit_after_activation")
    return kind


class Routes(NamedTuple):
    """The choice of experts: `chosen` and `shares` (tokens, taken), the routes in `order` of experts, and where each one `starts`."""

    tokens: Dim
    experts: Dim
    taken: int
    chosen: Tensor
    shares: Tensor
    order: Tensor
    starts: Tensor


Emit = Callable[[Tensor, Tensor, Routes, Layer], None]
"""Emits y (routes, n) from x (rows, k)."""


def emit_routes(op: NodeLowering, weights: Tensor | None, *, whole: bool, least: float) -> Routes:
    """Emit the choice of experts from router_probs (tokens, experts), and the order of the routes."""
    x, logits, taken = op.input(0), op.input(1), op.attr("k", 1)
    if len(x.shape) not in (2, 3) or len(logits.shape) != 2:
        raise op.reject(f"input of rank {len(x.shape)} and router_probs of rank {len(logits.shape)}, takes 2 or 3, and 2")
    if op.attr("use_sparse_mixer", 0) and taken != 2:
        raise op.reject(f"use_sparse_mixer with k {taken}, takes 2")
    tokens, count = product(x.shape[:-1]), logits.shape[1]
    op.agree(logits.shape, (tokens, count), "router_probs does not fit the tokens")
    op.require(less(0, taken) * (1 - less(count, taken)), "k is {0}, with {1} experts", taken, count)
    chosen, shares = op.temporary("int32", (tokens, taken)), op.temporary("float32", (tokens, taken))
    order, starts = op.temporary("int32", (tokens * taken,)), op.temporary("int32", (count + 1,))
    normalize = bool(op.attr("normalize_routing_weights", 0)) or (weights is None and not whole)
    routing: Any = (tokens, count, taken, least)
    g = Routing(*routing)
    work = linear_work(tokens * count * (taken + 1), PASS)
    op.emit(choose_experts, [logits, weights, chosen, shares], g=g, whole=whole, normalize=normalize, work=work)
    sizes: Any = {"routes": tokens * taken, "count": count}
    op.emit(sort_routes, [chosen, order, starts], **sizes, work=linear_work(tokens * taken * count, PASS))
    return Routes(tokens, count, taken, chosen, shares, order, starts)


def emit_layers(op: NodeLowering, routes: Routes, first: Emit, second: Emit, inter: Dim) -> None:
    """Emit both layers, the activation between them, and the mixture of the experts."""
    x, count, kind = op.input(0), routes.tokens * routes.taken, activation_of(op)
    hidden, fused = x.shape[-1], 2 if kind in GATED else 1
    inner = op.temporary("float32", (count, inter * fused))
    sizes: Any = (count, routes.experts, inter * fused, hidden, routes.taken)
    first(x, inner, routes, Layer(*sizes))
    active = inner
    if kind != "identity":
        active = op.temporary("float32", (count, inter))
        alpha, beta = float(op.attr("activation_alpha", 1.0)), float(op.attr("activation_beta", 0.0))
        limit = float(op.attr("swiglu_limit", NO_LIMIT))
        work = linear_work(active.size, ACTIVATION)
        op.emit(
            activate_experts, [inner, active], routes=count, n=inter, kind=kind, alpha=alpha, beta=beta, limit=limit, work=work
        )
    results = op.temporary("float32", (count, hidden))
    sizes = (count, routes.experts, hidden, inter, 1)
    second(active, results, routes, Layer(*sizes))
    operands = [results, routes.chosen, routes.shares, op.output(0)]
    op.emit(mix_experts, operands, tokens=routes.tokens, taken=routes.taken, n=hidden, work=linear_work(results.size, PASS))
