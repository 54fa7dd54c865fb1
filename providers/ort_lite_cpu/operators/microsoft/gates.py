"""Gates of language models: sums, norms and mixtures whose rows are scaled by numbers that the model computes."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, Static, exp, fabs, fmax, like, log, native, null, shift, sigmoid, span, sqrt
from ort_lite.shapes import equal, floordiv, modulo, product, same, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import operator

FLOAT = frozenset({"float32"})


@native
@extents(x="rows * n", y="rows * n", gate="rows", out="rows * n")
def gated_add(x: Ptr, y: Ptr, gate: Ptr, out: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """out (rows, n) = x + y * gate (rows,)."""
    for row in span(rows, part, parts):
        p, factor = row * n, gate[row]
        for i in range(n):
            out[p + i] = x[p + i] + y[p + i] * factor
    return OK


@operator("GatedAdd", domain="com.microsoft", types=FLOAT)
def gated_add_operator(op: NodeLowering) -> None:
    """Emit X (..., C) + Y * gate (..., 1). Spec: onnxruntime GatedAdd-1, whose kernel for CPUs takes no weights either."""
    if op.has(3):
        raise op.reject("gate_weight")
    x, y, gate = (op.input(index) for index in range(3))
    op.agree(y.shape, x.shape, "X and Y do not fit")
    op.agree(gate.shape, (*x.shape[:-1], 1), "the gate does not fit X")
    op.emit(gated_add, [x, y, gate, op.output(0)], rows=product(x.shape[:-1]), n=x.shape[-1], work=x.size)


@native(fastmath=SUMS)
def inverse_root(x: Ptr, n: int, epsilon: float) -> Any:
    """Return 1 / sqrt(mean(x * x) + epsilon)."""
    total = like(x, 0)
    for i in range(n):
        total += x[i] * x[i]
    return like(x, 1) / sqrt(total / like(x, n) + like(x, epsilon))


@native
@extents(x="rows * n", scale="scales * n", gate="rows * n", y="rows * n")
def scale_rows(
    x: Ptr, scale: Ptr, gate: Ptr, y: Ptr, rows: int, n: int, scales: int, epsilon: float, silu: Static, part: int, parts: int
) -> int:
    """y (rows, n) = x / sqrt(mean(x * x) + epsilon) * scale (scales, n), whose rows repeat, * the sigmoid of the gate.

    silu: the gate is a factor as well. scale and gate may be null.
    """
    for row in span(rows, part, parts):
        p, q = row * n, row % scales * n
        factor = inverse_root(shift(x, p), n, epsilon)
        if null(scale):
            for i in range(n):
                y[p + i] = x[p + i] * factor
        else:
            for i in range(n):
                y[p + i] = x[p + i] * factor * scale[q + i]
        if not null(gate):
            for i in range(n):
                y[p + i] *= (gate[p + i] * sigmoid(gate[p + i])) if silu else sigmoid(gate[p + i])
    return OK


@operator("GatedRMSNorm", domain="com.microsoft", types=FLOAT)
def gated_rms_norm(op: NodeLowering) -> None:
    """Emit the RMS norm of groups of C numbers times the activation of the gate. Spec: onnxruntime GatedRMSNorm-1."""
    kind = op.attr("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise op.reject(f"activation {kind!r}, takes silu, swish and sigmoid")
    x, scale, gate = (op.input(index) for index in range(3))
    if not x.shape:
        raise op.reject("X without dimensions")
    op.agree(gate.shape, x.shape, "the gate does not fit X")
    _emit_norm(op, x, scale, gate, scale.size, 1, silu=kind != "sigmoid")


@operator("BranchwiseRMSNorm", domain="com.microsoft", types=FLOAT)
def branchwise_rms_norm(op: NodeLowering) -> None:
    """Emit the RMS norm of each branch (H,) of X (..., C, H) or (..., C * H). Spec: onnxruntime BranchwiseRMSNorm-1."""
    x, scale = op.input(0), _single(op, 1)
    branches, features = _branches(op, x)
    scales: Dim = 1
    if scale is not None:
        scales = select(equal(scale.size, features), 1, branches)
        op.require(
            equal(scale.size, scales * features), "scale has {0} elements, expected {1} or {2}", scale.size, features, x.size
        )
    _emit_norm(op, x, scale, None, features, scales, silu=False)


def _emit_norm(
    op: NodeLowering, x: Tensor, scale: Tensor | None, gate: Tensor | None, n: Dim, scales: Dim, *, silu: bool
) -> None:
    fits = select(equal(n, 0), 0, equal(modulo(x.shape[-1], select(equal(n, 0), 1, n)), 0))
    op.require(fits, "the last dimension {0} has no groups of {1}", x.shape[-1], n)
    rows, epsilon = floordiv(x.size, n), float(op.attr("epsilon", 1e-5))
    operands = [x, scale, gate, op.output(0)]
    op.emit(scale_rows, operands, rows=rows, n=n, scales=scales, epsilon=epsilon, silu=silu, work=x.size * 4)


def _single(op: NodeLowering, index: int) -> Tensor | None:
    """Return an optional operand, whose type may differ from X's, in float32."""
    found = op.optional(index)
    return None if found is None else op.cast(found, "float32")


