"""The kernels of attention: its operands, predicted costs, and the choice by the number of query rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ort_lite.record import Record
from ort_lite.shapes import ceildiv, equal, floordiv, less, maximum, minimum, same, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import RATE, nominal
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.kernels.gemm.attention_rows import row_vectors
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.softmax import vectors_for
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor

RATE_IN_PLACE, READ = 45, 8
"""The products of a nanosecond with keys and values in place, and the elements of those that are read in one."""
SOFTMAX = 26
"""The products that take as long as the softmax takes for one score."""
PACK = 5
"""The packed elements of keys and values in two nanoseconds."""
SKIP = 100
"""The nanoseconds of the calls that are skipped where the number of rows decides when the model runs."""


class Heads(Record):
    """A tensor in memory as (batch, heads, rows, size), `size` contiguous, the other axes at their steps from `at`."""

    tensor: Tensor
    shape: Shape
    steps: tuple[Dim, Dim, Dim]
    at: Dim = 0

    @property
    def place(self) -> tuple[Dim, Dim, Dim, Dim]:
        """The tensor's offset and strides."""
        return self.at, *self.steps


class Mask(Record):
    """The attention mask: values added to the scores, or bools that select them. Columns beyond its width are masked."""

    tensor: Tensor | None = None
    steps: Sequence[Dim] = (0, 0, 0)
    columns: Dim = (1 << 62) - 1

    @property
    def kind(self) -> int:
        """The mask's kind, as kernels number them."""
        if self.tensor is None:
            return kernels.NO_MASK
        return kernels.BOOLS if self.tensor.dtype == "bool" else kernels.ADDENDS


_HALVES = ("", "float16", "bfloat16")
"""Types by the numbers that kernels take: NO_HALF, FLOAT16, BFLOAT16."""


class AttentionOptions(Record):
    """The options of attention, apart from its operands; see the kernels' `ScoreRules`."""

    scale: float = 0.0
    """0: 1 / sqrt(head size)."""
    softcap: float = 0.0
    left: int = -1
    right: int = -1
    past: Dim = 0
    """Keys before the first query; -1: the last keys of a batch with a length belong to the queries; PLACED: a table has them."""
    lengths: Tensor | None = None
    sink: Tensor | None = None
    stage: int = kernels.NOTHING
    half: str = ""
    """The 16-bit type to which every step except those of the softmax is rounded, or "". q and k are then scaled and rounded."""
    precision: str = ""
    """The 16-bit type to which the softmax is rounded, or ""."""

    def score_rules(self, mask: Mask) -> kernels.ScoreRules:
        """Return the rules for scores with this mask, for kernels."""
        half, precision = (_HALVES.index(dtype) for dtype in (self.half, self.precision))
        window = min(self.left, kernels.FAR), min(self.right, kernels.FAR)
        rules: Any = (self.past, *window, mask.columns, *mask.steps, mask.kind, self.stage, half, precision)
        return kernels.ScoreRules(*rules)


class AttentionSizes(NamedTuple):
    """Queries (batch, heads, rows, size) that attend to `length` keys of kv_heads heads; dimensions or numbers."""

    batch: Dim
    heads: Dim
    kv_heads: Dim
    rows: Dim
    length: Dim
    size: Dim
    value_size: Dim

    @property
    def scores(self) -> Dim:
        """The number of scores."""
        return self.batch * self.heads * self.rows * self.length


class AttentionCase(Record, eq=False):
    """Attention of q to k and v, for the candidates that may compute it."""

    op: NodeLowering
    q: Heads
    k: Heads
    v: Heads
    y: Heads
    mask: Mask
    rules: AttentionOptions
    scores: Tensor | None
    """Memory for the scores at `rules.stage`, if they are wanted."""
    sizes: AttentionSizes
    numbers: AttentionSizes
    """The sizes as numbers (see `nominal`)."""
    turn: Dim
    """The instructions do nothing if this is 0."""

    @property
    def has_known_rows(self) -> bool:
        """Return True if the number of query rows is no open dimension."""
        return isinstance(self.q.shape[2], int)

    @property
    def others(self) -> list[Tensor | None]:
        """The operands that all kernels have in common: mask, lengths, sinks and result."""
        return [self.mask.tensor, self.rules.lengths, self.rules.sink, self.y.tensor]

    @property
    def kernel_keys(self) -> kernels.Keys:
        """Keys and values where they lie."""
        stored: Any = (*self.k.shape[1:3], self.rules.scale, self.rules.softcap, *self.k.place, *self.v.place)
        return kernels.Keys(*stored)


