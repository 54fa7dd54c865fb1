"""LSTM, GRU and RNN: every direction, layout, activation, clip, peephole and sequence length.

The products with the inputs of all time steps are one matrix multiplication, biases included; a kernel then computes the time steps
of one direction, and adds the products with the hidden state. Threads share the hidden units of each step.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.recipes import derive
from ort_lite.shapes import ceildiv, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.pack import pack_filters, panels
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.kernels.recurrent import (
    ACTIVATIONS,
    KINDS,
    CellFunctions,
    Direction,
    GateFunctions,
    UnitTile,
    clear_idle,
    gru,
    interleave,
    linear_gru,
    lstm,
    rnn,
)
from ort_lite_cpu.lowering.attributes import choice
from ort_lite_cpu.lowering.expression import formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.operators.ranges import require_within
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.run.kernels import Kernels

READ, PRODUCT = 1 / 36, 1 / 90
"""The nanoseconds in which a weight is read, for a tile of sequences, and multiplied, for each sequence."""
GATE, ROUND = 0.25, 80
"""The nanoseconds of a hidden unit's gate, and of each round."""

LSTM_ACTIVATIONS = ("sigmoid", "tanh", "tanh")
"""The default activations of an LSTM."""


class _BlockSizes(NamedTuple):
    """The part of recurrent weights that becomes blocks: gates from gate `first` on, of `size` units, `padded` to whole blocks."""

    direction: int
    first: int
    gates: int
    size: int
    padded: int
    unit: int


def _interleave(array: Array, sizes: _BlockSizes, kernels: Kernels) -> Array:
    direction, first, gates, size, padded, unit = sizes
    rows, columns = array.shape[1], array.shape[2] if array.ndim > 2 else 1
    at = (direction * rows + first * size) * columns
    out = np.empty((gates * padded, *array.shape[2:]), array.dtype)

    def otherwise() -> None:
        rows = np.zeros((gates, padded, columns), array.dtype)
        rows[:, :size] = array.reshape(-1)[at : at + gates * size * columns].reshape(gates, size, columns)
        out[...] = rows.reshape(gates, -1, unit, columns).swapaxes(0, 1).reshape(out.shape)

    given = {"at": at, "gates": gates, "size": size, "columns": columns, "unit": unit}
    run_once(interleave, [np.ascontiguousarray(array), out], kernels, otherwise, **given)
    return out


