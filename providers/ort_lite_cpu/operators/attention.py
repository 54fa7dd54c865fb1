"""Attention, and parts that its relatives in com.microsoft share: heads in any layout, keys and values with their past, masks."""

from ort_lite.dtypes import DType, to_onnx
from ort_lite.shapes import equal, floordiv, same, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.lowering.broadcast import broadcast_step, broadcasts
from ort_lite_cpu.lowering.expression import formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.rooms import Rooms, rooms_of
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Heads, Mask, emit_attention
from ort_lite_cpu.operators.ranges import require_within
from ort_lite_cpu.operators.targets import round_targets, target_of
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import HALVES


def heads_of(op: NodeLowering, tensor: Tensor, count: Dim) -> Heads:
    """Return the heads of a (batch, heads, rows, size) tensor, or of (batch, rows, heads * size) with `count` heads.

    Axes before `size` may be stored in any order.
    """
    if len(tensor.shape) == 4:
        order, steps = tensor.perm or (0, 1, 2, 3), contiguous(tensor.storage_shape)
        assert order[3] == 3, f"{tensor.name!r}: the elements of a row are no neighbours"
        return Heads(tensor, tensor.shape, (steps[order.index(0)], steps[order.index(1)], steps[order.index(2)]))
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


def join_past(op: NodeLowering, at: int, new: Heads, index: int, dtype: DType) -> Heads:
    """Return `new` behind the past, input `at` (batch, heads, rows, size), as output `index` if it is wanted.

    Returns `new` itself without a past. Attention reads the rows as elements of `dtype`.
    """
    past = op.optional(at)
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
    before: Dim = 0 if past is None else past.shape[2]
    rooms = rooms_of(op, past, present, index, total) if present.dtype == dtype else Rooms(before, total)
    join(op, past, new, present, rooms)
    return Heads(present, shape, (heads * rooms.present * size, rooms.present * size, size))


def join(
    op: NodeLowering, past: Tensor | None, new: Heads, present: Tensor, rooms: Rooms, past_at: Dim = 0, present_at: Dim = 0
) -> None:
    """Emit copies of both, one behind the other along the rows, to (batch, heads, rows, size) at `present_at`."""
    batch, heads, _, size = new.shape
    before: Dim = 0
    of_past, steps = ((heads * n * size, n * size, size, 1) for n in (rooms.past, rooms.present))
    if past is not None:
        before = past.shape[-2]
        dims = (select(rooms.shared, 0, batch), heads, before, size)
        emit_strided_copy(op, past, present, dims, of_past, steps, past_at, present_at)
    emit_strided_copy(op, new.tensor, present, new.shape, (*new.steps, 1), steps, new.at, present_at + before * size)


@operator("Attention", since=23, types=REAL | frozenset(HALVES))
def attention(op: NodeLowering) -> None:
    """Emit attention of Q (B, Hq, S, D) or (B, S, Hq * D), K and V alike, with any number of heads that divides Hq.

    16-bit floats are computed as float32 and rounded once, or, with `CPUOptions.steps`, after each operator of the function.
    Spec: ONNX Attention-25.
    """
    wide = _softmax_type(op)
    half = op.raw(0).dtype if op.raw(0).dtype in op.options.steps and wide == "float32" else ""
    q, k, v = (
        heads_of(op, _in_place(op, index), op.attr("q_num_heads" if index == 0 else "kv_num_heads", 0)) for index in range(3)
    )
    k, v = join_past(op, 4, k, 1, wide), join_past(op, 5, v, 2, wide)
    mask = mask_of(op, _additive(op, op.input(3), wide), q.shape[:3]) if op.has(3) else Mask()
    lengths = _lengths(op, k.shape[2])
    rules = _rules(op, op.optional(4), lengths, half, _softmax_precision(op, half))
    result = target_of(op, 0, wide, _wanted_order(op))
    scores = target_of(op, 3, wide) if op.wants(3) else None
    v = cast_heads(op, v, wide)
    if half:
        q, k = (x.replace(tensor=_scale(op, x, half)) for x in (q, k))
    else:
        q, k = (cast_heads(op, x, wide) for x in (q, k))
    emit_attention(op, q, k, v, heads_of(op, result, q.shape[1]), mask, rules, scores)
    round_targets(op, {0: result, 3: scores})


def _in_place(op: NodeLowering, index: int) -> Tensor:
    """Return an input in the order in which it is stored, if it has rank 4 and the elements of a row stay side by side."""
    order = op.builder.materialize(op.raw(index)).perm
    return op.input(index, order if order is not None and len(order) == 4 and order[3] == 3 else None)


def _wanted_order(op: NodeLowering) -> tuple[int, ...] | None:
    """Return the storage order of the result that a Transpose, its only reader, would make; None if there is no such reader."""
    readers = op.node.output.readers
    if len(readers) != 1 or readers[0].op_type != "Transpose" or op.node.output.is_graph_output():
        return None
    perm = tuple(readers[0].attr("perm") or ())
    return perm if len(perm) == 4 and perm[3] == 3 else None


def _lengths(op: NodeLowering, total: Dim) -> Tensor | None:
    """Return input nonpad_kv_seqlen (B,), the number of keys of each sample that count."""
    if not op.has(6):
        return None
    if op.has(4) or op.has(5):
        raise op.reject("nonpad_kv_seqlen beside a past, whose rows all count")
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


def cast_heads(op: NodeLowering, heads: Heads, dtype: DType) -> Heads:
    """Return the same heads of another element type."""
    return heads.replace(tensor=op.cast(heads.tensor, dtype))


def _additive(op: NodeLowering, mask: Tensor, dtype: DType) -> Tensor:
    return mask if mask.dtype == "bool" else op.cast(mask, dtype)