# --- Predicted costs
def work_of_attend(n: AttentionSizes) -> Dim:
    """Return the nanoseconds over packed heads, without the packing. One row takes as long as two."""
    pairs = n._replace(rows=ceildiv(n.rows, 2) * 2)
    return pairs.scores * (n.size + n.value_size + SOFTMAX) // RATE


def work_of_packing(n: AttentionSizes) -> Dim:
    """Return the nanoseconds in which keys and values are packed."""
    return n.batch * n.kv_heads * n.length * (n.size + n.value_size) * 2 // PACK


def work_of_few(n: AttentionSizes) -> Dim:
    """Return the nanoseconds with keys and values in place, without reading them from memory."""
    return n.scores * (n.size + n.value_size + SOFTMAX) // RATE_IN_PLACE


def work_of_reading(n: AttentionSizes) -> Dim:
    """Return the nanoseconds in which keys and values are read in place."""
    return n.batch * n.kv_heads * n.length * (n.size + n.value_size) // READ


def _cost_of_many(n: AttentionSizes) -> float:
    return float(nominal(work_of_packing(n) + work_of_attend(n)))


def _cost_of_few(n: AttentionSizes) -> float:
    return float(nominal(work_of_few(n) + work_of_reading(n)))


def _typical_cost(cost: Callable[[AttentionSizes], float], case: AttentionCase) -> float:
    """Return a cost; where the number of rows is open, that of a prompt and of a step, which has one row."""
    n = case.numbers
    return cost(n) if case.has_known_rows else cost(n) + cost(n._replace(rows=1))


def _cost_by_rows(case: AttentionCase) -> float:
    n, least = case.numbers, _least_rows(case)
    return SKIP + sum(
        (_cost_of_many if rows >= least else _cost_of_few)(n._replace(rows=rows)) for rows in (nominal(n.rows), 1)
    )


def _least_rows(case: AttentionCase) -> int:
    """Return the number of rows from which on packed heads cost less."""
    costs, pair = case.op.costs, case.numbers._replace(rows=2)

    def predict(name: str, work: Callable[[AttentionSizes], Dim]) -> float:
        return costs.predict(name, float(nominal(work(pair))))

    fixed = predict("attend", work_of_packing) - predict("attend_few", work_of_reading)
    each = (predict("attend_few", work_of_few) - predict("attend", work_of_attend)) / 2
    return int(max(fixed, 0.0) / each) + 1 if each * kernels.FAR > fixed else kernels.FAR


# --- Instructions
def emit_attention(
    op: NodeLowering,
    q: Heads,
    k: Heads,
    v: Heads,
    y: Heads,
    mask: Mask,
    rules: AttentionOptions,
    scores: Tensor | None = None,
    *,
    turn: Dim = 1,
    packed: bool = False,
) -> None:
    """Emit y = attention of q to k and v, all of one element type; `scores` takes the scores at `rules.stage`.

    The instructions do nothing if `turn` is 0. `packed`: keys and values are packed, as they are for many rows of queries. The
    shapes that the kernels assume are required here.
    """
    agree(op, q, k, v)
    op.agree(y.shape, (*q.shape[:3], v.shape[3]), "the result does not fit queries and values")
    _check_others(op, q, k, rules, scores)
    (batch, heads, rows, size), (kv_heads, length) = q.shape, k.shape[1:3]
    sizes = AttentionSizes(batch, heads, kv_heads, rows, length, size, v.shape[3])
    case = AttentionCase(op, q, k, v, y, mask, rules, scores, sizes, AttentionSizes(*map(nominal, sizes)), turn)
    if packed:
        _emit_many(case)
    else:
        choose(op, CANDIDATES, case).emit(case)


def _emit_few(case: AttentionCase, turn: Dim = 1) -> None:
    """Emit `attend_few`, which does nothing if `turn` is 0."""
    q, k, v, turn = case.q, case.k, case.v, turn * case.turn
    batch, heads, rows, size = q.shape
    n = case.sizes._replace(batch=select(turn, batch, 0), rows=select(turn, rows, 0))
    room = n.length + size + n.value_size
    scratch = case.op.temporary(q.tensor.dtype, (case.op.options.threads * kernels.SHARED * n.rows * room,))
    sizes: Any = (n.batch, heads, n.rows, size, n.value_size, *q.place, *case.y.steps)
    operands = [q.tensor, k.tensor, v.tensor, *case.others, scratch]
    g, rules = kernels.AttentionHeads(*sizes), case.rules.score_rules(case.mask)
    vectors = row_vectors(q.tensor.native, case.op.target)
    case.op.emit(
        kernels.attend_few,
        operands,
        g=g,
        kv=case.kernel_keys,
        rules=rules,
        vectors=vectors,
        slices=1,
        work=work_of_few(n) + work_of_reading(n),
    )