def _branches(op: NodeLowering, x: Tensor) -> tuple[Dim, Dim]:
    """Return the branches and the numbers of each, of (..., C, H) or, with `num_branches`, of (..., C * H)."""
    count = op.attr("num_branches", 0)
    if count < 0 or len(x.shape) < (1 if count else 2):
        raise op.reject(f"num_branches {count} of a tensor of rank {len(x.shape)}")
    if not count:
        return x.shape[-2], x.shape[-1]
    op.require(equal(modulo(x.shape[-1], count), 0), "the last dimension {0} has no {1} branches", x.shape[-1], count)
    return count, floordiv(x.shape[-1], count)


@native
@extents(x="n", scale="1", y="n")
def scaled_silu(x: Ptr, scale: Ptr, y: Ptr, n: int, alpha: float, part: int, parts: int) -> int:
    """y (n,) = z * sigmoid(z), z = x * scale, or x * alpha without scale."""
    factor = like(x, alpha) if null(scale) else scale[0]
    for i in span(n, part, parts):
        z = x[i] * factor
        y[i] = z * sigmoid(z)
    return OK


@operator("ScaledSiLU", domain="com.microsoft", types=FLOAT)
def scaled_silu_operator(op: NodeLowering) -> None:
    """Emit SiLU after a scale. Spec: onnxruntime ScaledSiLU-1."""
    x, scale = op.input(0), _single(op, 1)
    op.emit(scaled_silu, [x, scale, op.output(0)], n=x.size, alpha=float(op.attr("alpha", 1.0)), work=x.size * 8)


