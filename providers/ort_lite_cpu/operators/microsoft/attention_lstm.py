"""AttnLSTM of com.microsoft: an LSTM that also reads what attention to a memory gave after the step before (Bahdanau's)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    SUMS,
    Ptr,
    exp,
    failure_status,
    fmax,
    like,
    native,
    null,
    read_once,
    shift,
    span,
    tanh,
)
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.recurrent import CellFunctions, put, time_of, update_cell, valid_steps
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.operators.recurrent import LSTM_ACTIVATIONS, RecurrentLayer
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

QUERY, KEYS, SCORE, MEMORY, MEMORY_LENGTHS, LAYER = 8, 9, 10, 11, 12, 13
"""The inputs of attention: weights of the query, the keys and the score, the memory, its lengths, weights of the layer."""
PRODUCT, SCORED = 0.1, 1.0
"""The nanoseconds in which a weight is multiplied, and an element of a key is scored."""


class AttentionDirection(NamedTuple):
    """One direction of a layer with attention: the fields of `Direction`, and the sizes of attention."""

    steps: int
    batch: int
    size: int
    backward: int
    later: int
    stride: int
    offset: int
    entries: int
    """Entries of the memory."""
    depth: int
    """Numbers of an entry."""
    width: int
    """Numbers of a key."""
    state: int
    """Numbers that attention gives to the next step."""
    layered: int
    """1 if a layer makes these of the hidden state and the context, 0 if they are the context."""


@native(fastmath=SUMS)
def add_rows(a: Ptr, stride: int, x: Ptr, y: Ptr, rows: int, n: int) -> None:
    """y (rows,) += a (rows, n) @ x (n,); rows of a are `stride` apart."""
    for row in range(rows):
        total = y[row]
        for i in range(n):
            total += a[row * stride + i] * x[i]
        y[row] = total


@native
def add_columns(a: Ptr, x: Ptr, y: Ptr, rows: int, n: int) -> None:
    """y (n,) += x (rows,) @ a (rows, n)."""
    for row in range(rows):
        for i in range(n):
            y[i] += x[row] * a[row * n + i]


@native
def clear(y: Ptr, n: int) -> None:
    """y (n,) = 0."""
    for i in range(n):
        y[i] = like(y, 0)


@native(fastmath=SUMS)
def score_entries(keys: Ptr, query: Ptr, weights: Ptr, scores: Ptr, count: int, width: int) -> None:
    """scores (count,) = softmax(tanh(keys (count, width) + query (width,)) @ weights (width,))."""
    largest = like(scores, 0)
    for entry in range(count):
        total = like(scores, 0)
        for i in range(width):
            total += weights[i] * tanh(keys[entry * width + i] + query[i])
        scores[entry] = total
        largest = total if entry == 0 else fmax(largest, total)
    total = like(scores, 0)
    for entry in range(count):
        scores[entry] = exp(scores[entry] - largest)
        total += scores[entry]
    for entry in range(count):
        scores[entry] = scores[entry] / total


@native
def attend(h: Ptr, weights: Ptr, memory: Ptr, keys: Ptr, scratch: Ptr, count: int, d: AttentionDirection) -> None:
    """Write to scratch (state) what attention to `count` entries of memory and keys gives for the hidden state h.

    weights: of the score (width), the query (size, width), and the layer (size + depth, state). scratch goes on with room for the
    context (depth), the query (width) and the scores (entries).
    """
    context, query = shift(scratch, d.state), shift(scratch, d.state + d.depth)
    scores, layer = shift(query, d.width), shift(weights, (d.size + 1) * d.width)
    clear(query, d.width)
    add_columns(shift(weights, d.width), h, query, d.size, d.width)
    score_entries(keys, query, weights, scores, count, d.width)
    clear(context, d.depth)
    add_columns(memory, scores, context, count, d.depth)
    clear(scratch, d.state)
    if d.layered != 0:
        add_columns(layer, h, scratch, d.size, d.state)
        add_columns(shift(layer, d.size * d.state), context, scratch, d.depth, d.state)
    else:
        for i in range(d.state):
            scratch[i] = context[i]


@native
@extents(
    xw="d.steps * d.batch * 4 * d.size",
    weights="4 * d.size * (d.size + d.state) + (d.size + 1) * d.width + d.layered * (d.size + d.depth) * d.state",
    peephole="3 * d.size",
    lengths="d.batch",
    memory="d.batch * d.entries * d.depth",
    keys="d.batch * d.entries * d.width",
    counts="d.batch",
    scratch="d.batch * (d.state + d.depth + d.width + d.entries)",
    states="2 * d.batch * d.size",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
)
def attention_lstm(
    xw: Ptr,
    weights: Ptr,
    peephole: Ptr,
    lengths: Ptr,
    memory: Ptr,
    keys: Ptr,
    counts: Ptr,
    scratch: Ptr,
    states: Ptr,
    y: Ptr,
    d: AttentionDirection,
    act: CellFunctions,
    part: int,
    parts: int,
) -> int:
    """Compute `lstm` with all steps in one round, a part for each sequence of the batch.

    xw (steps, batch, 4, size) is written to. weights: of the gates (4 * size, state + size), then those of `attend`; peephole, lengths
    and y may be null, and so may counts (batch), the entries of each sequence's memory. states (2, batch, size) are h and c, at the
    start and at the end.
    """
    columns = d.state + d.size
    for b in span(d.batch, part, parts):
        count = d.entries if null(counts) else int(read_once(counts, b))
        if count < 1 or count > d.entries:
            return failure_status(INDEX_OUT_OF_RANGE, b)
        h, c, valid = shift(states, b * d.size), shift(states, (d.batch + b) * d.size), valid_steps(lengths, b, d.steps)
        given = shift(scratch, b * (columns - d.size + d.depth + d.width + d.entries))
        own_memory, own_keys = shift(memory, b * d.entries * d.depth), shift(keys, b * d.entries * d.width)
        clear(given, d.state)
        for step in range(d.steps):
            t = time_of(step, valid, d.backward)
            if step < valid:
                gates = shift(xw, (t * d.batch + b) * 4 * d.size)
                add_rows(weights, columns, given, gates, 4 * d.size, d.state)
                add_rows(shift(weights, d.state), columns, h, gates, 4 * d.size, d.size)
                update_cell(gates, d.size, peephole, c, h, act, d.size)
                attend(h, shift(weights, 4 * d.size * columns), own_memory, own_keys, given, count, d)
            if not null(y):
                put(h, shift(y, t * d.later + b * d.stride + d.offset), step < valid, d.size)
    return OK


class AttentionLayer(RecurrentLayer):
    """An LSTM with the sizes and weights of attention."""

    def __init__(self, op: NodeLowering) -> None:
        super().__init__(op, 4, LSTM_ACTIVATIONS)
        _, self.entries, self.depth = op.raw(MEMORY).shape
        self.width = op.raw(SCORE).shape[1]
        self.state = op.raw(LAYER).shape[2] if op.has(LAYER) else self.depth
        inputs = self.x.shape[2]
        op.agree((inputs + self.state,), op.raw(1).shape[2:], "W differs from what inputs and attention have together")
        if op.has(LAYER):
            op.agree((self.size + self.depth,), op.raw(LAYER).shape[1:2], "AW differs from hidden state and memory together")

    def block(self, across: int) -> int:
        """Return all hidden units, whose gates the kernel computes row by row."""
        return max(self.size, 1)

    def product(self, direction: int, bias: Tensor | None) -> Tensor:
        """Return x @ W[direction, :, :inputs].T + bias, (steps * batch, 4 * size)."""
        op, rows, columns, inputs = self.op, self.steps * self.batch, 4 * self.size, self.x.shape[2]
        whole = inputs + self.state
        own, out = op.temporary(self.x.dtype, (columns, inputs)), op.temporary(self.x.dtype, (rows, columns))
        emit_strided_copy(op, op.input(1), own, own.shape, (whole, 1), (inputs, 1), direction * columns * whole)
        sizes = Product(rows, columns, inputs, transposed=True, bias=bias)
        emit_dynamic_gemm(op, sizes, op.view(self.x, (rows, inputs)), own, out)
        return out

    def keys(self, direction: int) -> Tensor:
        """Return memory @ MW[direction], (batch * entries, width)."""
        op, rows = self.op, self.batch * self.entries
        weights, out = self.row(op.input(KEYS), direction), op.temporary(self.x.dtype, (rows, self.width))
        memory = op.view(op.input(MEMORY), (rows, self.depth))
        emit_dynamic_gemm(op, Product(rows, self.width, self.depth), memory, weights, out)
        return out

    def weights(self, direction: int) -> Tensor:
        """Return the weights that each step reads in one row, see `attention_lstm`."""
        rows, size, inputs = 4 * self.size, self.size, self.x.shape[2]
        columns = self.state + size
        parts: list[tuple[int, Shape, Sequence[Dim], Sequence[Dim], Dim, Dim]] = []
        whole = inputs + self.state
        at: Dim = rows * columns
        parts.append((1, (rows, self.state), (whole, 1), (columns, 1), direction * rows * whole + inputs, 0))
        parts.append((2, (rows, size), (size, 1), (columns, 1), direction * rows * size, self.state))
        for index, length in ((SCORE, self.width), (QUERY, size * self.width), (LAYER, (size + self.depth) * self.state)):
            if self.op.has(index):
                parts.append((index, (length,), (1,), (1,), direction * length, at))
                at = at + length
        made = self.op.temporary(self.x.dtype, (at,))
        for index, dims, source, target, first, place in parts:
            emit_strided_copy(self.op, self.op.input(index), made, dims, source, target, first, place)
        return made

    def emit_lstm(self, direction: int) -> None:
        """Emit one direction, and its final states."""
        op, room = self.op, self.state + self.depth + self.width + self.entries
        states, scratch = self.start(direction, 5, 6), op.temporary(self.x.dtype, (self.batch, room))
        bias, peephole = self.vector(3, direction, (0, 4), 4), self.vector(7, direction, (0,), 3)
        operands = [self.product(direction, bias), self.weights(direction), peephole, op.optional(4), op.input(MEMORY)]
        operands += [self.keys(direction), op.optional(MEMORY_LENGTHS), scratch, states, self.y]
        attention: Any = (self.entries, self.depth, self.width, self.state, int(op.has(LAYER)))
        d = AttentionDirection(*self.direction(direction), *attention)
        gates = 4 * self.size * (self.state + self.size) + (self.size + 1) * self.width
        each = linear_work(gates, PRODUCT) + linear_work(self.entries * (self.width + self.depth), SCORED)
        act, work = self.cell_functions(direction), self.steps * self.batch * each
        op.emit(attention_lstm, operands, d=d, act=act, work=work, message=_no_memory)
        self.finish(1, direction, states)
        self.finish(2, direction, states, 1)


@operator("AttnLSTM", domain="com.microsoft", types=REAL)
def attn_lstm(op: NodeLowering) -> None:
    """Emit AttnLSTM. Spec: onnxruntime AttnLSTM-1."""
    layer = AttentionLayer(op)
    for direction in range(layer.directions):
        layer.emit_lstm(direction)


def _no_memory(failure: "Failure") -> str:
    return failure.outside("the length", 6, 1, failure.scalar("d.entries") + 1, MEMORY_LENGTHS)
