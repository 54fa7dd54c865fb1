"""LinearAttention, whose keys and values live in a matrix that each step updates, and CausalConvWithState, its companion."""

from ort_lite.native.lang import OK, REDUCE, Ptr, Static, exp, imin, like, native, null, sigmoid, span, sqrt
from ort_lite.shapes import Dim, floordiv
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator

COLUMNS = 64
"""Columns of a state that are updated together: they do not depend on the others."""

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""update_rule -> (old keys fade, what a key has already is taken off)."""


@native(fastmath=REDUCE)
def recur(
    q: Ptr, k: Ptr, v: Ptr, past: Ptr, decay: Ptr, beta: Ptr, y: Ptr, state: Ptr, scratch: Ptr,
    batch: int, steps: int, heads: int, kv_heads: int, outs: int, size: int, width: int, decay_size: int, betas: int, scale: float,
    gated: Static, delta: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """For each step: state = exp(decay) * state + k x (v - what k finds there) * beta; y = scale * q @ state.

    q (batch, steps, heads, size), k (batch, steps, kv_heads, size), v (.., kv_heads, width), y (.., outs, width), past, which may
    be null, and state (batch, kv_heads, size, width), decay (.., kv_heads, decay_size: size or 1), beta (.., betas). scratch:
    COLUMNS a part. Parts share heads and COLUMNS of their states. Spec: ONNX LinearAttention-27.
    """
    factor = scale if scale != 0 else 1 / sqrt(float(size))
    bunches = (width + COLUMNS - 1) // COLUMNS
    new = part * COLUMNS
    for job in span(batch * kv_heads * bunches, part, parts):
        head, first = job // bunches, job % bunches * COLUMNS
        b, h, n = head // kv_heads, head % kv_heads, imin(width - first, COLUMNS)
        s = head * size * width + first
        for d in range(size):
            for m in range(n):
                state[s + d * width + m] = like(state, 0) if null(past) else past[s + d * width + m]
        for t in range(steps):
            at = b * steps + t
            key, value = (at * kv_heads + h) * size, (at * kv_heads + h) * width + first
            for m in range(n):
                scratch[new + m] = like(v, 0)
            for d in range(size):
                row = s + d * width
                if gated:
                    fade = exp(decay[(at * kv_heads + h) * decay_size + (d if decay_size > 1 else 0)])
                    for m in range(n):
                        state[row + m] *= fade
                if delta:
                    for m in range(n):
                        scratch[new + m] += k[key + d] * state[row + m]
            rate = beta[at * betas + (h if betas > 1 else 0)] if delta else like(v, 1)
            for m in range(n):
                scratch[new + m] = rate * (v[value + m] - scratch[new + m])
            for d in range(size):
                for m in range(n):
                    state[s + d * width + m] += k[key + d] * scratch[new + m]
            for o in range(h * (outs // kv_heads), (h + 1) * (outs // kv_heads)):
                query, out = (at * heads + o * heads // outs) * size, (at * outs + o) * width + first
                for m in range(n):
                    y[out + m] = like(y, 0)
                for d in range(size):
                    for m in range(n):
                        y[out + m] += q[query + d] * like(q, factor) * state[s + d * width + m]
    return OK


@operator("LinearAttention", since=27, types=REAL)
@operator("LinearAttention", domain="com.microsoft", types=REAL)
def linear_attention(op: Op) -> None:
    """Queries (B, T, heads * D), keys and values (B, T, kv heads * size). com.microsoft's may have more kv heads than heads."""
    rule = op.attr("update_rule", "gated_delta")
    if rule not in _RULES or op.attr("state_window", 0):
        raise op.reject(f"update_rule {rule!r}" if rule not in _RULES else "state_window")
    gated, delta = _RULES[rule]
    for index, name, needed in ((4, "decay", gated), (5, "beta", delta)):
        if op.has(index) != needed:
            raise op.reject(f"{name} is {'missing' if needed else 'not for'} {rule!r}")
    heads, kv_heads = op.attr("q_num_heads"), op.attr("kv_num_heads")
    outs = max(heads, kv_heads)
    if outs % heads or outs % kv_heads:
        raise op.reject(f"{heads} heads of queries for {kv_heads} of keys")
    q, k, v = (op.input(index) for index in range(3))
    past, decay, beta = (op.optional(index) for index in (3, 4, 5))
    batch, steps, _ = q.shape
    size, width = floordiv(k.shape[2], kv_heads), floordiv(v.shape[2], kv_heads)
    op.agree(q.shape, (*k.shape[:2], heads * size), "queries and keys do not fit")
    fades: Dim = 1 if decay is None else floordiv(decay.shape[2], kv_heads)
    y = op.output(0)
    state = op.output(1) if op.wants(1) else op.temporary(v.dtype, (batch, kv_heads, size, width))
    scratch = op.temporary(v.dtype, (op.options.threads * COLUMNS,))
    op.emit(
        recur, [q, k, v, past, decay, beta, y, state, scratch], batch, steps, heads, kv_heads, outs, size, width, fades,
        1 if beta is None else beta.shape[2], float(op.attr("scale", 0.0)), types=[v.native] * 9,
        statics={"gated": gated, "delta": delta}, work=batch * steps * outs * size * width // 4,
    )  # fmt: skip