@native
@extents(a="rows * n", bias="n", scale="n", b="rows * n", decay="rows * n", beta="rows * n")
def decays(a: Ptr, bias: Ptr, scale: Ptr, b: Ptr, decay: Ptr, beta: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """decay (rows, n) = scale (n,) * log(1 + exp(a + bias)); beta = sigmoid(b). b and beta may be null."""
    for row in span(rows, part, parts):
        p = row * n
        for i in range(n):
            z = a[p + i] + bias[i]
            decay[p + i] = scale[i] * (fmax(z, like(a, 0)) + log(like(a, 1) + exp(-fabs(z))))
        if not null(beta):
            for i in range(n):
                beta[p + i] = sigmoid(b[p + i])
    return OK


@operator("LinearAttentionGate", domain="com.microsoft", types=FLOAT)
def linear_attention_gate(op: NodeLowering) -> None:
    """Emit the decay and the rate of LinearAttention from their projections. Spec: onnxruntime LinearAttentionGate-1."""
    a, bias, scale = (op.input(index) for index in range(3))
    n, b, beta = a.shape[-1], None, None
    if op.wants(1):
        if not op.has(3):
            raise op.reject("an output beta without b")
        b, beta = op.input(3), op.output(1)
    rows = product(a.shape[:-1])
    op.emit(decays, [a, bias, scale, b, op.output(0), beta], rows=rows, n=n, work=a.size * 24)


class StreamSizes(NamedTuple):
    """The sizes of streams (rows, streams, n), and the steps of the gates of them."""

    rows: int
    streams: int
    n: int
    step: int
    """From the gate of a stream to that of the next: n or 1."""
    inner: int
    """From the gate of a number to that of the next: 1, or 0 where a stream has one gate."""


@native
@extents(x="g.rows * g.streams * g.n", gate="g.rows * g.streams * g.step", y="g.rows * g.n")
def mix_streams(x: Ptr, gate: Ptr, y: Ptr, g: StreamSizes, scale: float, part: int, parts: int) -> int:
    """y (rows, n) = scale * the sum of the streams x (rows, streams, n) times their gates."""
    n = g.n
    for row in span(g.rows, part, parts):
        for i in range(n):
            y[row * n + i] = like(y, 0)
        for c in range(g.streams):
            p, q = (row * g.streams + c) * n, (row * g.streams + c) * g.step
            for i in range(n):
                y[row * n + i] += x[p + i] * gate[q + i * g.inner]
        for i in range(n):
            y[row * n + i] *= like(y, scale)
    return OK


@operator("HyperConnectionPreMix", domain="com.microsoft", types=FLOAT)
def hyper_connection_pre_mix(op: NodeLowering) -> None:
    """Emit the gated sum of the streams (..., C, H) or (..., C * H). Spec: onnxruntime HyperConnectionPreMix-1."""
    x, gate, y = op.input(0), op.cast(op.input(1), "float32"), op.output(0)
    count, n = _branches(op, x)
    sizes = _stream_sizes(op, product(y.shape[:-1]), count, n, gate, "pre_mix")
    op.emit(mix_streams, [x, gate, y], g=sizes, scale=float(op.attr("reduction_scale", 1.0)), work=x.size * 2)


@native
@extents(
    x="g.rows * g.streams * g.n",
    new="g.rows * g.n",
    gate="g.rows * g.streams * g.step",
    mix="g.rows * g.streams * g.streams",
    y="g.rows * g.streams * g.n",
)
def inject(x: Ptr, new: Ptr, gate: Ptr, mix: Ptr, y: Ptr, g: StreamSizes, part: int, parts: int) -> int:
    """y (rows, k, n) = the sum over c of mix (rows, c, k) * x (rows, c, n), plus gate * new (rows, n). mix null: the identity."""
    n = g.n
    for job in span(g.rows * g.streams, part, parts):
        row, k, p = job // g.streams, job % g.streams, job * n
        for i in range(n):
            y[p + i] = gate[job * g.step + i * g.inner] * new[row * n + i]
        if null(mix):
            for i in range(n):
                y[p + i] += x[p + i]
        else:
            for c in range(g.streams):
                factor, q = mix[(row * g.streams + c) * g.streams + k], (row * g.streams + c) * n
                for i in range(n):
                    y[p + i] += factor * x[q + i]
    return OK


@operator("HyperConnectionPostMix", domain="com.microsoft", types=FLOAT)
def hyper_connection_post_mix(op: NodeLowering) -> None:
    """Emit mixed streams with the gated output of a block. Spec: onnxruntime HyperConnectionPostMix-1."""
    x, new, gate, mix = op.input(0), op.input(1), op.cast(op.input(2), "float32"), _single(op, 3)
    count, n = _branches(op, x)
    rows = product(new.shape[:-1])
    op.require(equal(new.size * count, x.size), "block_output has {0} elements for streams of {1}", new.size, x.size)
    sizes = _stream_sizes(op, rows, count, n, gate, "post_mix")
    if mix is not None:
        op.require(
            equal(mix.size, rows * count * count), "stream_mix has {0} elements, expected {1}", mix.size, rows * count * count
        )
    op.emit(inject, [x, new, gate, mix, op.output(0)], g=sizes, work=x.size * (2 if mix is None else 8))


def _stream_sizes(op: NodeLowering, rows: Dim, count: Dim, n: Dim, gate: Tensor, name: str) -> StreamSizes:
    """Return the sizes of streams. There is a gate for each stream, or for each number."""
    one = equal(gate.size, rows * count)
    step = n if same(gate.size, rows * count * n) and not same(n, 1) else select(one, 1, n)
    op.require(
        equal(gate.size, rows * count * step),
        f"{name} has {{0}} elements, expected {{1}} or {{2}}",
        gate.size,
        rows * count,
        rows * count * n,
    )
    inner = 1 if same(step, n) else select(one, 0, 1)
    sizes: Any = (rows, count, n, step, inner)
    return StreamSizes(*sizes)


@native(fastmath=SUMS)
@extents(
    key="rows * count * n",
    query="rows * count * n",
    value="rows * n",
    key_scale="count * n",
    query_scale="count * n",
    norm_scale="count * n",
    y="rows * count * n",
    normed="rows * count * n",
)
def engram_gates(
    key: Ptr,
    query: Ptr,
    value: Ptr,
    key_scale: Ptr,
    query_scale: Ptr,
    norm_scale: Ptr,
    y: Ptr,
    normed: Ptr,
    rows: int,
    count: int,
    n: int,
    epsilon: float,
    part: int,
    parts: int,
) -> int:
    """y (rows, count, n) = value (rows, n) * sigmoid(sign(d) * sqrt(max(|d|, 1e-6))), d = normed key @ normed query / sqrt(n).

    normed: the RMS norm of y; it and norm_scale may be null.
    """
    for job in span(rows * count, part, parts):
        p, q, v = job * n, job % count * n, job // count * n
        dot = like(key, 0)
        for i in range(n):
            dot += key[p + i] * key_scale[q + i] * (query[p + i] * query_scale[q + i])
        factors = inverse_root(shift(key, p), n, epsilon) * inverse_root(shift(query, p), n, epsilon)
        dot = dot * factors / sqrt(like(key, n))
        root = sqrt(fmax(fabs(dot), like(key, 1e-6)))
        gate = sigmoid(like(key, 0) if dot == 0 else (-root if dot < 0 else root))
        for i in range(n):
            y[p + i] = value[v + i] * gate
        if not null(normed):
            factor = inverse_root(shift(y, p), n, epsilon)
            for i in range(n):
                normed[p + i] = y[p + i] * factor * norm_scale[q + i]
    return OK


@operator("EngramGate", domain="com.microsoft", types=FLOAT)
def engram_gate(op: NodeLowering) -> None:
    """Emit the value (B, S, H) times a gate for each hyper-connection of keys (B, S, C, H). Spec: onnxruntime EngramGate-1."""
    key, query, value, key_scale, query_scale = (op.input(index) for index in range(5))
    batch, steps, count, n = key.shape
    norm_scale, normed = op.optional(5), None
    if op.wants(1):
        if norm_scale is None:
            raise op.reject("an output gated_value_normed without conv_norm_scale")
        normed = op.output(1)
    operands = [key, query, value, key_scale, query_scale, norm_scale, op.output(0), normed]
    sizes: dict[str, Any] = {"rows": batch * steps, "count": count, "n": n}
    op.emit(engram_gates, operands, **sizes, epsilon=float(op.attr("epsilon", 1e-5)), work=key.size * 6)
