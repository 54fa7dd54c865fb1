"""Recurrent networks: one step of lax.scan per element of the sequence."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ort_lite.graph import Node
from ort_lite_xla.operators.activations import PARAMETERS, activate
from ort_lite_xla.operators.widening import in_float32
from ort_lite_xla.registry import FLOATS, Array, XlaOp, lowering

State = tuple[Array, ...]
Cell = Callable[[Array, State], State]
LSTM_DEFAULTS = ("Sigmoid", "Tanh", "Tanh")
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": LSTM_DEFAULTS, "DynamicQuantizeLSTM": LSTM_DEFAULTS}
TYPES = (FLOATS, FLOATS, FLOATS, FLOATS, frozenset({"int32"}), FLOATS)


def plain_activations(node: Node) -> str | None:
    """Check that the activations of a recurrent node are known ones without parameters."""
    unknown = [name for name in node.attr("activations") or () if name not in PARAMETERS]
    if unknown:
        return f"activation {unknown[0]!r}"
    given = [name for name in ("activation_alpha", "activation_beta") if node.attr(name)]
    return f"{given[0]} is not supported" if given else None


def _function(name: str) -> Callable[[Array], Array]:
    return lambda x: activate(name, x)


def _activations(op: XlaOp, direction: int) -> list[Callable[[Array], Array]]:
    defaults = DEFAULTS[op.node.op_type]
    names = op.attr("activations") or ()
    chosen = names[direction * len(defaults) : (direction + 1) * len(defaults)] or defaults
    return [_function(name) for name in chosen]


def _clip(op: XlaOp, x: Array) -> Array:
    limit = op.attr("clip")
    return x if limit is None else jnp.clip(x, -limit, limit)


def _scan(x: Array, lengths: Array, first: State, cell: Cell, reverse: bool) -> tuple[Array, State]:
    """Return all hidden states (T, N, H), 0 past the end of a sequence, and the last states."""
    if reverse and lengths is not None:
        every, last = _scan(_turn(x, lengths), lengths, first, cell, False)
        return _turn(every, lengths), last
    steps = jnp.arange(x.shape[0])

    def step(state: State, element: tuple[Array, Array]) -> tuple[State, Array]:
        part, time = element
        new = tuple(after.astype(before.dtype) for after, before in zip(cell(part, state), state, strict=True))
        if lengths is None:
            return new, new[0]
        inside = (time < lengths)[:, None]
        kept = tuple(jnp.where(inside, after, before) for after, before in zip(new, state, strict=True))
        return kept, jnp.where(inside, new[0], 0)

    last, every = lax.scan(step, first, (x, steps), reverse=reverse)
    return every, last


def _turn(x: Array, lengths: Array) -> Array:
    """Return x (T, N, ...) with the elements of each sequence in reverse order, and the others where they were."""
    steps, lengths = jnp.arange(x.shape[0])[:, None], jnp.minimum(lengths, x.shape[0])
    return jnp.take_along_axis(x, jnp.where(steps < lengths, lengths - 1 - steps, steps)[..., None], 0)


def _start(x: Array, lengths: Array, state: Array) -> Array:
    """Return initial states (N, ...) of which those of sequences without steps are 0, as in onnxruntime."""
    if not x.shape[0]:
        return jnp.zeros_like(state)
    return state if lengths is None else jnp.where((lengths > 0)[:, None], state, 0)


def recurrent(
    op: XlaOp, x: Array, lengths: Array, hidden: int, states: Sequence[Array], make: Callable[[int], Cell], parts: Any
) -> tuple[Array, ...]:
    """Return Y and the last states, of one or two directions, in the layout of the attribute."""
    batch_first = bool(op.attr("layout", 0))
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    direction = op.attr("direction", "forward")
    ways = 2 if direction == "bidirectional" else 1
    given = [None if s is None else (jnp.swapaxes(s, 0, 1) if batch_first else s) for s in states]
    every, lasts = [], []
    for way in range(ways):
        first = tuple(jnp.zeros((x.shape[1], hidden), x.dtype) if s is None else _start(x, lengths, s[way]) for s in given)
        outputs, last = _scan(parts(x, way), lengths, first, make(way), direction == "reverse" or way == 1)
        every.append(outputs)
        lasts.append(last)
    y = jnp.stack(every, 1)
    ends = [jnp.stack([last[k] for last in lasts]) for k in range(len(states))]
    if batch_first:
        return jnp.transpose(y, (2, 0, 1, 3)), *(jnp.swapaxes(end, 0, 1) for end in ends)
    return y, *ends


def _multiply_input(w: Array, b: Array, hidden: int, gates: int) -> Callable[[Array, int], Array]:
    """Return the contribution of the input to all gates, for the whole sequence at once: (T, N, gates * hidden)."""

    def parts(x: Array, way: int) -> Array:
        product = jnp.matmul(x, w[way].T)
        return product if b is None else product + b[way, : gates * hidden]

    return parts


def _recurrent_bias(b: Array, way: int, gates: int, hidden: int) -> Array:
    return 0 if b is None else b[way, gates * hidden :]


@lowering("RNN", since=7, types=TYPES, check=plain_activations)
@in_float32
def rnn(op: XlaOp, x: Array, w: Array, r: Array, b: Array = None, lengths: Array = None, h: Array = None) -> tuple[Array, ...]:
    """Compute h = f(x W + h R + b). Spec: ONNX RNN-22."""
    hidden = r.shape[-1]

    def make(way: int) -> Cell:
        (f,) = _activations(op, way)

        def cell(part: Array, state: State) -> State:
            return (f(_clip(op, part + state[0] @ r[way].T + _recurrent_bias(b, way, 1, hidden))),)

        return cell

    return recurrent(op, x, lengths, hidden, [h], make, _multiply_input(w, b, hidden, 1))


@lowering("GRU", since=7, types=TYPES, check=plain_activations)
@in_float32
def gru(op: XlaOp, x: Array, w: Array, r: Array, b: Array = None, lengths: Array = None, h: Array = None) -> tuple[Array, ...]:
    """Compute a GRU with gates z, r, h in this order, the reset gate before or after the product with R. Spec: ONNX GRU-22."""
    hidden = r.shape[-1]

    def make(way: int) -> Cell:
        f, g = _activations(op, way)
        bias = _recurrent_bias(b, way, 3, hidden)
        split = (0, 0) if b is None else (bias[: 2 * hidden], bias[2 * hidden :])

        def cell(part: Array, state: State) -> State:
            (before,) = state
            gates = f(_clip(op, part[:, : 2 * hidden] + before @ r[way, : 2 * hidden].T + split[0]))
            update, reset = gates[:, :hidden], gates[:, hidden:]
            if op.attr("linear_before_reset", 0):
                recurrent = reset * (before @ r[way, 2 * hidden :].T + split[1])
            else:
                recurrent = (reset * before) @ r[way, 2 * hidden :].T + split[1]
            new = g(_clip(op, part[:, 2 * hidden :] + recurrent))
            return ((1 - update) * new + update * before,)

        return cell

    return recurrent(op, x, lengths, hidden, [h], make, _multiply_input(w, b, hidden, 3))


def lstm_update(op: XlaOp, way: int, peepholes: Array) -> Callable[[Array, Array], State]:
    """Return the function that computes the next h and c of one direction from the sums of the gates and the last c."""
    f, g, out = _activations(op, way)
    p_i, p_o, p_f = (0, 0, 0) if peepholes is None else jnp.split(peepholes[way], 3)

    def update(sums: Array, memory: Array) -> State:
        i, o, forget, new = jnp.split(sums, 4, axis=-1)
        i = f(_clip(op, i + p_i * memory))
        forget = 1 - i if op.attr("input_forget", 0) else f(_clip(op, forget + p_f * memory))
        kept = forget * memory + i * g(_clip(op, new))
        o = f(_clip(op, o + p_o * kept))
        return o * out(kept), kept

    return update


@lowering("LSTM", since=7, types=TYPES, check=plain_activations)
@in_float32
def lstm(
    op: XlaOp,
    x: Array,
    w: Array,
    r: Array,
    b: Array = None,
    lengths: Array = None,
    h: Array = None,
    c: Array = None,
    peepholes: Array = None,
) -> tuple[Array, ...]:
    """Compute an LSTM with gates i, o, f, c in this order. Spec: ONNX LSTM-22."""
    hidden = r.shape[-1]

    def make(way: int) -> Cell:
        update, bias = lstm_update(op, way, peepholes), _recurrent_bias(b, way, 4, hidden)

        def cell(part: Array, state: State) -> State:
            before, memory = state
            return update(part + before @ r[way].T + bias, memory)

        return cell

    return recurrent(op, x, lengths, hidden, [h, c], make, _multiply_input(w, b, hidden, 4))
