"""Normalisations fused with the sum in front of them: SkipLayerNormalization, EmbedLayerNormalization and their like."""

from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import itemsize
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, REDUCE, Ptr, Static, failed, like, native, null, shift, span, sqrt
from ort_lite.shapes import equal, modulo, product
from ort_lite_cpu import primitives
from ort_lite_cpu.elementwise.expression import define
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import BY_SIZE

if TYPE_CHECKING:
    from ort_lite_cpu.failure import Failure


@native(fastmath=REDUCE)
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
def skip_normalise(
    x: Ptr, skip: Ptr, gamma: Ptr, beta: Ptr, bias: Ptr, y: Ptr, mean: Ptr, inverse: Ptr, total: Ptr, rows: int, skips: int, n: int,
    epsilon: float, centred: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y (rows, n) = normalised x + skip (skips, n), repeated, + bias (n,); beta, bias, mean, inverse may be null.

    The sum goes to `total`, which may be y.
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
def skip_layer_normalization(op: Op) -> None:
    """x and skip, which may lack the batch axis or have 1 there. Spec: onnxruntime SkipLayerNormalization-1 and Simplified."""
    centred = op.node.op_type == "SkipLayerNormalization"
    x, skip, gamma = (op.input(index) for index in range(3))
    beta, bias = (op.optional(3), op.optional(4)) if centred else (None, op.optional(3))
    n, rows, skips = x.shape[-1], product(x.shape[:-1]), product(skip.shape[:-1])
    op.agree((n, n), (skip.shape[-1], gamma.size), "x, skip and gamma differ in size")
    op.require(equal(modulo(rows, skips), 0), "{0} rows of skip do not repeat to {1}", skips, rows)
    y = op.output(0)
    mean, inverse = (op.output(k) if op.wants(k) else None for k in (1, 2))
    total = op.output(3) if op.wants(3) else y
    operands = [x, skip, gamma, beta, bias, y, mean, inverse, total]
    native, statistic = x.native, "f32"
    op.emit(
        skip_normalise, operands, rows, skips, n, float(op.attr("epsilon", 1e-12)),
        types=[*[native] * 6, statistic, statistic, native], statics={"centred": centred}, work=x.size,
    )  # fmt: skip


# --- Embeddings
@native
def embed(
    ids: Ptr, segments: Ptr, positions: Ptr, words: Ptr, places: Ptr, kinds: Ptr, gamma: Ptr, beta: Ptr, y: Ptr, total: Ptr,
    batch: int, steps: int, n: int, word_count: int, place_count: int, kind_count: int, position_rows: int, epsilon: float,
    part: int, parts: int,
) -> int:  # fmt: skip
    """y (batch, steps, n) = normalised words[ids] + places[positions] + kinds[segments]; segments may be null, positions too."""
    for row in span(batch * steps, part, parts):
        word = int(ids[row])
        place = row % steps
        if not null(positions):
            place = int(positions[row if position_rows > 1 else place])
        kind = 0 if null(segments) else int(segments[row])
        if word < 0 or word >= word_count or place < 0 or place >= place_count or kind < 0 or kind >= kind_count:
            return failed(INDEX_OUT_OF_RANGE, row)
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
def count_ones(mask: Ptr, y: Ptr, batch: int, steps: int, part: int, parts: int) -> int:
    """y[b] = how many of mask[b, :] are 1."""
    for b in span(batch, part, parts):
        count = 0
        for i in range(steps):
            count += 1 if mask[b * steps + i] == 1 else 0
        y[b] = like(y, count)
    return OK


@operator("EmbedLayerNormalization", domain="com.microsoft", types=REAL, typed_by=2)
def embed_layer_normalization(op: Op) -> None:
    """ids (B, S) -> (B, S, H); how many steps a mask leaves; the sum. Spec: onnxruntime EmbedLayerNormalization-1."""
    ids, segments, positions = op.input(0), op.optional(1), op.optional(8)
    words, places, kinds, gamma, beta = op.input(2), op.input(3), op.optional(4), op.input(5), op.input(6)
    batch, steps = ids.shape
    y = op.output(0)
    total = op.output(2) if op.wants(2) else y
    segments = segments if kinds is not None else None
    native = words.native
    op.emit(
        embed, [ids, segments, positions, words, places, kinds, gamma, beta, y, total], batch, steps, words.shape[1],
        words.shape[0], places.shape[0], 1 if kinds is None else kinds.shape[0], 1 if positions is None else positions.shape[0],
        float(op.attr("epsilon", 1e-12)), types=["i32"] * 3 + [native] * 7, work=y.size * 2,
        message=_no_embedding,
    )  # fmt: skip
    if op.wants(1):
        _mask_index(op)


def _no_embedding(failure: "Failure") -> str:
    """Of the three ids of a row the first that has no place in its table."""
    steps, words, places, kinds, rows = (failure.scalar(k) for k in (1, 3, 4, 5, 6))
    word, step = failure.element(0), failure.at % steps
    if not 0 <= word < words:
        return failure.outside("id", 0, 0, words)
    if failure.given(1) and not 0 <= failure.element(1) < kinds:
        return failure.outside("segment id", 1, 0, kinds)
    if failure.given(2):
        return failure.outside("position", 2, 0, places, 8, failure.at if rows > 1 else step)
    return f"there are {steps} steps, and {places} positions in {failure.name(3)!r}"


def _mask_index(op: Op) -> None:
    """Output 1: what of each row counts; 0 without a mask."""
    index = op.output(1)
    if op.has(7):
        mask = op.input(7)
        op.emit(count_ones, [mask, index], *mask.shape, work=mask.size)
        return
    import numpy as np

    zero = op.array(np.zeros(1, np.int32))
    op.emit(primitives.fill, [zero, index], index.size, types=[BY_SIZE[itemsize(index.dtype)]] * 2)


# --- Activations with a bias
_GELU = "like({0}, 0.5) * ({0} + {1}) * (like({0}, 1) + erf(({0} + {1}) * like({0}, 0.7071067811865476)))"


@operator("BiasGelu", domain="com.microsoft", types=REAL)
def bias_gelu(op: Op) -> None:
    """Gelu of x + bias. Spec: onnxruntime BiasGelu-1."""
    define(op, _GELU, [op.raw(0), op.raw(1)], cost=1.7)


@operator("FastGelu", domain="com.microsoft", types=REAL)
def fast_gelu(op: Op) -> None:
    """Gelu by a tanh of x + bias. Spec: onnxruntime FastGelu-1."""
    x = "({0} + {1})" if op.has(1) else "{0}"
    inner = f"{x} * (like({{0}}, 0.7978845608028654) + like({{0}}, 0.035677408136300125) * {x} * {x})"
    formula = f"like({{0}}, 0.5) * {x} * (like({{0}}, 1) + tanh({inner}))"
    define(op, formula, [op.raw(k) for k in range(2) if op.has(k)], cost=1.7)
