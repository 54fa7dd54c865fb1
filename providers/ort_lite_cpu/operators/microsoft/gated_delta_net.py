"""GatedDeltaNet of com.microsoft: linear attention of requests that are packed, with a matrix of state for each head."""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    SUMS,
    Ptr,
    Static,
    exp,
    fabs,
    failure_status,
    fmax,
    imin,
    like,
    log,
    native,
    null,
    read_once,
    sigmoid,
    span,
    sqrt,
)
from ort_lite.shapes import equal, floordiv, modulo, product, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.linear_attention import PASS
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

LARGEST_CAPACITY = 8
_NORM_EPSILONS = {"none": 1e-12, "softplus": 1e-12, "sigmoid": 1e-6}
"""The number that onnxruntime adds to the sum of squares of queries and keys, by the function of the gate."""
_RULES = ("linear", "gated", "delta", "gated_delta")
_GATES = {"none": "none", "softplus": "softplus", "qwen": "softplus", "sigmoid": "sigmoid", "kda": "sigmoid"}


class PackedHeads(NamedTuple):
    """Sizes: requests of tokens, heads of keys (size) and of values (width)."""

    requests: int
    tokens: int
    length: int
    """The tokens of each request, where there are no offsets."""
    heads: int
    outs: int
    size: int
    width: int
    fades: int
    """The numbers of decay for one head: size or 1."""
    capacity: int
    """The steps that are kept of each request."""


@native(fastmath=SUMS)
@extents(x="at + max(rows - 1, 0) * step + heads * n", y="rows * heads * n")
def take_heads(
    x: Ptr, y: Ptr, rows: int, heads: int, n: int, at: int, step: int, epsilon: Static, part: int, parts: int
) -> int:
    """y (rows, heads, n) = heads of rows of x, `step` apart and from `at` on.

    epsilon above 0: they are divided by sqrt(sum of squares + epsilon).
    """
    for job in span(rows * heads, part, parts):
        p, q = at + job // heads * step + job % heads * n, job * n
        factor = like(x, 1)
        if epsilon:
            total = like(x, epsilon)
            for i in range(n):
                total += x[p + i] * x[p + i]
            factor = like(x, 1) / sqrt(total)
        for i in range(n):
            y[q + i] = x[p + i] * factor
    return OK


@native
@extents(decay="rows * heads * n", a_log="heads", bias="heads * biases", fade="rows * heads * n")
def fade(
    decay: Ptr,
    a_log: Ptr,
    bias: Ptr,
    fade: Ptr,
    rows: int,
    heads: int,
    n: int,
    biases: int,
    bound: float,
    gate: Static,
    part: int,
    parts: int,
) -> int:
    """fade (rows, heads, n) = exp(decay), after the gate: softplus or bounded sigmoid of decay + bias. bias may be null."""
    for job in span(rows * heads, part, parts):
        h = job % heads
        for i in range(n):
            z = decay[job * n + i]
            if gate != "none":
                if not null(bias):
                    z += bias[h * biases + (i if biases > 1 else 0)]
                factor = exp(a_log[h])
                if gate == "softplus":
                    z = -factor * (fmax(z, like(decay, 0)) + log(like(decay, 1) + exp(-fabs(z))))
                else:
                    z = like(decay, bound) * sigmoid(factor * z)
            fade[job * n + i] = exp(z)
    return OK


@native
def range_of(offsets: Ptr, request: int, requests: int, tokens: int, length: int) -> tuple[int, int]:
    """Return the first token of a request and the end of its tokens; an end of -1 if offsets are not in order or leave out tokens.

    offsets (requests + 1,); if it is null, each request has `length` tokens.
    """
    start, end = request * length, (request + 1) * length
    if not null(offsets):
        start, end = int(read_once(offsets, request)), int(read_once(offsets, request + 1))
        first, last = request == 0 and start != 0, request == requests - 1 and end != tokens
        if start < 0 or end < start or end > tokens or first or last:
            start, end = 0, -1
    return start, end