@native(fastmath=REDUCE)
def causal_conv(
    x: Ptr, w: Ptr, bias: Ptr, past: Ptr, y: Ptr, state: Ptr, batch: int, channels: int, length: int, taps: int, dilation: int,
    silu: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y[b, c, i] = bias[c] + sum of w[c, j] * p[b, c, i + j * dilation], p being the past and then x; silu: times its sigmoid.

    The last (taps - 1) * dilation of p go to state; bias, past and state may be null. Spec: ONNX CausalConvWithState-27.
    """
    before = (taps - 1) * dilation
    for row in span(batch * channels, part, parts):
        c, p, s = row % channels, row * length, row * before
        for i in range(length):
            y[p + i] = like(y, 0) if null(bias) else bias[c]
        for j in range(taps):
            missing = before - j * dilation
            if not null(past):
                for i in range(imin(missing, length)):
                    y[p + i] += w[c * taps + j] * past[s + i + j * dilation]
            for i in range(missing, length):
                y[p + i] += w[c * taps + j] * x[p + i - missing]
        if silu:
            for i in range(length):
                y[p + i] *= sigmoid(y[p + i])
        if not null(state):
            kept = before - imin(before, length)
            for i in range(kept):
                state[s + i] = like(y, 0) if null(past) else past[s + i + length]
            for i in range(kept, before):
                state[s + i] = x[p + i + length - before]
    return OK


@operator("CausalConvWithState", since=27, types=REAL)
@operator("CausalConvWithState", domain="com.microsoft", types=REAL)
def causal_conv_with_state(op: Op) -> None:
    """x (B, C, L), w (C, 1, k) -> y and the state (B, C, (k - 1) * dilation)."""
    for attribute, plain in (("ndim", 1), ("channels_last", 0), ("state_window", 0)):
        if op.attr(attribute, plain) != plain:
            raise op.reject(f"{attribute} {op.attr(attribute)}")
    kind = op.attr("activation", "none")
    if kind not in ("none", "silu", "swish"):
        raise op.reject(f"activation {kind!r}")
    x, w = op.input(0), op.input(1)
    op.agree(w.shape[:2], (x.shape[1], 1), "the kernels do not fit the channels")
    op.emit(
        causal_conv, [x, w, op.optional(2), op.optional(3), op.output(0), op.output(1) if op.wants(1) else None], *x.shape,
        w.shape[2], op.attr("dilation", 1), types=[x.native] * 6, statics={"silu": kind != "none"}, work=x.size * 2,
    )  # fmt: skip
