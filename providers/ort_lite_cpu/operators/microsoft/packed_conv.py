"""VarlenCausalConvWithState of com.microsoft: a causal convolution of requests that are packed one behind the other."""

from functools import partial
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    SUMS,
    Ptr,
    Static,
    failure_status,
    imin,
    like,
    native,
    null,
    sigmoid,
    span,
)
from ort_lite.shapes import equal, select
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.linear_attention import LONGEST, TAP
from ort_lite_cpu.operators.microsoft.gated_delta_net import LARGEST_CAPACITY, misfit, range_of
from ort_lite_cpu.registry import operator


class PackedConvSizes(NamedTuple):
    """Sizes: requests of tokens with channels, taps, and the steps from one tap to the next."""

    requests: int
    tokens: int
    channels: int
    taps: int
    dilation: int
    capacity: int
    """The tokens of each request that are kept."""


@native(fastmath=SUMS)
@extents(
    x="g.tokens * g.channels",
    w="g.channels * g.taps",
    offsets="g.requests + 1",
    bias="g.channels",
    past="g.requests * g.channels * (g.taps - 1) * g.dilation",
    counts="g.requests",
    y="g.tokens * g.channels",
    state="g.requests * g.channels * (g.taps - 1) * g.dilation",
    captured="g.requests * g.capacity * g.channels",
)
def convolve_packed(
    x: Ptr,
    w: Ptr,
    offsets: Ptr,
    bias: Ptr,
    past: Ptr,
    counts: Ptr,
    y: Ptr,
    state: Ptr,
    captured: Ptr,
    g: PackedConvSizes,
    silu: Static,
    part: int,
    parts: int,
) -> int:
    """y (tokens, channels) = bias + the sum over taps j of w[c, j] * p[i + j * dilation], p being a request's past and its tokens.

    state (requests, channels, before): the last of p. captured (requests, capacity, channels): the first tokens, as many as `counts`
    says, then zeros. silu: times the sigmoid. bias, captured and counts may be null. Requests are `offsets` of the tokens.
    """
    channels, before = g.channels, (g.taps - 1) * g.dilation
    for request in span(g.requests, part, parts):
        start, end = range_of(offsets, request, g.requests, g.tokens, 0)
        if end < start:
            return failure_status(INDEX_OUT_OF_RANGE, request)
        for t in range(start, end):
            p = t * channels
            for c in range(channels):
                y[p + c] = like(y, 0) if null(bias) else bias[c]
            for j in range(g.taps):
                at = t - before + j * g.dilation
                if at >= start:
                    for c in range(channels):
                        y[p + c] += w[c * g.taps + j] * x[at * channels + c]
                else:
                    for c in range(channels):
                        y[p + c] += w[c * g.taps + j] * past[(request * channels + c) * before + before + at - start]
            if silu:
                for c in range(channels):
                    y[p + c] *= sigmoid(y[p + c])
        for c in range(channels):
            s = (request * channels + c) * before
            for i in range(before):
                at = end - before + i
                state[s + i] = x[at * channels + c] if at >= start else past[s + before + at - start]
        for slot in range(g.capacity):
            kept = slot < imin(int(counts[request]), end - start)
            for c in range(channels):
                found = x[(start + slot) * channels + c] if kept else like(x, 0)
                captured[(request * g.capacity + slot) * channels + c] = found
    return OK


@operator("VarlenCausalConvWithState", domain="com.microsoft", types=frozenset({"float32"}))
def varlen_causal_conv_with_state(op: NodeLowering) -> None:
    """Emit the convolution of packed tokens (T, C) by kernels (C, 1, k). Spec: onnxruntime VarlenCausalConvWithState-1.

    onnxruntime's kernel for CPUs takes no deltas of kernels either.
    """
    kind, dilation, capacity = op.attr("activation", "none"), op.attr("dilation", 1), op.attr("state_update_capacity", 0)
    if kind not in ("none", "silu", "swish") or not 1 <= dilation < LONGEST or not 0 <= capacity <= LARGEST_CAPACITY:
        raise op.reject(f"activation {kind!r}, dilation {dilation}, state_update_capacity {capacity}")
    if op.has(6) or op.has(7):
        raise op.reject("kernel_delta and previous_mask")
    if op.has(5) != (capacity > 0):
        raise op.reject(f"state_update_capacity {capacity} {'with' if op.has(5) else 'without'} capture_count")
    x, w, offsets, bias, past = op.input(0), op.input(1), op.input(2), op.optional(3), op.input(4)
    tokens, channels = x.shape
    requests, taps = offsets.shape[0] - 1, w.shape[2]
    op.agree(past.shape, (requests, channels, (taps - 1) * dilation), "the state does not fit the kernels")
    op.require(select(equal(requests, 0), equal(tokens, 0), 1), "{0} tokens of no request", tokens)
    kept = op.wants(2) and capacity > 0
    state = op.output(1) if op.wants(1) else op.temporary("float32", past.shape)
    operands = [x, w, offsets, bias, past, op.input(5) if kept else None, op.output(0), state, op.output(2) if kept else None]
    sizes: Any = (requests, tokens, channels, taps, dilation, capacity if kept else 0)
    work = linear_work(x.size * taps, TAP)
    message = partial(misfit, 2, "ranges in order")
    op.emit(convolve_packed, operands, g=PackedConvSizes(*sizes), silu=kind != "none", work=work, message=message)
