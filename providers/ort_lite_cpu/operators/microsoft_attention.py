"""com.microsoft's Attention and MultiHeadAttention: the projections' bias, padding masks, keys and values with their past."""

from collections.abc import Sequence

from ort_lite.native.lang import OK, Ptr, imin, like, native, span
from ort_lite.shapes import Dim, Shape, equal, floordiv, product, same, select
from ort_lite_cpu.elementwise.expression import Expression
from ort_lite_cpu.gemm import attention as kernels
from ort_lite_cpu.op import Op
from ort_lite_cpu.operators.attention import Heads, Mask, Rules, emit_attention, heads_of, join, joined, mask_of
from ort_lite_cpu.operators.matmul import Product, emit_computed, emit_packed
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import Tensor


@operator("Attention", domain="com.microsoft", types=REAL)
def attention(op: Op) -> None:
    """x (B, S, I) and weights (I, q + k + v) -> (B, S, v); past and present (2, B, H, rows, size). Spec: Attention-1."""
    for attribute in ("do_rotary", "past_present_share_buffer"):
        if op.attr(attribute, 0):
            raise op.reject(attribute)
    x = op.input(0)
    batch, rows, _ = x.shape
    total = op.raw(1).shape[1]
    sizes: Sequence[Dim] = op.attr("qkv_hidden_sizes") or (floordiv(total, 3),) * 3
    projected = op.temporary(x.dtype, (batch, rows, total))
    bias, constant = op.optional(2), op.constant(1)
    spec = Product(batch * rows, total, x.shape[2], bias=bias)
    if constant is not None:
        emit_packed(op, spec, x, constant, source=constant, y=projected)
    else:
        emit_computed(op, spec, x, op.input(1), projected)
    attend(op, projected, sizes, past=4, mask=3, bias=5)


def attend(op: Op, projected: Tensor, sizes: Sequence[Dim], *, past: int, mask: int, bias: int | None) -> None:
    """Attention from the projections (B, S, q + k + v) on. past, mask, bias: numbers of inputs."""
    heads, (batch, rows, _) = op.attr("num_heads"), projected.shape
    q, k, v = (columns_of(projected, heads, start, size) for start, size in zip(_starts(sizes), sizes, strict=True))
    earlier = op.optional(past)
    before: Dim = 0 if earlier is None else earlier.shape[3]
    if earlier is not None or op.wants(1):
        k, v = _both_joined(op, earlier, k, v)
    masked = _mask(op, mask, bias, (batch, heads, rows), before + rows)
    right = 0 if op.attr("unidirectional", 0) else -1
    rules = Rules(float(op.attr("scale", 0.0)), right=right, past=before)
    emit_attention(op, q, k, v, heads_of(op.output(0), heads), masked, rules)


def _starts(sizes: Sequence[Dim]) -> tuple[Dim, Dim, Dim]:
    return 0, sizes[0], sizes[0] + sizes[1]


def columns_of(x: Tensor, heads: Dim, start: Dim, width: Dim) -> Heads:
    """Columns `start` to `start + width` of (B, S, columns) as heads."""
    batch, rows, columns = x.shape
    size = floordiv(width, heads)
    return Heads(x, (batch, heads, rows, size), (rows * columns, size, columns), start)


def _both_joined(op: Op, past: Tensor | None, k: Heads, v: Heads) -> tuple[Heads, Heads]:
    """Keys and values behind their past, in one tensor: output 1 if it is wanted."""
    batch, heads, rows, size = k.shape
    if past is not None and not same(size, v.shape[3]):
        op.require(equal(size, v.shape[3]), "with a past keys and values have one size: {0} and {1}", size, v.shape[3])
    total = rows + (0 if past is None else past.shape[3])
    shape = (2, batch, heads, total, size)
    present = op.output(1) if op.wants(1) else op.temporary(k.tensor.dtype, shape)
    half = product(shape[1:])
    steps = (heads * total * size, total * size, size)
    for number, new in enumerate((k, v)):
        past_at = 0 if past is None else number * product(past.shape[1:])
        join(op, past, new, present, past_at, number * half)
    return Heads(present, shape[1:], steps), Heads(present, shape[1:], steps, half)


@operator("MultiHeadAttention", domain="com.microsoft", types=REAL)
def multi_head_attention(op: Op) -> None:
    """Queries (B, S, H), keys and values apart, packed together or from another attention's past. Spec: MultiHeadAttention-1."""
    if op.has(8) or op.has(9):
        raise op.reject("a past in a shared buffer, cache_indirection")
    heads = op.attr("num_heads")
    q, k, v = _operands(op, heads)
    if op.has(3):
        q, k, v = _biased(op, (q, k, v))
    past = op.optional(6)
    before: Dim = 0 if past is None else past.shape[2]
    k, v = joined(op, past, k, 1), joined(op, op.optional(7), v, 2)
    mask = _mask(op, 4, 5, q.shape[:3], k.shape[2])
    right = 0 if op.attr("unidirectional", 0) else -1
    stage = kernels.MASKED if op.wants(3) else kernels.NOTHING
    rules = Rules(float(op.attr("scale", 0.0)), right=right, past=before, stage=stage)
    emit_attention(op, q, k, v, heads_of(op.output(0), heads), mask, rules, op.output(3) if op.wants(3) else None)


