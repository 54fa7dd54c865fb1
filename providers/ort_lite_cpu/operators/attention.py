"""Attention, and parts that its relatives in com.microsoft share: heads in any layout, keys and values with their past, masks."""

from collections.abc import Sequence
from typing import Any

from ort_lite.dtypes import DType, to_onnx
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, equal, floordiv, less, maximum, minimum, same, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.kernels.gemm.microkernel import Tile, tile_for
from ort_lite_cpu.lowering.broadcast import broadcast_step, broadcasts
from ort_lite_cpu.lowering.expression import formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.ranges import require_within
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import HALVES


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


def heads_of(op: NodeLowering, tensor: Tensor, count: Dim) -> Heads:
    """Return the heads of a (batch, heads, rows, size) tensor, or of (batch, rows, heads * size) with `count` heads."""
    if len(tensor.shape) == 4:
        _, heads, rows, size = tensor.shape
        return Heads(tensor, tensor.shape, (heads * rows * size, rows * size, size))
    if len(tensor.shape) != 3:
        raise op.reject(f"{tensor.name!r} has rank {len(tensor.shape)}, expected 3 or 4")
    return columns_of(op, tensor, count, 0, tensor.shape[2])


def columns_of(op: NodeLowering, x: Tensor, heads: Dim, start: Dim, width: Dim) -> Heads:
    """Return columns `start` to `start + width` of (B, S, columns) as heads."""
    batch, rows, columns = x.shape
    size = floordiv(width, heads)
    if isinstance(heads, int) and heads < 1:
        raise op.reject(f"{heads} heads")
    op.require(equal(size * heads, width), "{0} columns do not make {1} heads", width, heads)
    return Heads(x, (batch, heads, rows, size), (rows * columns, size, columns), start)


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


def mask_of(op: NodeLowering, tensor: Tensor, wanted: Shape) -> Mask:
    """Return a mask that broadcasts to `wanted` (batch, heads, rows), followed by the columns, which do not broadcast."""
    if len(tensor.shape) > 4:
        raise op.reject(f"a mask of rank {len(tensor.shape)}")
    shape = (*(1,) * (4 - len(tensor.shape)), *tensor.shape)
    steps: list[Dim] = []
    for dim, step, full in zip(shape[:3], contiguous(shape)[:3], wanted, strict=True):
        if not same(dim, 1) and not same(dim, full):
            op.require(broadcasts(dim, full), "dimension {0} of the mask is neither 1 nor {1}", dim, full)
        steps.append(broadcast_step(dim, full, step))
    return Mask(tensor, steps, shape[3])


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
    """Keys before the first query; -1: the last keys of a batch with a length belong to the queries."""
    lengths: Tensor | None = None
    extra: int = 0
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
        rules: Any = (self.past, self.extra, *window, mask.columns, *mask.steps, mask.kind, self.stage, half, precision)
        return kernels.ScoreRules(*rules)


def emit_attention(
    op: NodeLowering, q: Heads, k: Heads, v: Heads, y: Heads, mask: Mask, rules: AttentionOptions, scores: Tensor | None = None
) -> None:
    """Emit y = attention of q to k and v, all of one element type; `scores` takes the scores at `rules.stage`.

    One kernel reads keys and values in place for few query rows; another one for many rows needs them packed. If the number of rows is
    symbolic, both are emitted, and one of them has nothing to do. The shapes that the kernels assume are required here.
    """
    batch, heads, rows, size = q.shape
    length, value_size = k.shape[2], v.shape[3]
    agree(op, q, k, v)
    op.agree(y.shape, (*q.shape[:3], value_size), "the result does not fit queries and values")
    _check_others(op, q, k, rules, scores)
    tile = tile_for(q.tensor.native, op.target)
    stride = ceildiv(length, tile.columns) * tile.columns
    room = minimum(kernels.BLOCK * stride, maximum(kernels.SCORES, kernels.ROWS * stride))
    scratch = op.temporary(q.tensor.dtype, (op.options.threads * room,))
    others = [mask.tensor, rules.lengths, rules.sink, y.tensor, scores, scratch]
    sizes: Any = (*q.shape, value_size, *q.place, *y.steps)
    stored: Any = (*k.shape[1:3], rules.scale, rules.softcap, *k.place, *v.place)
    g, kv, own = kernels.AttentionHeads(*sizes), kernels.Keys(*stored), rules.score_rules(mask)
    many = less(kernels.FEW, rows)
    work = batch * heads * rows * length * (floordiv(size + value_size, 32) + 1)
    if not same(many, 1):
        operands = [q.tensor, k.tensor, v.tensor, *others]
        op.emit(kernels.attend_few, operands, g=g, kv=kv, rules=own, work=select(many, 0, work * 4))
    if not same(many, 0):
        keys, values = _pack_heads(op, k, v, g, kv, tile, many)
        packed = kernels.PackedKeys(kv.heads, kv.length, kv.softcap, tile.rows, tile.vectors, tile.lanes)
        operands = [q.tensor, keys, values, *others]
        op.emit(kernels.attend, operands, g=g, kv=packed, rules=own, work=select(many, work, 0))


