"""DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are 8-bit, and whose activations are quantised as they come."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, cast, fmax, fmin, like, native, null, rint, shift, span
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.integer import integer_panel, integer_tile, pairs
from ort_lite_cpu.kernels.recurrent import CellFunctions, Direction, put, time_of, update_cell, valid_steps
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.integer_matmul import Matrices, emit_product, pack_constant, quotient
from ort_lite_cpu.operators.quantization import as_float, emit_dynamic, formula, quantize
from ort_lite_cpu.operators.recurrent import LSTM_ACTIVATIONS, Layer, emit_lstm
from ort_lite_cpu.registry import operator

W, R, W_SCALE, W_ZERO, R_SCALE, R_ZERO = 1, 2, 8, 9, 10, 11


@native
def rows_together(batch: int, size: int, threads: int) -> int:
    """Rows of the batch whose hidden states are quantised by one scale: onnxruntime's share of one of `threads`."""
    shared = batch > 4 or (batch >= 2 and size <= 256)
    return max((batch + threads - 1) // threads, 1) if shared else batch


@native
def extremes(h: Ptr, first: int, last: int, size: int, lengths: Ptr, steps: int, step: int, all_rows: bool) -> Any:
    """The least and the greatest of 0 and rows first <= b < last of h (batch, size): of all, or of those that took the last step."""
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
    xw="steps * batch * 4 * size",
    r="ceildiv(4 * size, vectors * lanes) * ceildiv(size, 2) * vectors * lanes * 2",
    factor="4 * size",
    held="2 * ceildiv(size, 2)",
    sums="4 * size",
    bias="4 * size",
    peephole="3 * size",
    lengths="batch",
    h="batch * size",
    c="batch * size",
    y="walk(offset, steps, later, batch, stride, size, 1)",
    gates="4 * size",
)
def dynamic_lstm(
    xw: Ptr,
    r: Ptr,
    factor: Ptr,
    held: Ptr,
    sums: Ptr,
    bias: Ptr,
    peephole: Ptr,
    lengths: Ptr,
    h: Ptr,
    c: Ptr,
    y: Ptr,
    gates: Ptr,
    d: Direction,
    threads: int,
    act: CellFunctions,
    f: Static,
    g: Static,
    k: Static,
    vectors: Static,
    lanes: Static,
    madd: Static,
    part: int,
    parts: int,
) -> int:
    """Compute `lstm` with all steps in one round: xw (steps, batch, 4, size), r (size, 4 size) as `pairs` makes it and its
    scales in factor (4 size); h (batch, size) is start and end state.

    held (size, even) and sums (4 size) are scratch for a quantised hidden state and its product with r. Rows of the batch that one of
    `threads` computes in onnxruntime are quantised by one scale; those that have ended count in it only where y is left
    out.
    """
    width, half, many = vectors * lanes, (d.size + 1) // 2, rows_together(d.batch, d.size, threads)
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
                        integer_panel(held, panel, sum_, 0, 1, 4 * d.size - j, half, 1, vectors, lanes, madd)
                    base = (t * d.batch + b) * 4 * d.size
                    for j in range(4 * d.size):
                        total = xw[base + j] + like(xw, sums[j]) * (scale * factor[j])
                        gates[j] = total if null(bias) else total + bias[j]
                    update_cell(gates, d.size, peephole, cell, old, act, f, g, k, d.size)
                if not null(y):
                    put(old, shift(y, t * d.later + b * d.stride + d.offset), step < valid, d.size)
    return OK


class QuantizedLayer(Layer):
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
        """Require as many weights, scales and zero points as the layer has."""
        op, columns = self.op, self.gates * self.size
        for index, scale, zero, rows in ((W, W_SCALE, W_ZERO, self.x.shape[2]), (R, R_SCALE, R_ZERO, self.size)):
            op.agree(op.raw(index).shape, (self.directions, rows, columns), f"dimensions of weights {'WR'[index == R]}")
            for parameter in (scale, zero):
                own = self._constant(parameter).shape
                if own not in ((self.directions,), (self.directions, columns)):
                    raise op.reject(f"input {parameter} {own}, expected ({self.directions},) or ({self.directions}, {columns})")

    def _until_longest(self) -> Tensor:
        """x, of which what no sequence reaches has no say in its scale."""
        op, x = self.op, self.x
        made = op.temporary(x.dtype, x.shape)
        sizes: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "width": x.shape[2]}
        op.emit(until_longest, [x, op.input(4), made], **sizes, work=x.size // 4)
        return made

    def block(self, across: int) -> int:
        """All: the product with the recurrence weights is one of its own."""
        return max(self.size, 1)

    def product(self, direction: int, bias: Tensor | None) -> Tensor:
        """x @ W[direction], (steps * batch, gates * size); the bias is left to the kernel."""
        op, rows, columns = self.op, self.steps * self.batch, self.gates * self.size
        w, zeros = self._constant(W), self._constant(W_ZERO)
        packed = pack_constant(op, w[direction], zeros[direction], w, f"W {direction}")
        total = op.temporary("int32", (rows, columns))
        emit_product(op, self.held, self.zero, packed, total, Matrices(1, rows, columns, w.shape[1]))
        factor = quotient(op, [self.scale, op.array(self._constant(W_SCALE)[direction])])
        return op.store(formula("{x} * {factor}", as_float(total), factor=factor).tensor())

    def lstm_steps(self, direction: int, states: Sequence[Tensor], given: Mapping[str, Any]) -> Dim:
        op, columns, tile = self.op, self.gates * self.size, integer_tile(self.op.target)
        whole, zeros = self._constant(R), self._constant(R_ZERO)[direction].astype(np.int16)
        form = f"R {direction} {tile.columns} {zeros.tobytes()!r}"
        r = op.pack(whole, form, lambda: pairs(whole[direction].astype(np.int16) - zeros, tile.columns))
        factor = op.array(np.broadcast_to(self._constant(R_SCALE)[direction], (columns,)).astype(np.float32))
        held, sums = op.temporary("int16", (self.size + 1,)), op.temporary("int32", (columns,))
        bias, peephole = self.vector(3, direction, (0, 4), 4), self.vector(7, direction, (0,), 3)
        front = [self.product(direction, bias), r, factor, held, sums, bias, peephole, op.optional(4)]
        lanes: dict[str, Any] = {"vectors": tile.vectors, "lanes": tile.lanes, "madd": tile.madd}
        operands = [*front, *states, self.y, op.temporary(self.x.dtype, (columns,))]
        op.emit(
            dynamic_lstm, operands, **given, **lanes, threads=op.options.threads, work=0
        )  # one thread: every step needs the one before
        return 0

    def _constant(self, index: int) -> Array:
        array = self.op.constant(index)
        if array is None:
            raise self.op.reject("takes constant weights, scales and zero points")
        return array


@operator("DynamicQuantizeLSTM", domain="com.microsoft", types=frozenset({"float32"}))
def dynamic_quantize_lstm(op: NodeLowering) -> None:
    """Integer products of what is quantised as it comes: x as a whole, the hidden state in shares of the batch.

    The result depends on the session's number of threads, as onnxruntime's does: `rows_together`.

    Spec: onnxruntime DynamicQuantizeLSTM-1.
    """
    emit_lstm(op, QuantizedLayer(op))
