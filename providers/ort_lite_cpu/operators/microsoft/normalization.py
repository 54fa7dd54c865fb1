"""Normalisations fused with the sum in front of them: SkipLayerNormalization, EmbedLayerNormalization and their like."""

from typing import TYPE_CHECKING, Any, NamedTuple

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
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering
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


class SkipShape(NamedTuple):
    """The sizes of x (rows, n) and of skip (skips, n), whose rows repeat."""

    rows: int
    skips: int
    n: int


@native
@extents(
    x="g.rows * g.n",
    skip="g.skips * g.n",
    gamma="g.n",
    beta="g.n",
    bias="g.n",
    y="g.rows * g.n",
    mean="g.rows",
    inverse="g.rows",
    total="g.rows * g.n",
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
    g: SkipShape,
    epsilon: float,
    centred: Static,
    part: int,
    parts: int,
) -> int:
    """y (rows, n) = normalised x + skip (skips, n), repeated, + bias (n,); beta, bias, mean, inverse may be null.

    The sum goes to `total`, which may be y. skips is positive where rows is: `skip_layer_normalization`.
    """
    n = g.n
    for row in span(g.rows, part, parts):
        p, q = row * n, row % g.skips * n
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
    """Normalize x + skip, which may lack the batch axis or have 1 there. Spec: onnxruntime SkipLayerNormalization-1 and Simplified."""
    centred = op.node.op_type == "SkipLayerNormalization"
    x, skip, gamma = (op.input(index) for index in range(3))
    beta, bias = (op.optional(3), op.optional(4)) if centred else (None, op.optional(3))
    n, rows, skips = x.shape[-1], product(x.shape[:-1]), product(skip.shape[:-1])
    repeats = select(equal(rows, 0), 1, less(0, skips) * equal(modulo(rows, skips), 0))
    op.require(repeats, "{0} rows of skip do not repeat to {1}", skips, rows)
    y = op.output(0)
    mean, inverse = (op.output(k) if op.wants(k) else None for k in (1, 2))
    total = op.output(3) if op.wants(3) else y
    operands = [x, skip, gamma, beta, bias, y, mean, inverse, total]
    epsilon = float(op.attr("epsilon", 1e-12))
    sizes: Any = (rows, skips, n)
    op.emit(skip_normalise, operands, g=SkipShape(*sizes), epsilon=epsilon, centred=centred, work=x.size)


# --- Embeddings
class Embeddings(NamedTuple):
    """The sizes of ids (batch, steps), and the numbers of rows of the tables, which have n columns."""

    batch: int
    steps: int
    n: int
    words: int
    places: int
    kinds: int
    position_rows: int
    """Rows of position ids; a single one serves the whole batch."""


@native
@extents(
    ids="g.batch * g.steps",
    segments="g.batch * g.steps",
    positions="select(less(1, g.position_rows), g.batch * g.steps, min(g.batch, 1) * g.steps)",
    words="g.words * g.n",
    places="g.places * g.n",
    kinds="g.kinds * g.n",
    gamma="g.n",
    beta="g.n",
    y="g.batch * g.steps * g.n",
    total="g.batch * g.steps * g.n",
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
    g: Embeddings,
    epsilon: float,
    part: int,
    parts: int,
) -> int:
    """y (batch, steps, n) = normalised words[ids] + places[positions] + kinds[segments]; segments may be null, positions too."""
    n = g.n
    for row in span(g.batch * g.steps, part, parts):
        word = int(read_once(ids, row))
        place = row % g.steps
        if not null(positions):
            place = int(read_once(positions, row if g.position_rows > 1 else place))
        kind = 0 if null(segments) else int(read_once(segments, row))
        if word < 0 or word >= g.words or place < 0 or place >= g.places or kind < 0 or kind >= g.kinds:
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
    """y (batch,) = the number of ones in each row of mask (batch, steps)."""
    for b in span(batch, part, parts):
        count = 0
        for i in range(steps):
            count += 1 if mask[b * steps + i] == 1 else 0
        y[b] = like(y, count)
    return OK


@operator("EmbedLayerNormalization", domain="com.microsoft", types=REAL, typed_by=2)
def embed_layer_normalization(op: NodeLowering) -> None:
    """Map ids (B, S) to (B, S, H), the number of steps that a mask leaves, and the sum. Spec: onnxruntime EmbedLayerNormalization-1."""
    ids, segments, positions = op.input(0), op.optional(1), op.optional(8)
    words, places, kinds, gamma, beta = op.input(2), op.input(3), op.optional(4), op.input(5), op.input(6)
    y = op.output(0)
    total = op.output(2) if op.wants(2) else y
    segments = segments if kinds is not None else None
    operands = [ids, segments, positions, words, places, kinds, gamma, beta, y, total]
    types = ["i32"] * 3 + [words.native] * 7
    kind_rows, position_rows = (1 if table is None else table.shape[0] for table in (kinds, positions))
    sizes: Any = (*ids.shape, words.shape[1], words.shape[0], places.shape[0], kind_rows, position_rows)
    shape, epsilon = Embeddings(*sizes), float(op.attr("epsilon", 1e-12))
    op.emit(embed, operands, g=shape, epsilon=epsilon, types=types, work=y.size * 2, message=_no_embedding)
    if op.wants(1):
        emit_mask_index(op)


def _no_embedding(failure: "Failure") -> str:
    """Return the first of a row's three ids that has no place in its table."""
    _, steps, _, words, places, kinds, rows = (failure.scalar(f"g.{name}") for name in Embeddings._fields)
    word, step = failure.element(0), failure.at % steps
    if not 0 <= word < words:
        return failure.outside("id", 0, 0, words)
    if failure.has_operand(1) and not 0 <= failure.element(1) < kinds:
        return failure.outside("segment id", 1, 0, kinds)
    if failure.has_operand(2):
        return failure.outside("position", 2, 0, places, 8, failure.at if rows > 1 else step)
    return f"there are {steps} steps, and {places} positions in {failure.name(3)!r}"


def emit_mask_index(op: NodeLowering) -> None:
    """Emit output 1: the number of steps of each row that count; 0 without a mask."""
    index = op.output(1)
    if op.has(7):
        mask = op.input(7)
        batch, steps = mask.shape
        op.emit(count_ones, [mask, index], batch=batch, steps=steps, work=mask.size)
        return
    from ort_lite_cpu.operators.fill import emit_fill

    emit_fill(op, index, 0)


# --- Activations with a bias
_GELU = "like({0}, 0.5) * ({0} + {1}) * (like({0}, 1) + erf(({0} + {1}) * like({0}, 0.7071067811865476)))"


@operator("BiasGelu", domain="com.microsoft", types=REAL)
def bias_gelu(op: NodeLowering) -> None:
    """Compute Gelu of x + bias. Spec: onnxruntime BiasGelu-1."""
    define(op, _GELU, [op.raw(0), op.raw(1)], cost=0.4)


@operator("FastGelu", domain="com.microsoft", types=REAL)
def fast_gelu(op: NodeLowering) -> None:
    """Compute Gelu by a tanh of x + bias, as a sigmoid: (1 + tanh(u)) / 2 loses digits of the tail. Spec: onnxruntime FastGelu-1."""
    x = "({0} + {1})" if op.has(1) else "{0}"
    formula = f"{x} * sigmoid({x} * fma(like({{0}}, 0.07135481627260025) * {x}, {x}, like({{0}}, 1.5957691216057308)))"
    define(op, formula, [op.raw(k) for k in range(2) if op.has(k)], cost=0.4)