class RecurrentLayer:
    """The common part of RNN, GRU and LSTM: inputs in time-major order, weights in blocks of hidden units, states, outputs."""

    hidden_axis = -1
    """The axis of R that is as long as the hidden state."""

    def __init__(self, op: NodeLowering, gates: int, names: Sequence[str], across: int = 1) -> None:
        """Check the node's inputs and read its attributes. `across`: vectors of hidden units in a block."""
        self.op, self.gates = op, gates
        self.batch_first = bool(op.attr("layout", 0))
        direction = choice(op, "direction", "forward", ("forward", "reverse", "bidirectional"))
        self.directions = 2 if direction == "bidirectional" else 1
        self.backward = [direction == "reverse", True][: self.directions]
        hidden = op.attr("hidden_size")
        self.size: int = op.dim(2, self.hidden_axis) if hidden is None else hidden
        x = op.input(0)
        if self.batch_first:
            moved = op.temporary(x.dtype, (x.shape[1], x.shape[0], x.shape[2]))
            emit_permute(op, x, moved, x.shape, (1, 0, 2))
            x = moved
        self.x = x
        self.steps, self.batch = x.shape[0], x.shape[1]
        self.lanes = tile_for(x.native, op.target).lanes
        self.unit = self.block(across)
        self.padded = -(-self.size // self.unit) * self.unit
        if op.has(4):
            require_within(op, 4, "the length", self.steps)
        self.limit = float(op.attr("clip", 0.0))
        self.functions = _activations(op, names, self.directions)
        self.y = op.output(0) if op.wants(0) else None
        self.last = {index: op.output(index) for index in (1, 2) if op.wants(index)}

    def block(self, across: int) -> int:
        """Return the number of hidden units in a block."""
        return across * self.lanes

    # --- weights
    def product(self, direction: int, bias: Tensor | None) -> Tensor:
        """Return x @ W[direction].T + bias, (steps * batch, blocks, gates, unit)."""
        op, rows, columns = self.op, self.steps * self.batch, self.gates * self.padded
        flat = op.view(self.x, (rows, self.x.shape[2]))
        out = op.temporary(self.x.dtype, (rows, columns))
        sizes = Product(rows, columns, self.x.shape[2], transposed=True, bias=bias)
        w = op.constant(1)
        if w is None:
            emit_dynamic_gemm(op, sizes, flat, self._compute_blocks(op.input(1), direction, 0, self.gates), out)
        else:
            own = self._constant_blocks(w, direction, 0, self.gates)
            emit_gemm(op, sizes, flat, own, source=w, y=out, form=f"{direction} blocks of {self.unit}")
        return out

    def recurrence(self, direction: int, first: int, gates: int) -> Tensor:
        """Return R[direction].T of `gates` gates from gate `first` on: a panel (size, gates, unit) for each block."""
        op, width = self.op, gates * self.unit
        r = op.constant(2)
        if r is not None:
            form, kernels = f"R {direction} {first} {gates} {self.unit}", op.kernels
            blocks = self._constant_blocks(r, direction, first, gates)
            return op.pack(r, form, lambda: panels(blocks.T, width, kernels))
        rows = self._compute_blocks(op.input(2), direction, first, gates)
        made = op.temporary(rows.dtype, (rows.shape[0], self.size))
        op.emit(pack_filters, [rows, made], groups=1, outputs=rows.shape[0], channels=self.size, taps=1, width=width)
        return made

    def vector(self, index: int, direction: int, firsts: Sequence[int], gates: int) -> Tensor | None:
        """Return the sum of runs of gates of row `direction` of an optional input (bias, peephole), (blocks, gates, unit)."""
        op = self.op
        if not op.has(index):
            return None
        array = op.constant(index)
        if array is not None:
            blocks = [self._constant_blocks(array, direction, first, gates) for first in firsts]
            dtype = array.dtype
            return op.pack(array, f"{index} {direction} {firsts} {gates} {self.unit}", lambda: np.sum(blocks, 0, dtype))
        rows = [self._compute_blocks(op.input(index), direction, first, gates) for first in firsts]
        return rows[0] if len(rows) == 1 else op.store(formula_tensor(rows[0].dtype, rows[0], "{0} + {1}", rows))

    def _constant_blocks(self, array: Array, direction: int, first: int, gates: int) -> Array:
        """Return rows (blocks, gates, unit), flat, of weights (directions, rows, columns) or vectors (directions, rows)."""
        sizes = _BlockSizes(direction, first, gates, self.size, self.padded, self.unit)
        return derive(_interleave, array, sizes, self.op.kernels)

    def _compute_blocks(self, given: Tensor, direction: int, first: int, gates: int) -> Tensor:
        """Return the weights in blocks, like `_constant_blocks`, interleaved at run time."""
        rows, columns = given.shape[1], given.shape[2] if len(given.shape) > 2 else 1
        out = self.op.temporary(given.dtype, (gates * self.padded, *given.shape[2:]))
        at = (direction * rows + first * self.size) * columns
        self.op.emit(interleave, [given, out], at=at, gates=gates, size=self.size, columns=columns, unit=self.unit)
        return out

    def row(self, x: Tensor, direction: int) -> Tensor:
        """Return x[direction] of x (directions, ...)."""
        own = x.shape[1:]
        if self.directions == 1:
            return self.op.view(x, own)
        made, size = self.op.temporary(x.dtype, own), product(own)
        emit_strided_copy(self.op, x, made, (size,), (1,), (1,), direction * size)
        return made

    # --- states
    def start(self, direction: int, *inputs: int | None) -> Tensor:
        """Return states (len(inputs), batch, padded): initial states, zeros for inputs that are left out; None: any values.

        Those of sequences without steps are zeros.
        """
        from ort_lite_cpu.operators.fill import emit_fill

        op = self.op
        states = op.temporary(self.x.dtype, (len(inputs), self.batch, self.padded))
        if any(index is not None and not op.has(index) for index in inputs):
            emit_fill(op, states, 0)
        stride, at = self._row_of_state(direction)
        dims, steps, own = (self.batch, self.size), (stride, 1), (self.padded, 1)
        for number, index in enumerate(inputs):
            if index is not None and op.has(index):
                emit_strided_copy(op, op.input(index), states, dims, steps, own, at, number * self.batch * self.padded)
        if op.has(4) or not isinstance(self.steps, int) or self.steps == 0:
            sizes: dict[str, Any] = {"steps": self.steps, "count": len(inputs), "batch": self.batch, "width": self.padded}
            op.emit(clear_idle, [op.optional(4), states], **sizes, work=states.size)
        return states

    def finish(self, index: int, direction: int, state: Tensor, half: Dim = 0) -> None:
        """Write the last state, which is in that half of `state`, to output `index` if it is wanted."""
        if index not in self.last:
            return
        stride, at = self._row_of_state(direction)
        dims, source = (self.batch, self.size), half * self.batch * self.padded
        emit_strided_copy(self.op, state, self.last[index], dims, (self.padded, 1), (stride, 1), source, at)

    def _row_of_state(self, direction: int) -> tuple[Dim, Dim]:
        """Return (step between sequences, offset of the direction) in (directions, batch, size), or batch first."""
        if self.batch_first:
            return self.directions * self.size, direction * self.size
        return self.size, direction * self.batch * self.size

    # --- the kernels
    def direction(self, direction: int) -> Direction:
        """Return the sizes of one direction, and where its results lie."""
        stride, offset = self._row_of_state(direction)
        later = self.directions * self.batch * self.size
        steps = (stride, self.steps * stride) if self.batch_first else (later, stride)
        sizes: Any = (self.steps, self.batch, self.size, int(self.backward[direction]), *steps, offset)
        return Direction(*sizes)

    def numbers(self, direction: int) -> list[Any]:
        """Return kind, alpha and beta of each activation of one direction, flat."""
        return [number for name, *others in self.functions[direction] for number in (KINDS.index(name), *others)]

    def tile_arguments(self, gates: int, calls: int = 1) -> dict[str, Any]:
        """Return the register tile of panels of `gates` gates, and the work and rounds of all steps, as arguments of `emit`.

        calls: the rounds of one step.
        """
        rows, across = 4 if self.op.target.vector_registers == 32 else 2, self.unit // self.lanes
        tile = UnitTile(self.unit, self.unit, rows, gates * across, across, self.lanes)
        weights = self.gates * self.size * self.size
        step = ceildiv(self.batch, rows) * linear_work(weights, READ) + self.batch * linear_work(weights, PRODUCT)
        step = step + linear_work(self.batch * self.gates * self.size, GATE) + calls * ROUND
        return {"tile": tile, "work": self.steps * step, "rounds": calls * self.steps}

    def cell_functions(self, direction: int) -> CellFunctions:
        """Return the activations of an LSTM."""
        return CellFunctions(self.limit, self.op.attr("input_forget", 0), *self.numbers(direction))

    def emit_lstm(self, direction: int) -> None:
        """Emit one direction of an LSTM, and its final hidden and cell states."""
        h, c = self.start(direction, 5, None), self.start(direction, 6)
        bias, peephole = self.vector(3, direction, (0, 4), 4), self.vector(7, direction, (0,), 3)
        xw, r = self.product(direction, bias), self.recurrence(direction, 0, 4)
        operands = [xw, r, peephole, self.op.optional(4), h, c, self.y]
        d, act = self.direction(direction), self.cell_functions(direction)
        self.op.emit(lstm, operands, d=d, act=act, **self.tile_arguments(4))
        self.finish(1, direction, h, self.steps % 2)
        self.finish(2, direction, c)


def _activations(op: NodeLowering, defaults: Sequence[str], directions: int) -> list[list[tuple[str, float, float]]]:
    """Return the (name, alpha, beta) of each activation, for each direction."""
    names = [name.lower() for name in op.attr("activations", [])] or list(defaults) * directions
    if len(names) < len(defaults) * directions:
        raise op.reject(f"{len(names)} activations, expected {len(defaults) * directions}")
    alphas, betas = list(op.attr("activation_alpha", [])), list(op.attr("activation_beta", []))
    found = []
    for name in names:
        if name not in ACTIVATIONS:
            raise op.reject(f"activation {name}; there are {', '.join(ACTIVATIONS)}")
        alpha, beta = (float(np.float32(number)) for number in ACTIVATIONS[name])  # as attributes are
        takes_alpha = name not in ("sigmoid", "tanh", "relu", "softsign", "softplus")
        takes_beta = name in ("affine", "scaledtanh", "hardsigmoid")
        alpha = float(alphas.pop(0)) if takes_alpha and alphas else alpha
        beta = float(betas.pop(0)) if takes_beta and betas else beta
        found.append((name, alpha, beta))
    each = len(defaults)
    return [found[k * each : (k + 1) * each] for k in range(directions)]


@operator("LSTM", types=REAL)
def lower_lstm(op: NodeLowering) -> None:
    """Emit LSTM. Spec: ONNX LSTM-22."""
    layer = RecurrentLayer(op, 4, LSTM_ACTIVATIONS)
    for direction in range(layer.directions):
        layer.emit_lstm(direction)


@operator("GRU", types=REAL)
def lower_gru(op: NodeLowering) -> None:
    """Emit GRU. Spec: ONNX GRU-22."""
    linear = bool(op.attr("linear_before_reset", 0))
    layer = RecurrentLayer(op, 3, ("sigmoid", "tanh"), across=1 if linear else 2)
    for direction in range(layer.directions):
        (_linear_gru if linear else _gru)(layer, direction)


def _gru(layer: RecurrentLayer, direction: int) -> None:
    op, h = layer.op, layer.start(direction, 5)
    xw = layer.product(direction, layer.vector(3, direction, (0, 3), 3))
    reset = op.temporary(h.dtype, (layer.batch, layer.padded))
    r, new = layer.recurrence(direction, 0, 2), layer.recurrence(direction, 2, 1)
    d, act = layer.direction(direction), GateFunctions(layer.limit, *layer.numbers(direction))
    operands = [xw, r, new, op.optional(4), h, layer.y, reset]
    op.emit(gru, operands, d=d, act=act, **layer.tile_arguments(2, calls=2))
    layer.finish(1, direction, h)


def _linear_gru(layer: RecurrentLayer, direction: int) -> None:
    op, h = layer.op, layer.start(direction, 5, None)
    xw, recurrent_bias = layer.product(direction, layer.vector(3, direction, (0,), 3)), layer.vector(3, direction, (3,), 3)
    sums = op.temporary(h.dtype, (layer.batch, 3 * layer.padded))
    d, act = layer.direction(direction), GateFunctions(layer.limit, *layer.numbers(direction))
    operands = [xw, layer.recurrence(direction, 0, 3), recurrent_bias, op.optional(4), h, layer.y, sums]
    op.emit(linear_gru, operands, d=d, act=act, **layer.tile_arguments(3))
    layer.finish(1, direction, h, layer.steps % 2)


@operator("RNN", types=REAL)
def lower_rnn(op: NodeLowering) -> None:
    """Emit RNN. Spec: ONNX RNN-22."""
    layer = RecurrentLayer(op, 1, ("tanh",), across=2)
    for direction in range(layer.directions):
        h = layer.start(direction, 5, None)
        xw = layer.product(direction, layer.vector(3, direction, (0, 1), 1))
        operands = [xw, layer.recurrence(direction, 0, 1), op.optional(4), h, layer.y]
        d, (f, a0, b0) = layer.direction(direction), layer.numbers(direction)
        tile = layer.tile_arguments(1)
        op.emit(rnn, operands, d=d, limit=layer.limit, f=f, a0=a0, b0=b0, **tile)
        layer.finish(1, direction, h, layer.steps % 2)
