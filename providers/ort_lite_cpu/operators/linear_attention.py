"""LinearAttention, which keeps keys and values in a matrix that each step updates, and CausalConvWithState, its companion."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, Static, exp, imin, like, native, null, sigmoid, span, sqrt
from ort_lite.shapes import equal, floordiv, maximum, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator

COLUMNS = 64
"""The columns of a state that are updated together: they do not depend on the others."""
LONGEST = 1 << 31
"""The limit of dilations: below it, no product of a dilation and the number of taps overflows."""

PASS, TAP, CHANNEL = 0.065, 0.1, 18.0
"""The nanoseconds of a number of the state in each pass over it, and in a convolution of a tap for one number, and of a channel."""

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""update_rule -> (True if old keys fade, True if the old value of a key is subtracted)."""


class LinearAttentionSizes(NamedTuple):
    """Sizes: q (batch, steps, heads, size), k (.., key_heads, size), v (.., kv_heads, width) and y (.., outs, width)."""

    batch: int
    steps: int
    heads: int
    key_heads: int
    kv_heads: int
    outs: int
    size: int
    width: int
    decay_size: int
    """The numbers of decay for one head: size or 1."""
    betas: int
    """The numbers of beta for one step: kv_heads or 1."""
    scale: float
    """Factor of the queries; 0: 1 / sqrt(size)."""


