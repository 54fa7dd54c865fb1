"""RNN, GRU and LSTM with all their options."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port, rounded

Activation = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


_FUNCTIONS: dict[str, Callable[[Array, float, float], Any]] = {
    "relu": lambda x, a, b: np.maximum(x, 0),
    "tanh": lambda x, a, b: np.tanh(x),
    "sigmoid": lambda x, a, b: _sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
}
_ALPHA = {"affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
_BETA = {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


class Direction(NamedTuple):
    """The operands of one direction: weights of the gates, biases, initial states, activations."""

    w: Array
    r: Array
    bias: Array
    hidden_bias: Array
    state: Array
    cell: Array
    peepholes: Array | None
    functions: Sequence[Activation]


def _activate(function: Callable[[Array, float, float], Any], alpha: float, beta: float, x: Array) -> Array:
    return rounded(np.asarray(function(rounded(x), alpha, beta)))


def _functions(op_type: str, directions: int, how: dict[str, Any]) -> list[Activation]:
    """The activations of all directions; alphas and betas are taken in order by those that have one."""
    names = [name.lower() for name in how.get("activations") or _DEFAULTS[op_type] * directions]
    alphas, betas = list(how.get("activation_alpha") or ()), list(how.get("activation_beta") or ())
    found: list[Activation] = []
    for name in names:
        alpha, beta = _ALPHA.get(name, 0.0), _BETA.get(name, 0.0)
        if name in _ALPHA and alphas:
            alpha = alphas.pop(0)
        if name in _BETA and betas:
            beta = betas.pop(0)
        found.append(partial(_activate, _FUNCTIONS[name], float(np.float32(alpha)), float(np.float32(beta))))
    return found


def _run(op_type: str, gates: int, step: Callable[..., tuple[Array, Array]], inputs: Sequence[Any], how: dict[str, Any]) -> Any:
    """Run the steps of all directions over the sequences. Returns Y, Y_h and Y_c."""
    operands: list[Any] = [*inputs, *[None] * (8 - len(inputs))]
    x, w, r, b, lengths, state, cell, peepholes = operands
    if how.get("layout", 0):
        x = x.swapaxes(0, 1)
        state, cell = (None if one is None else one.swapaxes(0, 1) for one in (state, cell))
    length, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    count = w.shape[0]
    lengths = np.full(batch, length) if lengths is None else lengths
    functions = _functions(op_type, count, how)
    per = len(functions) // count
    y = np.zeros((length, count, batch, hidden))
    last, last_cell = np.zeros((count, batch, hidden)), np.zeros((count, batch, hidden))
    for k in range(count):
        bias = np.zeros((2, gates * hidden)) if b is None else b[k].reshape(2, -1)
        one = Direction(
            w[k],
            r[k],
            bias[0],
            bias[1],
            np.zeros((batch, hidden)) if state is None else state[k],
            np.zeros((batch, hidden)) if cell is None else cell[k],
            None if peepholes is None else peepholes[k].reshape(3, -1),
            functions[k * per : (k + 1) * per],
        )
        reverse = k == 1 or how.get("direction", "forward") == "reverse"
        for item in range(batch):
            h, c = one.state[item], one.cell[item]
            steps = range(int(lengths[item]))
            for t in reversed(steps) if reverse else steps:
                h, c = step(x[t, item], h, c, one, how)
                y[t, k, item] = h
            last[k, item], last_cell[k, item] = (h, c) if steps else (np.zeros(hidden), np.zeros(hidden))
    if how.get("layout", 0):
        return y.transpose(2, 0, 1, 3), last.swapaxes(0, 1), last_cell.swapaxes(0, 1)
    return y, last, last_cell


def _clipped(x: Array, how: dict[str, Any]) -> Array:
    limit = how.get("clip")
    return x if not limit else np.clip(x, -limit, limit)


def _rnn_step(x: Array, h: Array, c: Array, one: Direction, how: dict[str, Any]) -> tuple[Array, Array]:
    return one.functions[0](_clipped(one.w @ x + one.r @ h + one.bias + one.hidden_bias, how)), c


def _gru_step(x: Array, h: Array, c: Array, one: Direction, how: dict[str, Any]) -> tuple[Array, Array]:
    f, g = one.functions
    wz, wr, wh = np.split(one.w @ x + one.bias, 3)
    rz, rr, rh = np.split(one.r, 3)
    bz, br, bh = np.split(one.hidden_bias, 3)
    update = f(_clipped(wz + rz @ h + bz, how))
    reset = f(_clipped(wr + rr @ h + br, how))
    inner = reset * (rh @ h + bh) if how.get("linear_before_reset", 0) else rh @ (reset * h) + bh
    return (1 - update) * g(_clipped(wh + inner, how)) + update * h, c


def _lstm_step(x: Array, h: Array, c: Array, one: Direction, how: dict[str, Any]) -> tuple[Array, Array]:
    f, g, last = one.functions
    i, o, forget, cell = np.split(one.w @ x + one.r @ h + one.bias + one.hidden_bias, 4)
    if one.peepholes is not None:
        i, forget = i + one.peepholes[0] * c, forget + one.peepholes[2] * c
    entering = f(_clipped(i, how))
    remaining = 1 - entering if how.get("input_forget", 0) else f(_clipped(forget, how))
    c = remaining * c + entering * g(_clipped(cell, how))
    o = o if one.peepholes is None else o + one.peepholes[1] * c
    return f(_clipped(o, how)) * last(c), c


@port("RNN", since=7)
def rnn(*inputs: Any, **how: Any) -> tuple[Array, ...]:
    y, last, _ = _run("RNN", 1, _rnn_step, inputs, how)
    return y, last


@port("GRU", since=7)
def gru(*inputs: Any, **how: Any) -> tuple[Array, ...]:
    y, last, _ = _run("GRU", 3, _gru_step, inputs, how)
    return y, last


@port("LSTM", since=7)
def lstm(*inputs: Any, **how: Any) -> tuple[Array, ...]:
    found: tuple[Array, ...] = _run("LSTM", 4, _lstm_step, inputs, how)
    return found