def _pack_heads(
    op: NodeLowering, k: Heads, v: Heads, g: kernels.AttentionHeads, kv: kernels.Keys, tile: Tile, many: Dim
) -> tuple[Tensor, Tensor]:
    """Emit the packing of keys and values for `attend`. If `many` is 0, they have no elements and cost no work."""
    batch, kv_heads, length, size = k.shape
    value_size = v.shape[3]
    rows, columns = (ceildiv(dim, tile.columns) * tile.columns for dim in (length, value_size))
    keys = op.temporary(k.tensor.dtype, (select(many, batch * kv_heads * rows * size, 0),))
    values = op.temporary(k.tensor.dtype, (select(many, batch * kv_heads * length * columns, 0),))
    work = select(many, batch * kv_heads * length * (size + value_size), 0)
    op.emit(kernels.pack_heads, [k.tensor, v.tensor, keys, values], g=g, kv=kv, tile=tile, work=work)
    return keys, values


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
        op.require(equal(rules.lengths.size, batch), "{0} lengths of keys for a batch of {1}", rules.lengths.size, batch)
    if rules.sink is not None:
        op.agree(rules.sink.shape, (heads,), "sinks and heads differ in number")
    if scores is not None:
        op.agree(scores.shape, (batch, heads, rows, k.shape[2]), "the scores do not fit queries and keys")


def join_past(op: NodeLowering, past: Tensor | None, new: Heads, index: int) -> Heads:
    """Return `new` behind `past`, (batch, heads, rows, size), as output `index` if it is wanted; `new` itself without a past."""
    batch, heads, rows, size = new.shape
    if past is None and not op.wants(index):
        return new
    if past is None and len(new.tensor.shape) == 4 and new.at == 0:
        op.agree(op.info(index).shape or (), new.shape, "the heads that are passed on do not fit")
        op.alias(new.tensor, index)
        return new
    total = rows if past is None else past.shape[2] + rows
    shape = (batch, heads, total, size)
    present = op.output(index) if op.wants(index) else op.temporary(new.tensor.dtype, shape)
    pairs = [*zip(present.shape, shape, strict=True)]  # an output is as long as inference says, of keys and values alike
    pairs += [] if past is None else [(past.shape[axis], shape[axis]) for axis in (0, 1, 3)]
    for there, wanted in pairs:
        if not same(there, wanted):
            op.require(equal(there, wanted), "the past does not go with what is new: {0} and {1}", there, wanted)
    join(op, past, new, present)
    return Heads(present, shape, (heads * total * size, total * size, size))


def join(op: NodeLowering, past: Tensor | None, new: Heads, present: Tensor, past_at: Dim = 0, present_at: Dim = 0) -> None:
    """Emit copies of both, one behind the other along the rows, to (batch, heads, rows, size) at `present_at`."""
    batch, heads, rows, size = new.shape
    before: Dim = 0
    total = rows
    if past is not None:
        before = past.shape[-2]
        total = before + rows
        of_past, steps = ((heads * n * size, n * size, size, 1) for n in (before, total))
        emit_strided_copy(op, past, present, (batch, heads, before, size), of_past, steps, past_at, present_at)
    steps = (heads * total * size, total * size, size, 1)
    emit_strided_copy(op, new.tensor, present, new.shape, (*new.steps, 1), steps, new.at, present_at + before * size)


