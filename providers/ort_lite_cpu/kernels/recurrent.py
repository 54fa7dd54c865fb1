"""Kernels of LSTM, GRU and RNN: the time steps of one direction, once the products with the inputs are there."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, Static, exp, fabs, fmax, fmin, like, log1p, native, null, sigmoid, tanh

ACTIVATIONS = {
    "sigmoid": (0.0, 0.0),
    "tanh": (0.0, 0.0),
    "relu": (0.0, 0.0),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
    "softsign": (0.0, 0.0),
    "softplus": (0.0, 0.0),
}
"""Name -> defaults of alpha and beta."""


def activate(x: Any, kind: Static, alpha: float, beta: float) -> Any:
    if kind == "sigmoid":
        return sigmoid(x)
    if kind == "tanh":
        return tanh(x)
    if kind == "relu":
        return fmax(x, like(x, 0))
    if kind == "affine":
        return like(x, alpha) * x + like(x, beta)
    if kind == "leakyrelu":
        return x if x >= like(x, 0) else like(x, alpha) * x
    if kind == "thresholdedrelu":
        return x if x >= like(x, alpha) else like(x, 0)
    if kind == "scaledtanh":
        return like(x, alpha) * tanh(like(x, beta) * x)
    if kind == "hardsigmoid":
        return fmax(like(x, 0), fmin(like(x, 1), like(x, alpha) * x + like(x, beta)))
    if kind == "elu":
        return x if x >= like(x, 0) else like(x, alpha) * (exp(x) - like(x, 1))
    if kind == "softsign":
        return x / (like(x, 1) + fabs(x))
    return fmax(x, like(x, 0)) + log1p(exp(-fabs(x)))


def clipped(x: Any, limit: float) -> Any:
    return fmin(fmax(x, like(x, -limit)), like(x, limit)) if limit > 0 else x


@native(fastmath=REDUCE)
def add_product(h: Ptr, at: int, r: Ptr, width: int, first: int, count: int, size: int, out: Ptr) -> int:
    """out[first : first + count] += h[at : at + size] @ r[:, first : first + count] for r (size, width)."""
    for k in range(size):
        v = h[at + k]
        row = k * width
        for j in range(first, first + count):
            out[j] += v * r[row + j]
    return 0


@native
def time_of(step: int, valid: int, backward: int) -> int:
    """The time, below the number of steps, that a step walks to: backwards from the last valid one, and then on behind it."""
    return valid - 1 - step if backward != 0 and step < valid else step


@native
def update_cell(
    gates: Ptr,
    peephole: Ptr,
    h: Ptr,
    c: Ptr,
    y: Ptr,
    state: int,
    out: int,
    size: int,
    limit: float,
    coupled: int,
    a0: float,
    b0: float,
    a1: float,
    b1: float,
    a2: float,
    b2: float,
    f: Static,
    g: Static,
    k: Static,
) -> None:
    """One LSTM step: h and c from `state` on, and y from `out` on where it is wanted, from the sums of the gates i, o, f, c."""
    for j in range(size):
        old = c[state + j]
        zi, zo, zf, zc = gates[j], gates[size + j], gates[2 * size + j], gates[3 * size + j]
        if not null(peephole):
            zi += peephole[j] * old
            zf += peephole[2 * size + j] * old
        gate_i = activate(clipped(zi, limit), f, a0, b0)
        gate_f = like(old, 1) - gate_i if coupled != 0 else activate(clipped(zf, limit), f, a0, b0)
        new = gate_f * old + gate_i * activate(clipped(zc, limit), g, a1, b1)
        if not null(peephole):
            zo += peephole[size + j] * new
        value = activate(clipped(zo, limit), f, a0, b0) * activate(new, k, a2, b2)
        c[state + j] = new
        h[state + j] = value
        if not null(y):
            y[out + j] = value


@native
@extents(
    xw="steps * batch * 4 * size",
    r="size * 4 * size",
    bias="4 * size",
    peephole="3 * size",
    lengths="batch",
    h="batch * size",
    c="batch * size",
    y="walk(offset, steps, batch * stride, batch, stride, size, 1)",
    gates="4 * size",
)
def lstm(
    xw: Ptr,
    r: Ptr,
    bias: Ptr,
    peephole: Ptr,
    lengths: Ptr,
    h: Ptr,
    c: Ptr,
    y: Ptr,
    gates: Ptr,
    steps: int,
    batch: int,
    size: int,
    backward: int,
    stride: int,
    offset: int,
    limit: float,
    coupled: int,
    a0: float,
    b0: float,
    a1: float,
    b1: float,
    a2: float,
    b2: float,
    f: Static,
    g: Static,
    k: Static,
    part: int,
    parts: int,
) -> int:
    """One direction. xw (steps, batch, 4 size), gates i, o, f, c; r (size, 4 size); h, c (batch, size) start and end states.

    y[(t * batch + b) * stride + offset :] = h after step t; peephole (3 size) i, o, f and lengths (batch) may be null. gates is
    scratch of 4 size.
    """
    for b in range(batch):
        valid = steps if null(lengths) else min(int(lengths[b]), steps)
        for step in range(steps):
            t = time_of(step, valid, backward)
            out = (t * batch + b) * stride + offset
            if step >= valid:
                for j in range(size):
                    if not null(y):
                        y[out + j] = like(y, 0)
                continue
            base = (t * batch + b) * 4 * size
            for j in range(4 * size):
                gates[j] = xw[base + j] if null(bias) else xw[base + j] + bias[j]
            add_product(h, b * size, r, 4 * size, 0, 4 * size, size, gates)
            update_cell(gates, peephole, h, c, y, b * size, out, size, limit, coupled, a0, b0, a1, b1, a2, b2, f, g, k)
    return OK


@native
@extents(
    xw="steps * batch * 3 * size",
    r="size * 3 * size",
    bias="3 * size",
    recurrent_bias="3 * size",
    lengths="batch",
    h="batch * size",
    y="walk(offset, steps, batch * stride, batch, stride, size, 1)",
    gates="4 * size",
)
def gru(
    xw: Ptr,
    r: Ptr,
    bias: Ptr,
    recurrent_bias: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    gates: Ptr,
    steps: int,
    batch: int,
    size: int,
    backward: int,
    stride: int,
    offset: int,
    limit: float,
    linear: int,
    a0: float,
    b0: float,
    a1: float,
    b1: float,
    f: Static,
    g: Static,
    part: int,
    parts: int,
) -> int:
    """One direction. xw (steps, batch, 3 size), gates z, r, h; r (size, 3 size); gates is scratch of 4 size.

    linear: the reset gate is applied after the product with the recurrence weights, as in cuDNN.
    """
    for b in range(batch):
        valid = steps if null(lengths) else min(int(lengths[b]), steps)
        for step in range(steps):
            t = valid - 1 - step if backward != 0 else step
            if step >= valid:
                t = step
            out = (t * batch + b) * stride + offset
            if step >= valid:
                for j in range(size):
                    if not null(y):
                        y[out + j] = like(y, 0)
                continue
            base = (t * batch + b) * 3 * size
            for j in range(3 * size):
                gates[j] = like(h, 0) if null(recurrent_bias) else recurrent_bias[j]
            add_product(h, b * size, r, 3 * size, 0, 3 * size if linear != 0 else 2 * size, size, gates)
            for j in range(2 * size):
                z = gates[j] + xw[base + j]
                gates[j] = activate(clipped(z if null(bias) else z + bias[j], limit), f, a0, b0)
            if linear == 0:
                for j in range(size):
                    gates[3 * size + j] = gates[size + j] * h[b * size + j]
                add_product(gates, 3 * size, r, 3 * size, 2 * size, size, size, gates)
            for j in range(size):
                hidden = gates[2 * size + j] * gates[size + j] if linear != 0 else gates[2 * size + j]
                z = xw[base + 2 * size + j] + hidden
                new = activate(clipped(z if null(bias) else z + bias[2 * size + j], limit), g, a1, b1)
                value = (like(h, 1) - gates[j]) * new + gates[j] * h[b * size + j]
                h[b * size + j] = value
                if not null(y):
                    y[out + j] = value
    return OK


@native
@extents(
    xw="steps * batch * size",
    r="size * size",
    bias="size",
    lengths="batch",
    h="batch * size",
    y="walk(offset, steps, batch * stride, batch, stride, size, 1)",
    gates="size",
)
def rnn(
    xw: Ptr,
    r: Ptr,
    bias: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    gates: Ptr,
    steps: int,
    batch: int,
    size: int,
    backward: int,
    stride: int,
    offset: int,
    limit: float,
    a0: float,
    b0: float,
    f: Static,
    part: int,
    parts: int,
) -> int:
    """One direction. xw (steps, batch, size); r (size, size)."""
    for b in range(batch):
        valid = steps if null(lengths) else min(int(lengths[b]), steps)
        for step in range(steps):
            t = valid - 1 - step if backward != 0 else step
            if step >= valid:
                t = step
            out = (t * batch + b) * stride + offset
            base = (t * batch + b) * size
            if step >= valid:
                for j in range(size):
                    if not null(y):
                        y[out + j] = like(y, 0)
                continue
            for j in range(size):
                gates[j] = xw[base + j] if null(bias) else xw[base + j] + bias[j]
            add_product(h, b * size, r, size, 0, size, size, gates)
            for j in range(size):
                value = activate(clipped(gates[j], limit), f, a0, b0)
                h[b * size + j] = value
                if not null(y):
                    y[out + j] = value
    return OK