def _emit_many(case: AttentionCase, turn: Dim = 1) -> None:
    """Emit the packing of keys and values, and `attend`. They do nothing if `turn` is 0."""
    op, q, tile = case.op, case.q, tile_for(case.q.tensor.native, case.op.target)
    n = case.sizes._replace(batch=select(turn * case.turn, case.sizes.batch, 0))
    stride, across = (ceildiv(dim, tile.columns) * tile.columns for dim in (n.length, n.value_size))
    room = minimum(kernels.BLOCK * stride, maximum(kernels.SCORES, tile.rows * stride))
    keys = op.temporary(q.tensor.dtype, (n.batch * n.kv_heads * stride * n.size,))
    values = op.temporary(q.tensor.dtype, (n.batch * n.kv_heads * n.length * across,))
    scratch = op.temporary(q.tensor.dtype, (select(less(0, n.batch), op.most_parts * room, 0),))
    sizes: Any = (n.batch, *q.shape[1:], n.value_size, *q.place, *case.y.steps)
    g, kv, rules = kernels.AttentionHeads(*sizes), case.kernel_keys, case.rules.score_rules(case.mask)
    op.emit(kernels.pack_heads, [case.k.tensor, case.v.tensor, keys, values], g=g, kv=kv, tile=tile, work=work_of_packing(n))
    exponentials = vectors_for(q.tensor.native, op.target)["lanes"]
    packed = kernels.PackedKeys(kv.heads, kv.length, kv.softcap, tile.rows, tile.vectors, tile.lanes, exponentials)
    operands = [q.tensor, keys, values, *case.others, case.scores, scratch]
    op.emit(kernels.attend, operands, g=g, kv=packed, rules=rules, work=work_of_attend(n))


def _emit_by_rows(case: AttentionCase) -> None:
    many = less(_least_rows(case) - 1, case.q.shape[2])
    _emit_few(case, 1 - many)
    _emit_many(case, many)


SCORES_WANTED = "the scores are a result"
CANDIDATES: Final = (
    Candidate(
        "attend_few",
        lambda case: "" if case.scores is None else SCORES_WANTED,
        lambda case: _typical_cost(_cost_of_few, case),
        _emit_few,
    ),
    Candidate("attend", lambda case: "", lambda case: _typical_cost(_cost_of_many, case), _emit_many),
    Candidate(
        "attend-by-rows",
        lambda case: (
            "the number of query rows is known" if case.has_known_rows else "" if case.scores is None else SCORES_WANTED
        ),
        _cost_by_rows,
        _emit_by_rows,
    ),
)
"""The ways to compute attention: keys and values in place, packed, or whichever the number of rows asks for when the model runs."""


# --- Requirements
def agree(op: NodeLowering, q: Heads, k: Heads, v: Heads) -> None:
    """Require that queries, keys and values match, and that the key heads divide the query heads evenly."""
    pairs = [("batches", q.shape[0], k.shape[0]), ("batches", q.shape[0], v.shape[0]), ("head sizes", q.shape[3], k.shape[3])]
    pairs += [("heads of keys and values", k.shape[1], v.shape[1]), ("keys and values", k.shape[2], v.shape[2])]
    for what, a, b in pairs:
        if not same(a, b):
            op.require(equal(a, b), f"{what} differ in number or size: {{0}} and {{1}}", a, b)
    if not same(q.shape[1], k.shape[1]):
        groups = floordiv(q.shape[1], k.shape[1])
        op.require(equal(groups * k.shape[1], q.shape[1]), "{0} query heads cannot share {1}", q.shape[1], k.shape[1])


def _check_others(op: NodeLowering, q: Heads, k: Heads, rules: AttentionOptions, scores: Tensor | None) -> None:
    """Require that lengths, sinks and scores match the batch, the heads and the score matrix."""
    batch, heads, rows, _ = q.shape
    if rules.lengths is not None:
        size = batch * (kernels.NUMBERS if same(rules.past, kernels.PLACED) else 1)
        op.require(equal(rules.lengths.size, size), "{0} lengths of keys for a batch of {1}", rules.lengths.size, batch)
    if rules.sink is not None:
        op.agree(rules.sink.shape, (heads,), "sinks and heads differ in number")
    if scores is not None:
        op.agree(scores.shape, (batch, heads, rows, k.shape[2]), "the scores do not fit queries and keys")
