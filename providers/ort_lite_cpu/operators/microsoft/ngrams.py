"""Hashes of n-grams in com.microsoft: numbers of table rows for each token and the tokens before it."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    failure_status,
    ifloormod,
    imin,
    like,
    native,
    null,
    span,
    wadd,
    wmul,
)
from ort_lite.shapes import equal, less, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.microsoft.gated_delta_net import LARGEST_CAPACITY, misfit, range_of
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


class NGramSizes(NamedTuple):
    """Sizes: requests of tokens, the longest n-gram, and the hashes of each of its lengths from 2 on."""

    requests: int
    tokens: int
    length: int
    """The tokens of each request, where there are no offsets."""
    longest: int
    heads: int
    capacity: int
    """The states that are kept of each request."""
    pad: int
    reset: int
    """1 if tokens before the end of a text do not count."""


@native
@extents(
    ids="g.tokens",
    factors="g.longest",
    vocabularies="(g.longest - 1) * g.heads",
    offsets="g.requests + 1",
    past="g.requests * (g.longest - 1)",
    shifts="(g.longest - 1) * g.heads",
    stop="1",
    segments="g.tokens",
    past_segments="g.requests * (g.longest - 1)",
    y="g.tokens * (g.longest - 1) * g.heads",
)
def hash_ngrams(
    ids: Ptr,
    factors: Ptr,
    vocabularies: Ptr,
    offsets: Ptr,
    past: Ptr,
    shifts: Ptr,
    stop: Ptr,
    segments: Ptr,
    past_segments: Ptr,
    y: Ptr,
    g: NGramSizes,
    part: int,
    parts: int,
) -> int:
    """y (tokens, longest - 1, heads) = (exclusive or of the last n ids, each times its factor) modulo a vocabulary, plus a shift.

    A failure is at the number of a vocabulary, or behind those at the number of a request.
    Requests are `offsets` (requests + 1,) of the ids, or `length` ids each without them. Ids before a request come from its `past`
    (requests, longest - 1). Those before a `stop` or of another segment are replaced with it, or with the pad without one.
    """
    before, width = g.longest - 1, (g.longest - 1) * g.heads
    fill = like(ids, g.pad) if null(stop) else stop[0]
    for head in range(width):
        if vocabularies[head] <= 0:
            return failure_status(INDEX_OUT_OF_RANGE, head)
    for request in span(g.requests, part, parts):
        start, end = range_of(offsets, request, g.requests, g.tokens, g.length)
        if end <= start and not null(offsets):
            return failure_status(INDEX_OUT_OF_RANGE, width + request)
        for t in range(start, end):
            mixed, cut = wmul(ids[t], factors[0]), False
            for k in range(1, g.longest):
                at, behind = t - k, request * before + before + t - k - start
                if not cut and not null(segments):
                    if at >= start:
                        cut = segments[at] != segments[at + 1]
                    elif not null(past_segments):
                        cut = past_segments[behind] != (segments[start] if at == start - 1 else past_segments[behind + 1])
                found = fill
                if not cut and at >= start:
                    found = ids[at]
                elif not cut and not null(past):
                    found = past[behind]
                if g.reset == 1 and found == fill:
                    cut = True
                mixed = mixed ^ wmul(found, factors[k])
                for head in range((k - 1) * g.heads, k * g.heads):
                    rest = ifloormod(mixed, vocabularies[head])
                    y[t * width + head] = rest if null(shifts) else wadd(rest, shifts[head])
    return OK


@native
@extents(
    x="g.tokens",
    offsets="g.requests + 1",
    past="g.requests * (g.longest - 1)",
    stop="1",
    counts="g.requests",
    state="g.requests * (g.longest - 1)",
    captured="g.requests * g.capacity * (g.longest - 1)",
)
def keep_ngrams(
    x: Ptr,
    offsets: Ptr,
    past: Ptr,
    stop: Ptr,
    counts: Ptr,
    state: Ptr,
    captured: Ptr,
    g: NGramSizes,
    repeats: Static,
    part: int,
    parts: int,
) -> int:
    """state (requests, longest - 1) = the last of the past and of the numbers x of each request.

    captured (requests, capacity, longest - 1): the same after each of the first numbers, as many as `counts` says; then the pad.
    Both may be null. A past that is null is the end of texts or the pad; repeats: it is the first number of the request. `hash_ngrams`
    has checked the offsets.
    """
    before = g.longest - 1
    fill = like(x, g.pad) if null(stop) else stop[0]
    for request in span(g.requests, part, parts):
        start, end = range_of(offsets, request, g.requests, g.tokens, g.length)
        if end < start:
            return failure_status(INDEX_OUT_OF_RANGE, request)
        for slot in range(-1, g.capacity):
            last, row = end, request * before
            if slot >= 0:
                last, row = start + slot + 1, (request * g.capacity + slot) * before
            kept = slot < 0 or slot < imin(int(counts[request]), end - start)
            for i in range(before):
                at = last - before + i
                found = like(x, g.pad)
                if kept and at >= start:
                    found = x[at]
                elif kept and not null(past):
                    found = past[request * before + before + at - start]
                elif kept:
                    found = x[start] if repeats else fill
                if slot >= 0:
                    captured[row + i] = found
                elif not null(state):
                    state[row + i] = found
    return OK


@operator("NGramHashMapping", "VarlenNGramHashMapping", domain="com.microsoft", types=frozenset({"int32", "int64"}))
def ngram_hash_mapping(op: NodeLowering) -> None:
    """Emit hashes of the n-grams that end at each token. Spec: onnxruntime NGramHashMapping-1, VarlenNGramHashMapping-1."""
    packed = op.node.op_type == "VarlenNGramHashMapping"
    longest, heads, capacity = op.attr("max_ngram_size"), op.attr("n_head_per_ngram"), op.attr("state_update_capacity", 0)
    if longest < 2 or heads < 1 or not 0 <= capacity <= LARGEST_CAPACITY:
        raise op.reject(f"max_ngram_size {longest}, n_head_per_ngram {heads}, state_update_capacity {capacity}")
    ids, factors, vocabularies = (op.input(index) for index in range(3))
    op.require(1 - less(factors.size, longest), "{0} multipliers, expected {1} or more", factors.size, longest)
    op.agree(vocabularies.shape, ((longest - 1) * heads,), "the vocabularies do not fit")
    offsets = op.input(3) if packed else None
    past, shifts, stop, segments = (op.optional(index) for index in range(3 + packed, 7 + packed))
    past_segments, counts = (op.optional(8), op.optional(9)) if packed else (None, None)
    requests, length = (offsets.shape[0] - 1, 0) if offsets is not None else ids.shape
    for operand in (past, past_segments):
        if operand is not None:
            op.agree(operand.shape, (requests, longest - 1), "the past does not fit")
    if (counts is None) != (capacity == 0):
        raise op.reject(f"state_update_capacity {capacity} {'without' if counts is None else 'with'} capture_count")
    op.require(select(equal(requests, 0), equal(ids.size, 0), 1), "{0} tokens of no request", ids.size)
    reset = int(stop is not None and op.attr("reset_on_eos", 0) != 0)
    sizes: Any = (requests, ids.size, length, longest, heads, capacity, op.attr("pad_id"), reset)
    g = NGramSizes(*sizes)
    operands = [ids, factors, vocabularies, offsets, past, shifts, stop, segments, past_segments, op.output(0)]
    op.emit(hash_ngrams, operands, g=g, work=ids.size * longest * (4 + 6 * heads), message=_misfit)
    _emit_states(op, g, ids, (offsets, past, stop, counts))
    if packed and op.wants(2):
        if segments is None:
            raise op.reject("an output present_segment_ids without segment_ids")
        states = [segments, offsets, past_segments, None, None, op.output(2), None]
        op.emit(keep_ngrams, states, g=g._replace(capacity=0), repeats=True, work=requests * longest)


def _emit_states(op: NodeLowering, g: NGramSizes, ids: Tensor, given: tuple[Tensor | None, ...]) -> None:
    captured = op.output(3) if op.wants(3) else None
    if op.wants(1) or captured is not None:
        state = op.output(1) if op.wants(1) else None
        kept = g if captured is not None else g._replace(capacity=0)
        work: Dim = g.requests * g.longest
        op.emit(keep_ngrams, [ids, *given, state, captured], g=kept, repeats=False, work=work)


def _misfit(failure: "Failure") -> str:
    width = (failure.scalar("g.longest") - 1) * failure.scalar("g.heads")
    if failure.at < width:
        return f"vocab_sizes[{failure.at}] is {failure.element(2, failure.at)}, expected a positive number"
    return misfit(3, "one or more tokens, in order", failure, width)
