"""DynamicQuantizeLSTM of com.microsoft: an LSTM with 8-bit weights, whose activations are quantised at run time."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    Ptr,
    Static,
    StaticInt,
    address,
    cast,
    fmax,
    fmin,
    like,
    native,
    null,
    pointer_i16,
    rint,
    shift,
    span,
)
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.gemm.byte_tile import DotTile, dot_tile
from ort_lite_cpu.kernels.gemm.integer import FLIPS, Unpacked, integer_panel, integer_tile, pairs
from ort_lite_cpu.kernels.recurrent import CellFunctions, put, time_of, update_cell, valid_steps
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.integer_product import (
    ByteOperands,
    Matrices,
    Packed,
    Rescale,
    pack_constant,
    pack_later,
    quotient,
    rescale_tensor,
)
from ort_lite_cpu.operators.quantization import emit_dynamic, quantize
from ort_lite_cpu.operators.recurrent import LSTM_ACTIVATIONS, RecurrentLayer
from ort_lite_cpu.operators.reshape import broadcast_to
from ort_lite_cpu.registry import operator

W, R, W_SCALE, W_ZERO, R_SCALE, R_ZERO = 1, 2, 8, 9, 10, 11
PRODUCT = 1 / 40
"""The nanoseconds in which a weight is multiplied."""


class QuantizedDirection(NamedTuple):
    """One direction of a quantised layer: the fields of `Direction`, and panels of R of vectors * lanes columns."""

    steps: int
    batch: int
    size: int
    backward: int
    later: int
    stride: int
    offset: int
    threads: int
    """Threads among which onnxruntime shares the batch, see `rows_together`."""
    vectors: StaticInt
    lanes: StaticInt


@native
def rows_together(batch: int, size: int, threads: int) -> int:
    """Return the number of rows of the batch with one scale for their states: the share of one of onnxruntime's `threads`."""
    shared = batch > 4 or (batch >= 2 and size <= 256)
    return max((batch + threads - 1) // threads, 1) if shared else batch


@native
def extremes(h: Ptr, first: int, last: int, size: int, lengths: Ptr, steps: int, step: int, all_rows: bool) -> Any:
    """Return the extremes of 0 and h (batch, size)[first:last]: of all rows, or of those that took the last step."""
    low, high = like(h, 0), like(h, 0)
    for b in range(first, last):
        if all_rows or step <= valid_steps(lengths, b, steps):
            for i in range(b * size, (b + 1) * size):
                low, high = min(low, h[i]), max(high, h[i])
    return low, high


@native
@extents(x="steps * batch * width", lengths="batch", y="steps * batch * width")
def until_longest(x: Ptr, lengths: Ptr, y: Ptr, steps: int, batch: int, width: int, part: int, parts: int) -> int:
    """y = x (steps, batch, width) up to the end of the longest sequence, and zeros behind it."""
    longest = 0
    for b in range(batch):
        longest = max(longest, valid_steps(lengths, b, steps))
    known = longest * batch * width
    for i in span(steps * batch * width, part, parts):
        y[i] = x[i] if i < known else like(y, 0)
    return OK


@native
def quantize_row(x: Ptr, n: int, y: Ptr, scale: Any, zero: Any) -> int:
    """y (n) = x quantised to uint8, less its zero point, and a 0 behind odd n."""
    for i in range(n):
        y[i] = cast(fmin(fmax(rint(x[i] / scale), -zero), like(x, 255) - zero), "i32")
    if n % 2:
        y[n] = like(y, 0)
    return 0


@native
@extents(
    xw="d.steps * d.batch * 4 * d.size",
    r="ceildiv(4 * d.size, d.vectors * d.lanes) * ceildiv(d.size, 2) * d.vectors * d.lanes * 2",
    factor="4 * d.size",
    scratch="4 * d.size + ceildiv(d.size, 2)",
    bias="4 * d.size",
    peephole="3 * d.size",
    lengths="d.batch",
    states="2 * d.batch * d.size",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
)
def dynamic_lstm(
    xw: Ptr,
    r: Ptr,
    factor: Ptr,
    scratch: Ptr,
    bias: Ptr,
    peephole: Ptr,
    lengths: Ptr,
    states: Ptr,
    y: Ptr,
    d: QuantizedDirection,
    act: CellFunctions,
    madd: Static,
    part: int,
    parts: int,
) -> int:
    """Compute `lstm` with all steps in one round: xw (steps, batch, 4, size), which is written to, r (size, 4 size) from `pairs` and
    its scales factor (4 size); states (2, batch, size) are h and c, at the start and at the end.

    scratch has room for the product of a quantised hidden state and r, and for the state. Rows of the batch that one of `threads`
    computes in onnxruntime are quantised by one scale; rows that have ended count in it only if y is left out.
    """
    width, half, many = d.vectors * d.lanes, (d.size + 1) // 2, rows_together(d.batch, d.size, d.threads)
    h, c, sums = states, shift(states, d.batch * d.size), scratch
    held = pointer_i16(address(shift(scratch, 4 * d.size)))
    for first in range(0, d.batch, many):
        last = min(first + many, d.batch)
        for step in range(d.steps):
            low, high = extremes(h, first, last, d.size, lengths, d.steps, step, null(y))
            scale = like(h, 1) if low == high else (high - low) / like(h, 255)
            zero = rint(fmin(fmax(-low / scale, like(h, 0)), like(h, 255)))
            for b in range(first, last):
                valid, old, cell = valid_steps(lengths, b, d.steps), shift(h, b * d.size), shift(c, b * d.size)
                t = time_of(step, valid, d.backward)
                if step < valid:
                    quantize_row(old, d.size, held, scale, zero)
                    for j in range(0, 4 * d.size, width):
                        panel, sum_ = shift(r, j * half * 2), shift(sums, j)
                        integer_panel(held, panel, sum_, 0, 1, 4 * d.size - j, half, 1, d.vectors, d.lanes, madd)
                    gates = shift(xw, (t * d.batch + b) * 4 * d.size)
                    for j in range(4 * d.size):
                        total = gates[j] + like(xw, sums[j]) * (scale * factor[j])
                        gates[j] = total if null(bias) else total + bias[j]
                    update_cell(gates, d.size, peephole, cell, old, act, d.size)
                if not null(y):
                    put(old, shift(y, t * d.later + b * d.stride + d.offset), step < valid, d.size)
    return OK


class QuantizedLayer(RecurrentLayer):
    """A layer with weights (directions, inputs, gates * size), 8-bit, with scales and zero points one or one a column."""

    hidden_axis = 1

    def __init__(self, op: NodeLowering) -> None:
        super().__init__(op, 4, LSTM_ACTIVATIONS)
        self._check_weights()
        if op.has(4):
            self.x = self._until_longest()
        self.scale, self.zero = emit_dynamic(op, self.x)
        self.held = op.store(quantize(op, self.x, self.scale, self.zero, "uint8").tensor("uint8"))

    def _check_weights(self) -> None:
        """Require as many scales and zero points as the layer has."""
        op, shape = self.op, (self.directions, self.gates * self.size)
        for parameter in (W_SCALE, W_ZERO, R_SCALE, R_ZERO):
            own = op.raw(parameter).shape
            if len(own) not in (1, 2):
                raise op.reject(f"input {parameter} of rank {len(own)}")
            op.agree(own, shape[: len(own)], f"input {parameter} does not fit directions and gates")

    def _until_longest(self) -> Tensor:
        """Return x with zeros that do not affect its scale after the end of the longest sequence."""
        op, x = self.op, self.x
        made = op.temporary(x.dtype, x.shape)
        sizes: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "width": x.shape[2]}
        op.emit(until_longest, [x, op.input(4), made], **sizes, work=x.size // 4)
        return made

    def block(self, across: int) -> int:
        """Return all hidden units: the product with the recurrence weights is a separate one."""
        return max(self.size, 1)

    def product(self, direction: int, bias: Tensor | None) -> Tensor:
        """Return x @ W[direction], (steps * batch, gates * size), without the bias, which the kernel adds."""
        op, rows, columns = self.op, self.steps * self.batch, self.gates * self.size
        w, zeros, tile = op.constant(W), op.constant(W_ZERO), dot_tile(op.target, self.held.dtype)
        if w is None or zeros is None:
            packed = self._pack_later(W, direction, tile)
        else:
            packed = pack_constant(op, w[direction], zeros[direction], w, f"W {direction}", tile)
        factors = ByteOperands(self.held, self.zero, packed, Matrices(1, rows, columns, op.raw(W).shape[1]), (rows, columns))
        factor = quotient(op, [self.scale, self._row(W_SCALE, direction)])
        return rescale_tensor(op, factors, Rescale("float32", factor))

    def _recurrence(self, direction: int) -> Tensor:
        """Return R[direction] less its zero points as panels of pairs."""
        op, width = self.op, integer_tile(self.op.target).columns
        r, known = op.constant(R), op.constant(R_ZERO)
        if r is None or known is None:
            return self._pack_later(R, direction, None).panels
        zeros = known[direction].astype(np.int16)
        return op.pack(
            r, f"R {direction} {width} {zeros.tobytes()!r}", lambda: pairs(r[direction].astype(np.int16) - zeros, width)
        )

    def _pack_later(self, index: int, direction: int, tile: DotTile | None) -> Packed:
        """Return the weights of a direction, packed at run time."""
        b, zeros = self._row(index, direction), self._row(W_ZERO if index == W else R_ZERO, direction)
        (k, n), columns = b.shape, len(zeros.shape)
        dims: dict[str, Any] = {"batch": 1, "k": k, "n": n, "inner": k, "zero_batch": 0, "zero_column": columns}
        steps: dict[str, Any] = {"step": k * n, "inner_step": n, "outer_step": 0, "column": 1}
        g = Unpacked(**dims, **steps, flip=FLIPS[b.dtype])
        return pack_later(self.op, b, zeros, None, g, tile)

    def _row(self, index: int, direction: int) -> Tensor:
        """Return row `direction` of an input."""
        constant = self.op.constant(index)
        return self.row(self.op.input(index), direction) if constant is None else self.op.array(constant[direction])

    def emit_lstm(self, direction: int) -> None:
        """Emit one direction of the LSTM, and its final states."""
        op, columns, tile = self.op, self.gates * self.size, integer_tile(self.op.target)
        scale, known = self._row(R_SCALE, direction), op.constant(R_SCALE)
        if known is not None:
            scale = op.array(np.broadcast_to(known[direction], (columns,)).astype(np.float32))
        factor = broadcast_to(op, scale, scale.shape, (columns,))
        states, scratch = self.start(direction, 5, 6), op.temporary("int32", (columns + (self.size + 1) // 2,))
        bias, peephole = self.vector(3, direction, (0, 4), 4), self.vector(7, direction, (0,), 3)
        operands = [
            self.product(direction, bias),
            self._recurrence(direction),
            factor,
            scratch,
            bias,
            peephole,
            op.optional(4),
            states,
            self.y,
        ]
        d = QuantizedDirection(*self.direction(direction), op.options.threads, tile.vectors, tile.lanes)
        act = self.cell_functions(direction)
        work = self.steps * self.batch * linear_work(columns * self.size, PRODUCT)
        op.emit(dynamic_lstm, operands, d=d, act=act, madd=tile.madd, work=work, slices=SERIAL)  # a step needs the one before
        self.finish(1, direction, states)
        self.finish(2, direction, states, 1)


@operator("DynamicQuantizeLSTM", domain="com.microsoft", types=frozenset({"float32"}))
def dynamic_quantize_lstm(op: NodeLowering) -> None:
    """Emit an LSTM of integer products: x is quantised as a whole, the hidden state in shares of the batch.

    The result depends on the session's number of threads, as onnxruntime's does: `rows_together`.

    Spec: onnxruntime DynamicQuantizeLSTM-1.
    """
    layer = QuantizedLayer(op)
    for direction in range(layer.directions):
        layer.emit_lstm(direction)