def _operands(op: Op, heads: int) -> tuple[Heads, Heads, Heads]:
    q = op.input(0)
    if len(q.shape) == 5:
        return _packed(q, 0, 3), _packed(q, 1, 3), _packed(q, 2, 3)
    k = op.input(1)
    if len(k.shape) == 5:
        return heads_of(q, heads), _packed(k, 0, 2), _packed(k, 1, 2)
    return heads_of(q, heads), heads_of(k, heads), heads_of(op.input(2), heads)


def _packed(x: Tensor, number: int, count: int) -> Heads:
    """Operand `number` of (B, S, heads, count, size)."""
    batch, rows, heads, _, size = x.shape
    row = heads * count * size
    return Heads(x, (batch, heads, rows, size), (rows * row, count * size, row), number * size)


def _biased(op: Op, parts: tuple[Heads, Heads, Heads]) -> tuple[Heads, Heads, Heads]:
    """Each with its piece of the bias (hidden sizes of q, k and v, one after the other), as (B, heads, rows, size).

    Keys and values that come as (B, heads, rows, size) have theirs already.
    """
    bias = op.input(3)
    done: list[Heads] = []
    at: Dim = 0
    for part in parts:
        batch, heads, rows, size = part.shape
        if len(part.tensor.shape) == 4:
            done.append(part)
        else:
            made = op.temporary(part.tensor.dtype, part.shape)
            op.emit(add_bias, [part.tensor, bias, made], batch, heads, rows, size, *part.numbers, at, work=made.size)
            done.append(heads_of(made, heads))
        at = at + heads * size
    return done[0], done[1], done[2]


@native
def add_bias(
    x: Ptr, bias: Ptr, y: Ptr, batch: int, heads: int, rows: int, size: int, x_at: int, x_batch: int, x_head: int, x_row: int,
    bias_at: int, part: int, parts: int,
) -> int:  # fmt: skip
    """y (batch, heads, rows, size) = x at its steps + bias[bias_at:] (heads, size)."""
    for job in span(batch * heads * rows, part, parts):
        i, h, b = job % rows, job // rows % heads, job // rows // heads
        source, addend = x_at + b * x_batch + h * x_head + i * x_row, bias_at + h * size
        for j in range(size):
            y[job * size + j] = x[source + j] + bias[addend + j]
    return OK


# --- Masks
def _mask(op: Op, padding: int, bias: int | None, wanted: Shape, total: Dim) -> Mask:
    """The sum of input `bias` and of what input `padding` masks by adding `mask_filter_value`."""
    given = _padding(op, padding, wanted[0], total) if op.has(padding) else None
    if bias is None or not op.has(bias):
        return Mask() if given is None else mask_of(op, given, wanted)
    added = op.input(bias)
    if given is None:
        return mask_of(op, added, wanted)
    shape = tuple(_wider(a, b) for a, b in zip(given.shape, added.shape, strict=True))
    both = Tensor(added.dtype, shape, pending=Expression("{0} + {1}", (given, added), node=op.node))
    return mask_of(op, op.lowering.computed(both), wanted)


def _wider(a: Dim, b: Dim) -> Dim:
    return b if same(a, 1) else a if same(b, 1) or same(a, b) else select(equal(a, 1), b, a)


def _padding(op: Op, index: int, batch: Dim, total: Dim) -> Tensor:
    """(B, 1, 1 or S, T) floats of a padding mask: (B, T), (B, S, T), or (B,) or (2 B,): ends, then starts, of what counts."""
    mask, dtype = op.input(index), op.info().dtype
    assert dtype is not None
    value = float(op.attr("mask_filter_value", -10000.0))
    rank = len(mask.shape)
    if rank == 4:
        raise op.reject("a mask of rank 4")
    if rank > 1:
        made = op.temporary(dtype, (batch, 1, *mask.shape[1:]) if rank == 3 else (batch, 1, 1, mask.shape[1]))
        op.emit(filtered, [mask, made], made.size, value)
        return made
    starts = equal(mask.shape[0], 2 * batch)
    op.require(select(starts, 1, equal(mask.shape[0], batch)), "a mask of {0} lengths for a batch of {1}", mask.shape[0], batch)
    made = op.temporary(dtype, (batch, 1, 1, total))
    op.emit(limits, [mask, made], batch, total, starts, value)
    return made


@native
def filtered(mask: Ptr, y: Ptr, n: int, value: float, part: int, parts: int) -> int:
    """y = 0 where the mask is positive, else `value`."""
    for i in span(n, part, parts):
        y[i] = like(y, 0) if mask[i] > 0 else like(y, value)
    return OK


@native
def limits(ends: Ptr, y: Ptr, batch: int, total: int, starts: int, value: float, part: int, parts: int) -> int:
    """y[b, t] = 0 for t below ends[b], if `starts` from ends[batch + b] on; elsewhere `value`."""
    for b in span(batch, part, parts):
        first = imin(int(ends[batch + b]), total) if starts else 0
        last = imin(int(ends[b]), total)
        for t in range(total):
            y[b * total + t] = like(y, 0) if first <= t < last else like(y, value)
    return OK