@native(fastmath=SUMS)
@extents(
    q="g.tokens * g.heads * g.size",
    k="g.tokens * g.heads * g.size",
    v="g.tokens * g.outs * g.width",
    offsets="g.requests + 1",
    fade="g.tokens * g.outs * g.fades",
    beta="g.tokens * g.outs",
    past="g.requests * g.outs * g.width * g.size",
    y="g.tokens * g.outs * g.width",
    state="g.requests * g.outs * g.width * g.size",
    deltas="g.tokens * g.outs * g.width",
)
def recur_packed(
    q: Ptr,
    k: Ptr,
    v: Ptr,
    offsets: Ptr,
    fade: Ptr,
    beta: Ptr,
    past: Ptr,
    y: Ptr,
    state: Ptr,
    deltas: Ptr,
    g: PackedHeads,
    scale: float,
    part: int,
    parts: int,
) -> int:
    """Compute for each token: state *= fade; state += outer(delta, k), delta = (v - state @ k) * beta; y = scale * state @ q.

    scale 0: 1 / sqrt(size).
    past, which may be null, and state (requests, outs, width, size). Without fade, nothing fades; without beta, delta is v.
    deltas (tokens, outs, width) may be null. Requests are `offsets` of the tokens, or `length` tokens each. Parts share heads.
    """
    size, width = g.size, g.width
    factor = scale if scale != 0 else 1 / sqrt(float(size))
    for job in span(g.requests * g.outs, part, parts):
        request, h = job // g.outs, job % g.outs
        start, end = range_of(offsets, request, g.requests, g.tokens, g.length)
        if end < start:
            return failure_status(INDEX_OUT_OF_RANGE, request)
        s = job * width * size
        for i in range(width * size):
            state[s + i] = like(state, 0) if null(past) else past[s + i]
        for t in range(start, end):
            key, value = (t * g.heads + h // (g.outs // g.heads)) * size, (t * g.outs + h) * width
            fades = (t * g.outs + h) * g.fades
            for m in range(width):
                row, delta = s + m * size, v[value + m]
                if not null(fade):
                    if g.fades > 1:
                        for d in range(size):
                            state[row + d] *= fade[fades + d]
                    else:
                        for d in range(size):
                            state[row + d] *= fade[fades]
                if not null(beta):
                    known = like(v, 0)
                    for d in range(size):
                        known += state[row + d] * k[key + d]
                    delta = (delta - known) * beta[t * g.outs + h]
                if not null(deltas):
                    deltas[value + m] = delta
                total = like(v, 0)
                for d in range(size):
                    state[row + d] += delta * k[key + d]
                    total += state[row + d] * q[key + d]
                y[value + m] = total * like(v, factor)
    return OK


@native
@extents(
    k="g.tokens * g.heads * g.size",
    offsets="g.requests + 1",
    fade="g.tokens * g.outs * g.fades",
    deltas="g.tokens * g.outs * g.width",
    counts="g.requests",
    active="1",
    y="g.requests * g.capacity * (g.outs * g.fades + g.heads * g.size + g.outs * g.width)",
)
def capture_steps(
    k: Ptr, offsets: Ptr, fade: Ptr, deltas: Ptr, counts: Ptr, active: Ptr, y: Ptr, g: PackedHeads, part: int, parts: int
) -> int:
    """y (requests, capacity * (decays + keys + deltas)) = the factors of the first steps, as many as `counts` says, then zeros.

    First come the decays of all steps, then their keys, then their deltas. fade null: decays are 1. active 0: there are only zeros.
    """
    fades, keys, values = g.outs * g.fades, g.heads * g.size, g.outs * g.width
    for request in span(g.requests, part, parts):
        start, end = range_of(offsets, request, g.requests, g.tokens, g.length)
        if end < start:
            return failure_status(INDEX_OUT_OF_RANGE, request)
        count = imin(int(counts[request]), end - start)
        if not null(active):
            count = count if int(active[0]) != 0 else 0
        for slot in range(g.capacity):
            p = request * g.capacity * (fades + keys + values) + slot * fades
            t = start + slot
            for i in range(fades):
                kept = like(k, 1)
                if not null(fade):
                    kept = fade[t * fades + i] if slot < count else like(k, 1)
                y[p + i] = kept if slot < count else like(k, 0)
            p = (request * (fades + keys + values) + fades) * g.capacity + slot * keys
            for i in range(keys):
                y[p + i] = k[t * keys + i] if slot < count else like(k, 0)
            p = (request * (fades + keys + values) + fades + keys) * g.capacity + slot * values
            for i in range(values):
                y[p + i] = deltas[t * values + i] if slot < count else like(k, 0)
    return OK


@native
@extents(x="n", y="n")
def rates(x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    """y (n,) = sigmoid(x)."""
    for i in span(n, part, parts):
        y[i] = sigmoid(x[i])
    return OK


@operator("GatedDeltaNet", domain="com.microsoft", types=frozenset({"float32"}))
def gated_delta_net(op: NodeLowering) -> None:
    """Emit linear attention of packed tokens. Spec: onnxruntime GatedDeltaNet-1."""
    rule, capacity = op.attr("update_rule", "gated_delta"), op.attr("state_update_capacity", 0)
    _check_form(op, rule, capacity)
    q, k, v, g = _heads_of(op)
    offsets, past = op.optional(3), op.optional(6)
    if past is not None:
        op.agree(past.shape, (g.requests, g.outs, g.width, g.size), "the state does not fit the heads")
    state = op.output(1) if op.wants(1) else op.temporary("float32", (g.requests, g.outs, g.width, g.size))
    fades: Tensor | None = None
    if "gated" in rule:
        fades, g = _emit_fades(op, g)
    beta = _emit_rates(op, g) if "delta" in rule else None
    kept = op.wants(2) and capacity > 0
    deltas = op.temporary("float32", (g.tokens, g.outs, g.width)) if kept else None
    operands = [q, k, v, offsets, fades, beta, past, op.output(0), state, deltas]
    work = linear_work(g.tokens * g.outs * g.size * g.width * 4, PASS)
    message = partial(misfit, 3, "ranges in order that cover them")
    op.emit(recur_packed, operands, g=g, scale=float(op.attr("scale", 0.0)), work=work, message=message)
    if kept:
        counts, active, y = op.input(9), op.optional(10), op.output(2)
        g = g._replace(capacity=capacity)
        op.emit(capture_steps, [k, offsets, fades, deltas, counts, active, y], g=g, work=y.size)


def _check_form(op: NodeLowering, rule: str, capacity: int) -> None:
    """Reject what onnxruntime's kernel for CPUs does."""
    if rule not in _RULES or not 0 <= capacity <= LARGEST_CAPACITY:
        raise op.reject(f"update_rule {rule!r}, state_update_capacity {capacity}")
    for name, known in (("gate_activation", tuple(_GATES)), ("beta_activation", ("none", "sigmoid"))):
        if op.attr(name, "none") not in known:
            raise op.reject(f"{name} {op.attr(name)!r}, takes {', '.join(known)}")
    for index, name, needed in ((4, "decay", "gated" in rule), (5, "beta", "delta" in rule)):
        if op.has(index) != needed:
            raise op.reject(f"{name} is {'missing' if needed else 'not for'} {rule!r}")
    if op.attr("gate_activation", "none") != "none" and not (op.has(7) and op.has(8)):
        raise op.reject("gate_activation without a_log and dt_bias")
    if op.has(9) != (capacity > 0):
        raise op.reject(f"state_update_capacity {capacity} {'with' if op.has(9) else 'without'} capture_count")
    if not op.has(6) and not (op.has(3) and op.has(1) and op.has(2)):
        raise op.reject("no initial_state, which tells the requests or the heads")


def _heads_of(op: NodeLowering) -> tuple[Tensor, Tensor, Tensor, PackedHeads]:
    """Return queries, keys and values, each (tokens, heads, numbers) one behind the other, and their sizes."""
    q, gate = op.input(0), _GATES[op.attr("gate_activation", "none")]
    epsilon = _NORM_EPSILONS[gate] if op.attr("qk_l2_norm", 0) else 0.0
    lead = len(q.shape) - (2 if op.has(1) else 1)
    if lead not in (1, 2) or (lead == 2 and op.has(3)):
        raise op.reject(f"queries of rank {len(q.shape)}")
    tokens, step = product(q.shape[:lead]), product(q.shape[lead:])
    if op.has(1):
        k, v = op.input(1), op.input(2)
        (heads, size), (outs, width) = q.shape[lead:], v.shape[lead:]
        op.agree(k.shape, q.shape, "keys and queries do not fit")
        op.require(
            equal(product(v.shape[:lead]), tokens), "{0} tokens of values for {1} of keys", product(v.shape[:lead]), tokens
        )
    else:
        outs, width, size = op.input(6).shape[1:]
        heads = floordiv(step - outs * width, 2 * select(equal(size, 0), 1, size))
        op.require(equal(step, 2 * heads * size + outs * width), "rows of {0} do not have these heads", step)
    op.require(1 - equal(heads, 0), "there are no heads")
    op.require(equal(modulo(outs, select(equal(heads, 0), 1, heads)), 0), "{0} heads of values for {1} of keys", outs, heads)
    requests = op.input(3).shape[0] - 1 if op.has(3) else op.input(6).shape[0]
    length = floordiv(tokens, select(equal(requests, 0), 1, requests))
    if not op.has(3):
        op.require(equal(length * requests, tokens), "{0} tokens of {1} requests", tokens, requests)
    op.require(select(equal(requests, 0), equal(tokens, 0), 1), "{0} tokens of no request", tokens)
    sizes: Any = (requests, tokens, length, heads, outs, size, width, 1, 0)
    g = PackedHeads(*sizes)
    if op.has(1):
        q, k = (_take(op, x, g, heads, size, 0, step, epsilon) if epsilon else x for x in (q, k))
        return q, k, v, g
    keys = heads * size
    taken = [_take(op, q, g, heads, size, at, step, epsilon) for at in (0, keys)]
    return taken[0], taken[1], _take(op, q, g, outs, width, 2 * keys, step, 0.0), g


def _take(op: NodeLowering, x: Tensor, g: PackedHeads, heads: Dim, n: Dim, at: Dim, step: Dim, epsilon: float) -> Tensor:
    y = op.temporary("float32", (g.tokens, heads, n))
    op.emit(take_heads, [x, y], rows=g.tokens, heads=heads, n=n, at=at, step=step, epsilon=epsilon, work=y.size)
    return y


def _emit_fades(op: NodeLowering, g: PackedHeads) -> tuple[Tensor, PackedHeads]:
    """Return the factors of old keys, and the sizes with their number."""
    decay, gate = op.cast(op.input(4), "float32"), _GATES[op.attr("gate_activation", "none")]
    lead = len(op.input(0).shape) - (2 if op.has(1) else 1)
    n = decay.shape[lead + 1] if len(decay.shape) == lead + 2 else 1
    op.require(
        equal(decay.size, g.tokens * g.outs * n), "{0} decays do not fit {1} tokens of {2} heads", decay.size, g.tokens, g.outs
    )
    op.require(select(equal(n, 1), 1, equal(n, g.size)), "{0} decays of a head of {1} numbers", n, g.size)
    a_log, bias = None, None
    biases: Dim = 1
    if gate != "none":
        a_log, bias = op.input(7), op.input(8)
        op.agree(a_log.shape, (g.outs,), "a_log does not fit the heads")
        biases = floordiv(bias.size, g.outs)
        op.require(
            select(equal(biases, 1), 1, equal(biases, n)) * equal(biases * g.outs, bias.size),
            "{0} biases do not fit",
            bias.size,
        )
    y = op.temporary("float32", (g.tokens, g.outs, n))
    sizes: dict[str, Any] = {"rows": g.tokens, "heads": g.outs, "n": n, "biases": biases}
    bound = float(op.attr("gate_lower_bound", -5.0))
    op.emit(fade, [decay, a_log, bias, y], **sizes, bound=bound, gate=gate, work=y.size * 20)
    sized: Any = {**g._asdict(), "fades": n}
    return y, PackedHeads(**sized)


def _emit_rates(op: NodeLowering, g: PackedHeads) -> Tensor:
    """Return the rates of updates, (tokens, heads)."""
    beta = op.cast(op.input(5), "float32")
    op.require(equal(beta.size, g.tokens * g.outs), "{0} rates for {1} tokens of {2} heads", beta.size, g.tokens, g.outs)
    if op.attr("beta_activation", "none") == "none":
        return beta
    y = op.temporary("float32", beta.shape)
    op.emit(rates, [beta, y], n=beta.size, work=beta.size * 8)
    return y


def misfit(offsets: int, expected: str, failure: "Failure", before: int = 0) -> str:
    """Return a message for a request, the number of which is `before` less than the place of the failure. offsets: that operand."""
    request = failure.at - before
    start, end = failure.element(offsets, request), failure.element(offsets, request + 1)
    return f"request {request} is [{start}, {end}) of {failure.scalar('g.tokens')} tokens; expected {expected}"
