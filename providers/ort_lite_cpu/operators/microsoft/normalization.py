"""Normalisations fused with the sum in front of them: SkipLayerNormalization, EmbedLayerNormalization and their like."""

from typing import TYPE_CHECKING, Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    SUMS,
    Ptr,
    Static,
    failure_status,
    like,
    native,
    null,
    read_once,
    shift,
    span,
    sqrt,
)
from ort_lite.shapes import equal, less, modulo, product, select
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


@native(fastmath=SUMS)
def normalise_row(s: Ptr, y: Ptr, gamma: Ptr, beta: Ptr, n: int, epsilon: float, centred: Static) -> tuple[Any, Any]:
    """y = (s - mean) / sqrt(variance + epsilon) * gamma + beta; returns mean and inverse deviation. centred False: no mean."""
    centre = like(s, 0)
    if centred:
        for i in range(n):
            centre += s[i]
        centre = centre / like(s, n)
    total = like(s, 0)
    for i in range(n):
        d = s[i] - centre
        total += d * d
    factor = like(s, 1) / sqrt(total / like(s, n) + like(s, epsilon))
    if null(beta):
        for i in range(n):
            y[i] = (s[i] - centre) * factor * gamma[i]
    else:
        for i in range(n):
            y[i] = (s[i] - centre) * factor * gamma[i] + beta[i]
    return centre, factor


@native
@extents(
    x="rows * n",
    skip="skips * n",
    gamma="n",
    beta="n",
    bias="n",
    y="rows * n",
    mean="rows",
    inverse="rows",
    total="rows * n",
)
def skip_normalise(
    x: Ptr,
    skip: Ptr,
    gamma: Ptr,
    beta: Ptr,
    bias: Ptr,
    y: Ptr,
    mean: Ptr,
    inverse: Ptr,
    total: Ptr,
    rows: int,
    skips: int,
    n: int,
    epsilon: float,
    centred: Static,
    part: int,
    parts: int,
) -> int:
    """y (rows, n) = normalised x + skip (skips, n), repeated, + bias (n,); beta, bias, mean, inverse may be null.

    The sum goes to `total`, which may be y. skips is positive where rows is: `skip_layer_normalization`.
    """
    for row in span(rows, part, parts):
        p, q = row * n, row % skips * n
        if null(bias):
            for i in range(n):
                total[p + i] = x[p + i] + skip[q + i]
        else:
            for i in range(n):
                total[p + i] = x[p + i] + skip[q + i] + bias[i]
        centre, factor = normalise_row(shift(total, p), shift(y, p), gamma, beta, n, epsilon, centred)
        if not null(mean):
            mean[row] = centre
        if not null(inverse):
            inverse[row] = factor
    return OK


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft", types=REAL)
def skip_layer_normalization(op: NodeLowering) -> None:
    """x and skip, which may lack the batch axis or have 1 there. Spec: onnxruntime SkipLayerNormalization-1 and Simplified."""
    centred = op.node.op_type == "SkipLayerNormalization"
    x, skip, gamma = (op.input(index) for index in range(3))
    beta, bias = (op.optional(3), op.optional(4)) if centred else (None, op.optional(3))
    if not x.shape or not skip.shape:
        raise op.reject(f"an input of rank {len(x.shape)}, skip of rank {len(skip.shape)}")
    n, rows, skips = x.shape[-1], product(x.shape[:-1]), product(skip.shape[:-1])
    op.agree((n, n), (skip.shape[-1], gamma.size), "x, skip and gamma differ in size")
    for vector in (beta, bias):
        op.agree([n], [n if vector is None else vector.size], "x, beta and bias differ in size")
    repeats = select(equal(rows, 0), 1, less(0, skips) * equal(modulo(rows, skips), 0))
    op.require(repeats, "{0} rows of skip do not repeat to {1}", skips, rows)
    y = op.output(0)
    mean, inverse = (op.output(k) if op.wants(k) else None for k in (1, 2))
    total = op.output(3) if op.wants(3) else y
    operands = [x, skip, gamma, beta, bias, y, mean, inverse, total]
    epsilon = float(op.attr("epsilon", 1e-12))
    op.emit(skip_normalise, operands, rows=rows, skips=skips, n=n, epsilon=epsilon, centred=centred, work=x.size)


# --- Embeddings
@native
@extents(
    ids="batch * steps",
    segments="batch * steps",
    positions="select(less(1, position_rows), batch * steps, min(batch, 1) * steps)",
    words="word_count * n",
    places="place_count * n",
    kinds="kind_count * n",
    gamma="n",
    beta="n",
    y="batch * steps * n",
    total="batch * steps * n",
)
def embed(
    ids: Ptr,
    segments: Ptr,
    positions: Ptr,
    words: Ptr,
    places: Ptr,
    kinds: Ptr,
    gamma: Ptr,
    beta: Ptr,
    y: Ptr,
    total: Ptr,
    batch: int,
    steps: int,
    n: int,
    word_count: int,
    place_count: int,
    kind_count: int,
    position_rows: int,
    epsilon: float,
    part: int,
    parts: int,
) -> int:
    """y (batch, steps, n) = normalised words[ids] + places[positions] + kinds[segments]; segments may be null, positions too."""
    for row in span(batch * steps, part, parts):
        word = int(read_once(ids, row))
        place = row % steps
        if not null(positions):
            place = int(read_once(positions, row if position_rows > 1 else place))
        kind = 0 if null(segments) else int(read_once(segments, row))
        if word < 0 or word >= word_count or place < 0 or place >= place_count or kind < 0 or kind >= kind_count:
            return failure_status(INDEX_OUT_OF_RANGE, row)
        p, w, q = row * n, word * n, place * n
        if null(segments):
            for i in range(n):
                total[p + i] = words[w + i] + places[q + i]
        else:
            for i in range(n):
                total[p + i] = words[w + i] + places[q + i] + kinds[kind * n + i]
        normalise_row(shift(total, p), shift(y, p), gamma, beta, n, epsilon, True)
    return OK