@operator("Attention", since=23, types=REAL | frozenset(HALVES))
def attention(op: NodeLowering) -> None:
    """Emit attention of Q (B, Hq, S, D) or (B, S, Hq * D), K and V alike, with any number of heads that divides Hq.

    16-bit floats are computed as float32 and rounded once, or, with `CPUOptions.steps`, after each operator of the function.
    Spec: ONNX Attention-25.
    """
    wide = _softmax_type(op)
    half = op.raw(0).dtype if op.raw(0).dtype in op.options.steps and wide == "float32" else ""
    q, k, v = (heads_of(op, op.input(index), op.attr("q_num_heads" if index == 0 else "kv_num_heads", 0)) for index in range(3))
    past = op.optional(4)
    k, v = join_past(op, past, k, 1), join_past(op, op.optional(5), v, 2)
    mask = mask_of(op, _additive(op, op.input(3), wide), q.shape[:3]) if op.has(3) else Mask()
    lengths = _lengths(op, q.shape[0], k.shape[2])
    rules = _rules(op, past, lengths, half, _softmax_precision(op, half))
    result = _target(op, 0, wide)
    scores = _target(op, 3, wide) if op.wants(3) else None
    v = _in_place_of(v, op.cast(v.tensor, wide))
    if half:
        q, k = (_in_place_of(x, _scale(op, x, half)) for x in (q, k))
    else:
        q, k = (_in_place_of(x, op.cast(x.tensor, wide)) for x in (q, k))
    emit_attention(op, q, k, v, heads_of(op, result, q.shape[1]), mask, rules, scores)
    for index, tensor in ((0, result), (3, scores)):
        wanted = op.info(index).dtype if tensor is not None else None
        if tensor is not None and wanted is not None and wanted != wide:
            op.set(index, op.cast(tensor, wanted))


def _lengths(op: NodeLowering, batch: Dim, total: Dim) -> Tensor | None:
    """Return input nonpad_kv_seqlen (B,), the number of keys of each sample that count."""
    if not op.has(6):
        return None
    if op.has(4) or op.has(5):
        raise op.reject("nonpad_kv_seqlen beside a past, whose rows all count")
    op.agree(op.raw(6).shape, (batch,), "nonpad_kv_seqlen does not fit the batch")
    require_within(op, 6, "the length", total)
    return op.input(6)


def _rules(op: NodeLowering, past: Tensor | None, lengths: Tensor | None, half: DType, precision: DType) -> AttentionOptions:
    """Return the node's options. If `half` is set, queries and keys are already scaled."""
    return AttentionOptions(
        scale=1.0 if half else float(op.attr("scale", 0.0)),
        softcap=float(op.attr("softcap", 0.0)),
        left=op.attr("left_window_size", -1),
        right=0 if op.attr("is_causal", 0) else op.attr("right_window_size", -1),
        past=past.shape[2] if past is not None else 0 if lengths is None else -1,
        lengths=lengths,
        stage=_stage(op) if op.wants(3) else kernels.NOTHING,
        half=half,
        precision=precision,
    )


def _stage(op: NodeLowering) -> int:
    stage: int = op.attr("qk_matmul_output_mode", 0)
    if stage not in (kernels.RAW, kernels.CAPPED, kernels.MASKED, kernels.SOFTMAX):
        raise op.reject(f"qk_matmul_output_mode {stage}")
    return stage


def _softmax_type(op: NodeLowering) -> DType:
    """Return float64 if any operand is, or if softmax_precision asks for it and operands are not of 16 bits; else float32."""
    types = {op.raw(index).dtype for index in range(3)}
    double = op.attr("softmax_precision", 0) == to_onnx("float64") and op.raw(0).dtype not in HALVES
    return "float64" if "float64" in types or double else "float32"


def _softmax_precision(op: NodeLowering, half: DType) -> DType:
    """Return the 16-bit type that softmax_precision names, by default that of the operands, else ""."""
    asked = op.attr("softmax_precision", 0)
    return next((dtype for dtype in HALVES if asked == to_onnx(dtype)), "" if asked else half)


def _scale(op: NodeLowering, x: Heads, half: DType) -> Tensor:
    """Return queries or keys times the root of the scale, both of 16 bits, as float32."""
    widen, narrow = HALVES[half]
    scale = float(op.attr("scale", 0.0))
    root = "sqrt({s0})" if scale else "sqrt(like({0}, 1) / sqrt({s0}))"
    text = f"{widen}({narrow}({{0}} * {widen}({narrow}({root}))))"
    return op.builder.materialize(formula_tensor("float32", x.tensor, text, [x.tensor], [scale or x.shape[3]]))


def _in_place_of(heads: Heads, tensor: Tensor) -> Heads:
    """Return the same heads of a tensor with the same layout."""
    return Heads(tensor, heads.shape, heads.steps, heads.at)


def _additive(op: NodeLowering, mask: Tensor, dtype: DType) -> Tensor:
    return mask if mask.dtype == "bool" else op.cast(mask, dtype)


def _target(op: NodeLowering, index: int, dtype: DType) -> Tensor:
    """Return memory for an output, in the element type in which it is computed."""
    info = op.info(index)
    assert info.shape is not None
    return op.output(index) if info.dtype == dtype else op.temporary(dtype, info.shape)
