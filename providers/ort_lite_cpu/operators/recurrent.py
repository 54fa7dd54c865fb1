"""LSTM, GRU and RNN: every direction, layout, activation, clip, peephole and sequence length.

The products with the inputs of all time steps are one matrix multiplication; a kernel then walks the time steps of one direction.
Gates lie beside each other, so that the product with the hidden state is a sum of rows of the transposed recurrence weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.recurrent import ACTIVATIONS, gru, lstm, rnn
from ort_lite_cpu.lowering.attributes import choice
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_permute, emit_strided
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import Product, emit_computed, emit_packed
from ort_lite_cpu.registry import REAL, operator

LSTM_ACTIVATIONS = ("sigmoid", "tanh", "tanh")


class Layer:
    """What the three operators have in common: inputs in time-major order, states, and outputs written back."""

    hidden_axis = -1
    """Of R: as long as the hidden state."""

    def __init__(self, op: NodeLowering, gates: int, names: Sequence[str]) -> None:
        self.op, self.gates = op, gates
        self.batch_first = bool(op.attr("layout", 0))
        direction = choice(op, "direction", "forward", ("forward", "reverse", "bidirectional"))
        self.directions = 2 if direction == "bidirectional" else 1
        self.backward = [direction == "reverse", True][: self.directions]
        for index, rank in ((1, 3), (2, 3), (3, 2), (4, 1), (5, 3), (6, 3), (7, 2)):
            if op.has(index) and len(op.raw(index).shape) != rank:
                raise op.reject(f"input {index} of rank {len(op.raw(index).shape)}, expected {rank}")
        hidden = op.attr("hidden_size")
        self.size: int = op.dim(2, self.hidden_axis) if hidden is None else hidden
        if self.size < 0:
            raise op.reject(f"hidden_size {self.size}")
        x = op.input(0)
        if self.batch_first:
            moved = op.temporary(x.dtype, (x.shape[1], x.shape[0], x.shape[2]))
            emit_permute(op, x, moved, x.shape, (1, 0, 2))
            x = moved
        self.x = x
        self.steps, self.batch = x.shape[0], x.shape[1]
        self._check_vectors()
        self.limit = float(op.attr("clip", 0.0))
        self.functions = _activations(op, names, self.directions)
        self.y = self._sequence()
        self.h = self.state(5 if op.has(5) else None)

    def _check_vectors(self) -> None:
        batched = (self.batch, self.directions) if self.batch_first else (self.directions, self.batch)
        wanted: dict[int, tuple[str, tuple[Dim, ...]]] = {
            3: ("biases B", (self.directions, 2 * self.gates * self.size)),
            4: ("sequence_lens", (self.batch,)),
            5: ("initial_h", (*batched, self.size)),
            6: ("initial_c", (*batched, self.size)),
            7: ("peepholes P", (self.directions, 3 * self.size)),
        }
        for index, (name, shape) in wanted.items():
            if self.op.has(index):
                self.op.agree(self.op.raw(index).shape, shape, f"dimensions of {name}")

    def check_weights(self) -> None:
        """That W is (directions, gates * size, inputs) and R (directions, gates * size, size)."""
        rows = (self.directions, self.gates * self.size)
        for index, name, columns in ((1, "W", self.x.shape[2]), (2, "R", self.size)):
            self.op.agree(self.op.raw(index).shape, (*rows, columns), f"dimensions of weights {name}")

    def _sequence(self) -> Tensor | None:
        """Memory (steps, batch, directions, size) for all hidden states, if they are asked for."""
        if not self.op.wants(0):
            return None
        return self.op.temporary(self.x.dtype, (self.steps, self.batch, self.directions, self.size))

    def state(self, index: int | None) -> Tensor:
        """A copy (directions, batch, size) of an initial state; zeros when it is left out."""
        from ort_lite_cpu.operators.fill import emit_fill

        op = self.op
        state = op.temporary(self.x.dtype, (self.directions, self.batch, self.size))
        if index is None or not op.has(index):
            emit_fill(op, state, 0)
            return state
        given = op.input(index)
        order = (1, 0, 2) if self.batch_first else (0, 1, 2)
        emit_permute(op, given, state, given.shape, order)
        return state

    def product(self, direction: int) -> Tensor:
        """x @ W[direction].T, (steps * batch, gates * size)."""
        op = self.op
        flat = op.view(self.x, (self.steps * self.batch, self.x.shape[2]))
        out = op.temporary(self.x.dtype, (self.steps * self.batch, self.gates * self.size))
        sizes = Product(self.steps * self.batch, self.gates * self.size, self.x.shape[2], transposed=True)
        w = op.constant(1)
        if w is not None:
            own = w[direction]
            emit_packed(op, sizes, flat, own, source=own, y=out)
            return out
        right = self._transposed(op.input(1), direction)
        emit_computed(op, sizes.replace(transposed=False), flat, right, out)
        return out

    def recurrence(self, direction: int) -> Tensor:
        """R[direction].T, (size, gates * size)."""
        r = self.op.constant(2)
        if r is not None:
            return self.op.packed(r, f"R.T {direction}", lambda: np.ascontiguousarray(r[direction].T))
        return self._transposed(self.op.input(2), direction)

    def _transposed(self, weights: Tensor, direction: int) -> Tensor:
        """weights[direction].T of weights (directions, rows, columns)."""
        _, rows, columns = weights.shape
        made = self.op.temporary(weights.dtype, (columns, rows))
        at = direction * rows * columns
        emit_strided(self.op, weights, made, made.shape, (1, columns), contiguous(made.shape), at)
        return made

    def vector(self, index: int, direction: int, parts: Sequence[tuple[int, int]], form: str) -> Tensor | None:
        """Sum of runs [first, first + length) * size of row `direction` of an optional input (bias, peephole)."""
        op = self.op
        if not op.has(index):
            return None
        array = op.constant(index)
        length = parts[0][1] * self.size
        if array is not None:
            given: Array = array

            def make() -> Array:
                return np.sum([given[direction][first * self.size :][:length] for first, _ in parts], 0, given.dtype)

            return op.packed(given, f"{form} {direction}", make)
        return self._summed(op.input(index), direction, [first for first, _ in parts], length)

    def _summed(self, given: Tensor, direction: int, firsts: Sequence[int], length: int) -> Tensor:
        from ort_lite_cpu.lowering.expression import formula_tensor

        op = self.op
        rows: list[Tensor] = []
        for first in firsts:
            row = op.temporary(given.dtype, (length,))
            at = direction * given.shape[1] + first * self.size
            emit_strided(op, given, row, row.shape, (1,), (1,), at)
            rows.append(row)
        return rows[0] if len(rows) == 1 else op.lowering.stored(formula_tensor(given.dtype, rows[0], "{0} + {1}", rows))

    def state_of(self, states: Tensor, direction: int) -> Tensor:
        """The rows of one direction: a copy, so that a kernel works on memory of its own, written back by `keep`."""
        op = self.op
        if self.directions == 1:
            return op.view(states, (self.batch, self.size))
        row = op.temporary(states.dtype, (self.batch, self.size))
        n = self.batch * self.size
        emit_strided(op, states, row, (n,), (1,), (1,), direction * n)
        return row

    def keep(self, row: Tensor, states: Tensor, direction: int) -> None:
        if self.directions > 1:
            n = self.batch * self.size
            emit_strided(self.op, row, states, (n,), (1,), (1,), 0, direction * n)

    def finish(self, last: Sequence[tuple[int, Tensor]]) -> None:
        """Y (steps, directions, batch, size) or batch first, and the last states."""
        op = self.op
        if self.y is not None:
            order = (1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3)
            emit_permute(op, self.y, op.output(0), self.y.shape, order)
        for index, state in last:
            if op.wants(index):
                order3 = (1, 0, 2) if self.batch_first else (0, 1, 2)
                emit_permute(op, state, op.output(index), state.shape, order3)

    def named(self, direction: int) -> dict[str, Any]:
        """What the kernels ask of a direction, by the names of their parameters."""
        found: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "size": self.size, "limit": self.limit}
        found |= {"stride": self.directions * self.size, "offset": direction * self.size}
        found["backward"] = int(self.backward[direction])
        for number, (name, alpha, beta) in enumerate(self.functions[direction]):
            found |= {"fgk"[number]: name, f"a{number}": alpha, f"b{number}": beta}
        return found

    def lstm_steps(self, direction: int, operands: Sequence[Tensor | None], given: Mapping[str, Any]) -> None:
        """Walks the steps of an LSTM; `operands` are those of the kernel behind the two products."""
        operands = [self.product(direction), self.recurrence(direction), *operands]
        self.op.emit(lstm, operands, **given, work=self.work())

    def work(self) -> Dim:
        return 0  # one thread: every step needs the one before


def _activations(op: NodeLowering, defaults: Sequence[str], directions: int) -> list[list[tuple[str, float, float]]]:
    """For each direction the (name, alpha, beta) of each activation."""
    names = [name.lower() for name in op.attr("activations", [])] or list(defaults) * directions
    if len(names) < len(defaults) * directions:
        raise op.reject(f"{len(names)} activations, expected {len(defaults) * directions}")
    alphas, betas = list(op.attr("activation_alpha", [])), list(op.attr("activation_beta", []))
    found = []
    for name in names:
        if name not in ACTIVATIONS:
            raise op.reject(f"activation {name}; there are {', '.join(ACTIVATIONS)}")
        alpha, beta = ACTIVATIONS[name]
        takes_alpha = name not in ("sigmoid", "tanh", "relu", "softsign", "softplus")
        takes_beta = name in ("affine", "scaledtanh", "hardsigmoid")
        alpha = float(alphas.pop(0)) if takes_alpha and alphas else alpha
        beta = float(betas.pop(0)) if takes_beta and betas else beta
        found.append((name, alpha, beta))
    each = len(defaults)
    return [found[k * each : (k + 1) * each] for k in range(directions)]


@operator("LSTM", types=REAL)
def lower_lstm(op: NodeLowering) -> None:
    """Spec: ONNX LSTM-22."""
    layer = Layer(op, 4, LSTM_ACTIVATIONS)
    layer.check_weights()
    emit_lstm(op, layer)


def emit_lstm(op: NodeLowering, layer: Layer) -> None:
    cells = layer.state(6)
    lengths = op.optional(4)
    for d in range(layer.directions):
        h, c = layer.state_of(layer.h, d), layer.state_of(cells, d)
        gates = op.temporary(layer.x.dtype, (4 * layer.size,))
        bias = layer.vector(3, d, ((0, 4), (4, 4)), "Wb + Rb")
        peephole = layer.vector(7, d, ((0, 3),), "P")
        operands = [bias, peephole, lengths, h, c, layer.y, gates]
        layer.lstm_steps(d, operands, {**layer.named(d), "coupled": op.attr("input_forget", 0)})
        layer.keep(h, layer.h, d)
        layer.keep(c, cells, d)
    layer.finish([(1, layer.h), (2, cells)])


@operator("GRU", types=REAL)
def lower_gru(op: NodeLowering) -> None:
    """Spec: ONNX GRU-22."""
    layer = Layer(op, 3, ("sigmoid", "tanh"))
    layer.check_weights()
    lengths = op.optional(4)
    for d in range(layer.directions):
        h = layer.state_of(layer.h, d)
        gates = op.temporary(layer.x.dtype, (4 * layer.size,))
        bias, recurrent_bias = layer.vector(3, d, ((0, 3),), "Wb"), layer.vector(3, d, ((3, 3),), "Rb")
        xw, r = layer.product(d), layer.recurrence(d)
        operands = [xw, r, bias, recurrent_bias, lengths, h, layer.y, gates]
        op.emit(gru, operands, **layer.named(d), linear=op.attr("linear_before_reset", 0), work=layer.work())
        layer.keep(h, layer.h, d)
    layer.finish([(1, layer.h)])


@operator("RNN", types=REAL)
def lower_rnn(op: NodeLowering) -> None:
    """Spec: ONNX RNN-22."""
    layer = Layer(op, 1, ("tanh",))
    layer.check_weights()
    lengths = op.optional(4)
    for d in range(layer.directions):
        h = layer.state_of(layer.h, d)
        gates = op.temporary(layer.x.dtype, (layer.size,))
        bias = layer.vector(3, d, ((0, 1), (1, 1)), "Wb + Rb")
        xw, r = layer.product(d), layer.recurrence(d)
        operands = [xw, r, bias, lengths, h, layer.y, gates]
        op.emit(rnn, operands, **layer.named(d), work=layer.work())
        layer.keep(h, layer.h, d)
    layer.finish([(1, layer.h)])