@native(fastmath=REDUCE)
@extents(
    q="g.batch * g.steps * g.heads * g.size",
    k="g.batch * g.steps * g.key_heads * g.size",
    v="g.batch * g.steps * g.kv_heads * g.width",
    past="g.batch * g.kv_heads * g.size * g.width",
    decay="walk(0, g.batch * g.steps * g.kv_heads, g.decay_size, select(less(1, g.decay_size), g.size, 1), 1)",
    beta="walk(0, g.batch * g.steps, g.betas, select(less(1, g.betas), g.kv_heads, 1), 1)",
    y="g.batch * g.steps * g.outs * g.width",
    state="g.batch * g.kv_heads * g.size * g.width",
    scratch="parts * COLUMNS",
)
def recur(
    q: Ptr,
    k: Ptr,
    v: Ptr,
    past: Ptr,
    decay: Ptr,
    beta: Ptr,
    y: Ptr,
    state: Ptr,
    scratch: Ptr,
    g: LinearAttentionSizes,
    gated: Static,
    delta: Static,
    part: int,
    parts: int,
) -> int:
    """Compute for each step: state *= exp(decay); state += outer(k, (v - k @ state) * beta); y = scale * q @ state.

    past, which may be null, and state (batch, kv_heads, size, width), decay (.., kv_heads, decay_size), beta (.., betas). scratch:
    COLUMNS a part. Parts share heads and COLUMNS of their states. Spec: ONNX LinearAttention-27.
    """
    steps, kv_heads, size, width, outs = g.steps, g.kv_heads, g.size, g.width, g.outs
    factor = g.scale if g.scale != 0 else 1 / sqrt(float(size))
    bunches = (width + COLUMNS - 1) // COLUMNS
    new = part * COLUMNS
    for job in span(g.batch * kv_heads * bunches, part, parts):
        head, first = job // bunches, job % bunches * COLUMNS
        b, h, n = head // kv_heads, head % kv_heads, imin(width - first, COLUMNS)
        s = head * size * width + first
        for d in range(size):
            for m in range(n):
                state[s + d * width + m] = like(state, 0) if null(past) else past[s + d * width + m]
        for t in range(steps):
            at = b * steps + t
            key, value = (at * g.key_heads + h * g.key_heads // kv_heads) * size, (at * kv_heads + h) * width + first
            for m in range(n):
                scratch[new + m] = like(v, 0)
            for d in range(size):
                row = s + d * width
                if gated:
                    fade = exp(decay[(at * kv_heads + h) * g.decay_size + (d if g.decay_size > 1 else 0)])
                    for m in range(n):
                        state[row + m] *= fade
                if delta:
                    for m in range(n):
                        scratch[new + m] += k[key + d] * state[row + m]
            rate = beta[at * g.betas + (h if g.betas > 1 else 0)] if delta else like(v, 1)
            for m in range(n):
                scratch[new + m] = rate * (v[value + m] - scratch[new + m])
            for d in range(size):
                for m in range(n):
                    state[s + d * width + m] += k[key + d] * scratch[new + m]
            for o in range(h * (outs // kv_heads), (h + 1) * (outs // kv_heads)):
                query, out = (at * g.heads + o * g.heads // outs) * size, (at * outs + o) * width + first
                for m in range(n):
                    y[out + m] = like(y, 0)
                for d in range(size):
                    for m in range(n):
                        y[out + m] += q[query + d] * like(q, factor) * state[s + d * width + m]
    return OK


@operator("LinearAttention", since=27, types=REAL)
@operator("LinearAttention", domain="com.microsoft", types=REAL)
def linear_attention(op: NodeLowering) -> None:
    """Emit linear attention of queries (B, T, heads * D) to keys and values (B, T, kv heads * size).

    Inputs that the rule does not use may be there. com.microsoft's may have more kv heads than heads, and fewer heads of keys than
    of values.
    Spec: ONNX LinearAttention-27, onnxruntime LinearAttention-1.
    """
    rule = op.attr("update_rule", "gated_delta")
    if rule not in _RULES or op.attr("state_window", 0):
        raise op.reject(f"update_rule {rule!r}" if rule not in _RULES else "state_window")
    gated, delta = _RULES[rule]
    for index, name, needed in ((4, "decay", gated), (5, "beta", delta)):
        if needed and not op.has(index):
            raise op.reject(f"{name} is missing for {rule!r}")
    heads, kv_heads = op.attr("q_num_heads"), op.attr("kv_num_heads")
    outs = max(heads, kv_heads)
    if min(heads, kv_heads) < 1 or outs % heads or outs % kv_heads:
        raise op.reject(f"{heads} heads of queries for {kv_heads} of keys")
    q, k, v = (op.input(index) for index in range(3))
    past, decay, beta = (op.optional(index) if wanted else None for index, wanted in ((3, True), (4, gated), (5, delta)))
    batch, steps, _ = q.shape
    size, width = floordiv(q.shape[2], heads), floordiv(v.shape[2], kv_heads)
    key_heads = _key_heads(op, k, size, kv_heads)
    past = None if past is None else op.cast(past, v.dtype)
    fades = _for_each(decay, kv_heads)
    y = op.output(0)
    state_type = op.info(1).dtype if op.wants(1) else None
    state = op.output(1) if state_type == v.dtype else op.temporary(v.dtype, (batch, kv_heads, size, width))
    scratch = op.temporary(v.dtype, (op.most_parts * COLUMNS,))
    operands = [q, k, v, past, decay, beta, y, state, scratch]
    rates, scale = _for_each(beta, 1), float(op.attr("scale", 0.0))
    sizes: Any = (batch, steps, heads, key_heads, kv_heads, outs, size, width, fades, rates, scale)
    passes = 2 + gated + delta
    work = linear_work(batch * steps * outs * size * width * passes, PASS)
    op.emit(recur, operands, g=LinearAttentionSizes(*sizes), gated=gated, delta=delta, work=work)
    if state_type is not None and state_type != v.dtype:
        op.set(1, op.cast(state, state_type))


def _key_heads(op: NodeLowering, k: Tensor, size: Dim, kv_heads: int) -> Dim:
    """Return how many heads k (B, T, heads * size) has: those of the values, or of com.microsoft's fewer, each for several."""
    heads = select(equal(size, 0), kv_heads, floordiv(k.shape[2], maximum(size, 1)))
    op.require(equal(heads * size, k.shape[2]), "{0} columns of keys do not make heads of {1}", k.shape[2], size)
    shared = floordiv(kv_heads, maximum(heads, 1))
    op.require(equal(shared * heads, kv_heads), "{0} heads of keys for {1} of values", heads, kv_heads)
    return heads


def _for_each(x: Tensor | None, groups: int) -> Dim:
    """Return how many numbers of x (batch, steps, numbers) each group has; 1 without x."""
    if x is None:
        return 1
    return floordiv(x.shape[2], groups)


class CausalSizes(NamedTuple):
    """The sizes of a causal convolution: of x, the taps of a channel, and the steps between two of them."""

    batch: int
    channels: int
    length: int
    taps: int
    dilation: int


@native(fastmath=REDUCE)
@extents(
    x="g.batch * g.channels * g.length",
    w="g.channels * g.taps",
    bias="g.channels",
    past="g.batch * g.channels * (g.taps - 1) * g.dilation",
    y="g.batch * g.channels * g.length",
    state="g.batch * g.channels * (g.taps - 1) * g.dilation",
)
def causal_conv(
    x: Ptr, w: Ptr, bias: Ptr, past: Ptr, y: Ptr, state: Ptr, g: CausalSizes, silu: Static, part: int, parts: int
) -> int:
    """y[b, c, i] = bias[c] + sum of w[c, j] * p[b, c, i + j * dilation], p being the past and then x; silu: times its sigmoid.

    The last (taps - 1) * dilation of p go to state; bias, past and state may be null. The dilation is 1 or more, which the operator
    checks. Spec: ONNX CausalConvWithState-27.
    """
    before = (g.taps - 1) * g.dilation
    for row in span(g.batch * g.channels, part, parts):
        c, p, s = row % g.channels, row * g.length, row * before
        for i in range(g.length):
            y[p + i] = like(y, 0) if null(bias) else bias[c]
        for j in range(g.taps):
            missing = before - j * g.dilation
            for i in range(imin(missing, g.length)):
                y[p + i] += w[c * g.taps + j] * (like(y, 0) if null(past) else past[s + i + j * g.dilation])
            for i in range(missing, g.length):
                y[p + i] += w[c * g.taps + j] * x[p + i - missing]
        if silu:
            for i in range(g.length):
                y[p + i] *= sigmoid(y[p + i])
        if not null(state):
            kept = before - imin(before, g.length)
            for i in range(kept):
                state[s + i] = like(y, 0) if null(past) else past[s + i + g.length]
            for i in range(kept, before):
                state[s + i] = x[p + i + g.length - before]
    return OK


@native(fastmath=REDUCE)
@extents(
    x="g.batch * g.channels * g.length",
    w="g.channels * g.taps",
    bias="g.channels",
    past="g.batch * g.channels * (g.taps - 1) * g.dilation",
    y="g.batch * g.channels * g.length",
    state="g.batch * g.channels * (g.taps - 1) * g.dilation",
)
def causal_conv_rows(
    x: Ptr, w: Ptr, bias: Ptr, past: Ptr, y: Ptr, state: Ptr, g: CausalSizes, silu: Static, part: int, parts: int
) -> int:
    """Compute `causal_conv` of x and y (batch, length, channels), states (batch, steps, channels), and w (taps, channels)."""
    before = (g.taps - 1) * g.dilation
    for row in span(g.batch * g.length, part, parts):
        b, i, p = row // g.length, row % g.length, row * g.channels
        for c in range(g.channels):
            y[p + c] = like(y, 0) if null(bias) else bias[c]
        for j in range(g.taps):
            at, tap = i - before + j * g.dilation, j * g.channels
            if at >= 0:
                for c in range(g.channels):
                    y[p + c] += w[tap + c] * x[(b * g.length + at) * g.channels + c]
            else:
                for c in range(g.channels):
                    y[p + c] += w[tap + c] * (like(y, 0) if null(past) else past[((b + 1) * before + at) * g.channels + c])
        if silu:
            for c in range(g.channels):
                y[p + c] *= sigmoid(y[p + c])
    if not null(state):
        for row in span(g.batch * before, part, parts):
            b, at = row // before, row % before + g.length - before
            for c in range(g.channels):
                earlier = like(y, 0) if null(past) or at >= 0 else past[(row + g.length) * g.channels + c]
                state[row * g.channels + c] = x[(b * g.length + at) * g.channels + c] if at >= 0 else earlier
    return OK


_PLAIN_CONVOLUTION = {
    "ndim": 1,
    "state_window": 0,
    "state_channels_last": -1,
    "state_length": 0,
    "state_update_capacity": 0,
    "input_channels": 0,
    "input_channel_offset": 0,
}
"""Attributes of CausalConvWithState and the only value that is supported, also by onnxruntime's kernel for CPUs."""


@operator("CausalConvWithState", since=27, types=REAL)
@operator("CausalConvWithState", domain="com.microsoft", types=REAL)
def causal_conv_with_state(op: NodeLowering) -> None:
    """Emit y and the state (B, C, (k - 1) * dilation) for x (B, C, L) and w (C, 1, k).

    With `channels_last`, the last axis of x, y and the state is C.

    Spec: ONNX CausalConvWithState-27, onnxruntime CausalConvWithState-1.
    """
    for attribute, plain in _PLAIN_CONVOLUTION.items():
        if op.attr(attribute, plain) != plain:
            raise op.reject(f"{attribute} {op.attr(attribute)}")
    if op.wants(2):
        raise op.reject("an output state_update")
    kind, last = op.attr("activation", "none"), op.attr("channels_last", 0)
    if kind not in ("none", "silu", "swish") or last not in (0, 1):
        raise op.reject(f"activation {kind!r}, channels_last {last}")
    dilation = op.attr("dilation", 1)
    if not 1 <= dilation < LONGEST:
        raise op.reject(f"dilation {dilation}")
    x, w, bias, past = op.input(0), op.input(1), op.optional(2), op.optional(3)
    if len(x.shape) != 3 or len(w.shape) != 3:
        raise op.reject(f"x of rank {len(x.shape)} and kernels of rank {len(w.shape)}, expected 3")
    batch, channels, length = (x.shape[0], x.shape[2], x.shape[1]) if last else x.shape
    taps, before = w.shape[2], (w.shape[2] - 1) * dilation
    op.agree(w.shape[:2], (channels, 1), "the kernels do not fit the channels")
    if bias is not None:
        op.agree(bias.shape, (channels,), "the bias does not fit the channels")
    if past is not None:
        op.agree(
            past.shape, (batch, before, channels) if last else (batch, channels, before), "the past does not fit the kernels"
        )
    operands = [x, _taps_first(op) if last else w, bias, past, op.output(0), op.output(1) if op.wants(1) else None]
    sizes: Any = (batch, channels, length, taps, dilation)
    work = linear_work(x.size * taps, TAP) + linear_work(batch * channels, CHANNEL)
    op.emit(causal_conv_rows if last else causal_conv, operands, g=CausalSizes(*sizes), silu=kind != "none", work=work)


def _taps_first(op: NodeLowering) -> Tensor:
    """Return the kernels (C, 1, k) as (k, C)."""
    constant, w = op.constant(1), op.input(1)
    if constant is not None:
        return op.pack(constant, "taps first", lambda: np.ascontiguousarray(constant[:, 0].T))
    made = op.temporary(w.dtype, (w.shape[2], w.shape[0]))
    emit_permute(op, w, made, (w.shape[0], w.shape[2]), (1, 0))
    return made