@native
@extents(mask="batch * steps", y="batch")
def count_ones(mask: Ptr, y: Ptr, batch: int, steps: int, part: int, parts: int) -> int:
    """y[b] = how many of mask[b, :] are 1."""
    for b in span(batch, part, parts):
        count = 0
        for i in range(steps):
            count += 1 if mask[b * steps + i] == 1 else 0
        y[b] = like(y, count)
    return OK


@operator("EmbedLayerNormalization", domain="com.microsoft", types=REAL, typed_by=2)
def embed_layer_normalization(op: NodeLowering) -> None:
    """ids (B, S) -> (B, S, H); how many steps a mask leaves; the sum. Spec: onnxruntime EmbedLayerNormalization-1."""
    ids, segments, positions = op.input(0), op.optional(1), op.optional(8)
    words, places, kinds, gamma, beta = op.input(2), op.input(3), op.optional(4), op.input(5), op.input(6)
    _require_embeddings(op)
    batch, steps = ids.shape
    y = op.output(0)
    total = op.output(2) if op.wants(2) else y
    segments = segments if kinds is not None else None
    operands = [ids, segments, positions, words, places, kinds, gamma, beta, y, total]
    types = ["i32"] * 3 + [words.native] * 7
    given: dict[str, Any] = {"batch": batch, "steps": steps, "n": words.shape[1], "epsilon": float(op.attr("epsilon", 1e-12))}
    given |= {"word_count": words.shape[0], "place_count": places.shape[0]}
    given |= {"kind_count": 1 if kinds is None else kinds.shape[0]}
    given |= {"position_rows": 1 if positions is None else positions.shape[0]}
    op.emit(embed, operands, **given, types=types, work=y.size * 2, message=_no_embedding)
    if op.wants(1):
        _mask_index(op)


def _require_embeddings(op: NodeLowering) -> None:
    """The tables, and what is added to them, have rows of one length; what goes with the ids has their shape."""
    ids, n = op.raw(0).shape, op.raw(2).shape[1:]
    if len(n) != 1:
        raise op.reject(f"word embeddings of rank {1 + len(n)}; it should be 2")
    for index, name in ((1, "segment ids"), (7, "mask")):
        if op.has(index):
            op.agree(op.raw(index).shape, ids, f"ids and {name} differ in shape")
    for index, count in ((3, op.raw(3).shape[:1]), (4, op.raw(4).shape[:1] if op.has(4) else ()), (5, ()), (6, ())):
        if op.has(index):
            op.agree(op.raw(index).shape, (*count, *n), f"word embeddings and input {index} differ in length")
    if op.has(8):
        rows = (op.raw(8).shape or ids)[0]
        op.agree(op.raw(8).shape, (select(equal(rows, 1), 1, ids[0]), ids[1]), "ids and position ids differ in shape")


def _no_embedding(failure: "Failure") -> str:
    """Return the first of a row's three ids that has no place in its table."""
    steps, words, places, kinds, rows = map(
        failure.scalar, ("steps", "word_count", "place_count", "kind_count", "position_rows")
    )
    word, step = failure.element(0), failure.at % steps
    if not 0 <= word < words:
        return failure.outside("id", 0, 0, words)
    if failure.has_operand(1) and not 0 <= failure.element(1) < kinds:
        return failure.outside("segment id", 1, 0, kinds)
    if failure.has_operand(2):
        return failure.outside("position", 2, 0, places, 8, failure.at if rows > 1 else step)
    return f"there are {steps} steps, and {places} positions in {failure.name(3)!r}"


def _mask_index(op: NodeLowering) -> None:
    """Output 1: what of each row counts; 0 without a mask."""
    index = op.output(1)
    if op.has(7):
        mask = op.input(7)
        batch, steps = mask.shape
        op.emit(count_ones, [mask, index], batch=batch, steps=steps, work=mask.size)
        return
    import numpy as np

    zero = op.array(np.zeros(1, np.int32))
    op.emit(primitives.fill, [bits(zero), bits(index)], count=index.size)


# --- Activations with a bias
_GELU = "like({0}, 0.5) * ({0} + {1}) * (like({0}, 1) + erf(({0} + {1}) * like({0}, 0.7071067811865476)))"


@operator("BiasGelu", domain="com.microsoft", types=REAL)
def bias_gelu(op: NodeLowering) -> None:
    """Gelu of x + bias. Spec: onnxruntime BiasGelu-1."""
    define(op, _GELU, [op.raw(0), op.raw(1)], cost=1.7)


@operator("FastGelu", domain="com.microsoft", types=REAL)
def fast_gelu(op: NodeLowering) -> None:
    """Gelu by a tanh of x + bias, as a sigmoid: (1 + tanh(u)) / 2 would lose the digits of the tail. Spec: onnxruntime FastGelu-1."""
    x = "({0} + {1})" if op.has(1) else "{0}"
    formula = f"{x} * sigmoid({x} * fma(like({{0}}, 0.07135481627260025) * {x}, {x}, like({{0}}, 1.5957691216057308)))"
    define(op, formula, [op.raw(k) for k in range(2) if op.has(k)], cost=1.7)
