"""Kernels of LSTM, GRU and RNN: the time steps of one direction, once the products with the inputs are there.

A step is a round: parts share its hidden units, and the next round begins when all units have their new state. Units come in blocks of
`unit`, the last one filled up with zeros: what belongs to one block, of every gate, lies together (`interleave`), so that a panel of
the recurrence weights gives all sums that the new state of its block needs. States lie in rows of whole blocks.

`width` is `unit`, as a number that the compiler does not know: loops over so few elements it would unroll, not vectorise.

Long, and one file: three layers that share their rounds, blocks and products.
"""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    Ptr,
    Static,
    exp,
    fabs,
    fmax,
    fmin,
    like,
    log1p,
    native,
    null,
    read_once,
    shift,
    sigmoid,
    span,
    tanh,
)
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, BIAS, SHARES, LeftOperand, TileEpilogue, tile
from ort_lite_cpu.kernels.square import prefetch

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


class Direction(NamedTuple):
    """One direction of a layer. Element (t, b, unit) of the result is at t * later + b * stride + offset + unit."""

    steps: int
    batch: int
    size: int
    backward: int
    later: int
    stride: int
    offset: int


class CellFunctions(NamedTuple):
    """Numbers of an LSTM's activations: a is alpha, b beta. Sums are clipped to `limit` if it is above 0."""

    limit: float
    coupled: int
    """1: the forget gate is 1 less the input gate."""
    a0: float
    b0: float
    a1: float
    b1: float
    a2: float
    b2: float


class GateFunctions(NamedTuple):
    """Numbers of a GRU's activations, as in CellFunctions."""

    limit: float
    a0: float
    b0: float
    a1: float
    b1: float


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


def clip(x: Any, limit: float) -> Any:
    return fmin(fmax(x, like(x, -limit)), like(x, limit)) if limit > 0 else x


@native
@extents(w="walk(at, gates * size, columns, columns, 1)", out="ceildiv(size, unit) * unit * gates * columns")
def interleave(w: Ptr, out: Ptr, at: int, gates: int, size: int, columns: int, unit: int, part: int, parts: int) -> int:
    """Rows of out (blocks, gates, unit, columns): the same of each gate beside each other, from w (gates, size, columns) at `at`.

    Rows behind the last hidden unit are zeros.
    """
    blocks = (size + unit - 1) // unit
    for row in span(blocks * gates * unit, part, parts):
        gate, i = row // unit % gates, row // unit // gates * unit + row % unit
        source = at + (gate * size + i) * columns
        for j in range(columns):
            out[row * columns + j] = w[source + j] if i < size else like(out, 0)
    return OK


@native(inline=False)
def product(
    a: Ptr,
    lda: int,
    b: Ptr,
    c: Ptr,
    ldc: int,
    m: int,
    k: int,
    mode: int,
    bias: Ptr,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """Rows of c (m, vectors * lanes) from rows of a (m, k) and a panel b, `rows` at a time. `mode` is a tile's."""
    i = 0
    while i + rows <= m:
        _tile_at(a, lda, b, c, ldc, i, k, mode, bias, rows, vectors, lanes)
        i += rows
    while rows > 2 and i + 2 <= m:
        _tile_at(a, lda, b, c, ldc, i, k, mode, bias, 2, vectors, lanes)
        i += 2
    if i < m:
        _tile_at(a, lda, b, c, ldc, i, k, mode, bias, 1, vectors, lanes)


@native
def _tile_at(
    a: Ptr,
    lda: int,
    b: Ptr,
    c: Ptr,
    ldc: int,
    i: int,
    k: int,
    mode: int,
    bias: Ptr,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """The tile of c whose first row is i."""
    n, x, y = vectors * lanes, shift(a, i * lda), shift(c, i * ldc)
    tile(
        LeftOperand(x, lda, 0, 1),
        b,
        b,
        y,
        ldc,
        n,
        k,
        TileEpilogue(mode, bias, bias, 0.0, 0.0),
        rows,
        vectors,
        vectors,
        lanes,
        SHARES,
    )


@native
def valid_steps(lengths: Ptr, b: int, steps: int) -> int:
    """Of sequence b of the batch."""
    return steps if null(lengths) else min(int(read_once(lengths, b)), steps)


@native
def time_of(step: int, valid: int, backward: int) -> int:
    """The time, below the number of steps, that a step walks to: backwards from the last valid one, and then on behind it."""
    return valid - 1 - step if backward != 0 and step < valid else step


@native
def alike(lengths: Ptr, count: int, backward: int) -> int:
    """How many of `count` sequences are at the same time in a step: all, but backwards from ends of their own."""
    return 1 if backward != 0 and not null(lengths) else max(count, 1)


@native
def share(batch: int, blocks: int, part: int, parts: int, rows: Static) -> tuple[int, int, int, int]:
    """This part's first and last sequence of the batch, first and last block.

    Sequences are cut where a register tile begins: the bits stay. A cut through the blocks makes parts read each other's states.
    """
    if parts == 1:
        return 0, batch, 0, blocks
    first, last, left, right = grid((batch + rows - 1) // rows, blocks, 1, 0, part, parts)
    return first * rows, min(last * rows, batch), left, right


@native
def alternate(number: int, step: int, left: int, right: int) -> int:
    """Every other step takes the blocks from `left` to `right` backwards: the weights of the last ones are in the cache still."""
    return number if step % 2 == 0 else left + right - 1 - number


@native
def gather(h: Ptr, count: int, parts: int, lanes: Static) -> None:
    """Asks for a state that others have made a part of: its lines come from their caches at once, and not one after the other."""
    if parts > 1:
        for j in range(0, count, lanes):
            prefetch(shift(h, j))


@native
def keep(old: Ptr, new: Ptr, count: int) -> None:
    """Behind the end of a sequence its state stays."""
    for j in range(count):
        new[j] = old[j]


@native
def put(h: Ptr, y: Ptr, alive: bool, count: int) -> None:
    """A step's result: 0 behind the end of a sequence."""
    for j in range(count):
        y[j] = h[j] if alive else like(y, 0)


@native
def put_all(
    h: Ptr, lengths: Ptr, y: Ptr, step: int, d: Direction, padded: int, top: int, bottom: int, first: int, last: int
) -> None:
    """The results of a step of some sequences, of units `first` to `last` that are no filling."""
    if not null(y):
        for b in range(top, bottom):
            valid = valid_steps(lengths, b, d.steps)
            out = shift(y, time_of(step, valid, d.backward) * d.later + b * d.stride + d.offset + first)
            put(shift(h, b * padded + first), out, step < valid, min(last, d.size) - first)


@native
def update_cell(
    gates: Ptr, across: int, peephole: Ptr, c: Ptr, h: Ptr, act: CellFunctions, f: Static, g: Static, k: Static, count: int
) -> None:
    """One LSTM step of `count` units: c and h, from the sums of gates i, o, f, c; those of a gate lie `across` behind the one before.

    peephole: of i, o, f, likewise, or null.
    """
    for j in range(count):
        old = c[j]
        zi, zo, zf, zc = gates[j], gates[across + j], gates[2 * across + j], gates[3 * across + j]
        if not null(peephole):
            zi += peephole[j] * old
            zf += peephole[2 * across + j] * old
        gate_i = activate(clip(zi, act.limit), f, act.a0, act.b0)
        gate_f = like(old, 1) - gate_i if act.coupled != 0 else activate(clip(zf, act.limit), f, act.a0, act.b0)
        new = gate_f * old + gate_i * activate(clip(zc, act.limit), g, act.a1, act.b1)
        if not null(peephole):
            zo += peephole[across + j] * new
        c[j] = new
        h[j] = activate(clip(zo, act.limit), f, act.a0, act.b0) * activate(new, k, act.a2, act.b2)


@native
@extents(
    xw="steps * batch * ceildiv(size, unit) * 4 * unit",
    r="ceildiv(size, unit) * size * 4 * unit",
    peephole="ceildiv(size, unit) * 3 * unit",
    lengths="batch",
    h="2 * batch * ceildiv(size, unit) * unit",
    c="batch * ceildiv(size, unit) * unit",
    y="walk(offset, steps, later, batch, stride, size, 1)",
)
def lstm(
    xw: Ptr,
    r: Ptr,
    peephole: Ptr,
    lengths: Ptr,
    h: Ptr,
    c: Ptr,
    y: Ptr,
    d: Direction,
    width: int,
    act: CellFunctions,
    f: Static,
    g: Static,
    k: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    unit: Static,
    part: int,
    parts: int,
) -> int:
    """A round is a step of one direction. xw (steps, batch, blocks, 4, unit), gates i, o, f, c, is written to; r is a panel of 4 unit
    columns a block, peephole (blocks, 3, unit) i, o, f and lengths (batch) may be null.

    h (2, batch, blocks * unit): step s goes from the half s % 2 to the other one; c (batch, blocks * unit) is start and end state.
    y[t * later + b * stride + offset :] = h after step t.
    """
    step, own = part // parts, part % parts
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    before, after = shift(h, step % 2 * d.batch * padded), shift(h, (1 - step % 2) * d.batch * padded)
    if step >= d.steps:
        return OK
    gather(shift(before, top * padded), (bottom - top) * padded, parts, lanes)
    for number in range(left, right):
        block = alternate(number, step, left, right)
        at, weights = block * unit, shift(r, block * d.size * 4 * unit)
        peep = shift(peephole, 0 if null(peephole) else block * 3 * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            gates = shift(xw, ((t * d.batch + first) * blocks + block) * 4 * unit)
            x = shift(before, first * padded)
            product(x, padded, weights, gates, 4 * padded, many, d.size, ACCUMULATE, x, rows, vectors, lanes)
            for b in range(first, first + many):
                z, old, new = (
                    shift(gates, (b - first) * 4 * padded),
                    shift(before, b * padded + at),
                    shift(after, b * padded + at),
                )
                alive = step < valid_steps(lengths, b, d.steps)
                if alive:
                    cell = shift(c, b * padded + at)
                    update_cell(z, unit, peep, cell, new, act, f, g, k, width)
                else:
                    keep(old, new, width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
@extents(
    xw="steps * batch * ceildiv(size, unit) * 3 * unit",
    r="ceildiv(size, unit) * size * 2 * unit",
    new="ceildiv(size, unit) * size * unit",
    lengths="batch",
    h="batch * ceildiv(size, unit) * unit",
    y="walk(offset, steps, later, batch, stride, size, 1)",
    reset="batch * ceildiv(size, unit) * unit",
)
def gru(
    xw: Ptr,
    r: Ptr,
    new: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    reset: Ptr,
    d: Direction,
    width: int,
    act: GateFunctions,
    f: Static,
    g: Static,
    rows: Static,
    vectors: Static,
    across: Static,
    lanes: Static,
    unit: Static,
    part: int,
    parts: int,
) -> int:
    """Two rounds are a step of one direction: its gates, then its state. xw (steps, batch, blocks, 3, unit), gates z, r, h, is written
    to; r is a panel of 2 unit columns a block, of z and r, `new` one of unit columns; y as in `lstm`.

    h (batch, blocks * unit) is start and end state; reset, of the same size, is scratch: gate r times h.
    """
    turn, own = part // parts, part % parts
    blocks, step, opens = (d.size + unit - 1) // unit, turn // 2, turn % 2 == 0
    top, bottom, left, right = share(d.batch, blocks, own, parts, rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    if step >= d.steps:
        return OK
    gather(shift(h if opens else reset, top * padded), (bottom - top) * padded, parts, lanes)
    for block in range(left, right):
        at, weights, final = block * unit, shift(r, block * d.size * 2 * unit), shift(new, block * d.size * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            gates = shift(xw, ((t * d.batch + first) * blocks + block) * 3 * unit)
            if opens:
                x = shift(h, first * padded)
                product(x, padded, weights, gates, 3 * padded, many, d.size, ACCUMULATE, x, rows, vectors, lanes)
            else:
                x, z = shift(reset, first * padded), shift(gates, 2 * unit)
                product(x, padded, final, z, 3 * padded, many, d.size, ACCUMULATE, x, rows, across, lanes)
            for b in range(first, first + many):
                z, own_h = shift(gates, (b - first) * 3 * padded), shift(h, b * padded + at)
                alive = step < valid_steps(lengths, b, d.steps)
                if alive and opens:
                    open_gates(z, own_h, shift(reset, b * padded + at), act.limit, act.a0, act.b0, f, unit, width)
                elif alive:
                    blend_state(z, shift(z, 2 * unit), own_h, own_h, act.limit, act.a1, act.b1, g, width)
    if not opens:
        put_all(h, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def open_gates(
    gates: Ptr, h: Ptr, reset: Ptr, limit: float, alpha: float, beta: float, f: Static, across: int, count: int
) -> None:
    """From sums to gates z, in place, and r, as reset = r * h."""
    for j in range(count):
        gates[j] = activate(clip(gates[j], limit), f, alpha, beta)
        reset[j] = activate(clip(gates[across + j], limit), f, alpha, beta) * h[j]


@native
def blend_state(
    gate: Ptr, sums: Ptr, h: Ptr, after: Ptr, limit: float, alpha: float, beta: float, g: Static, count: int
) -> None:
    """after = (1 - gate) * g(sums) + gate * h."""
    for j in range(count):
        z = gate[j]
        after[j] = (like(z, 1) - z) * activate(clip(sums[j], limit), g, alpha, beta) + z * h[j]


@native
@extents(
    xw="steps * batch * ceildiv(size, unit) * 3 * unit",
    r="ceildiv(size, unit) * size * 3 * unit",
    recurrent_bias="ceildiv(size, unit) * 3 * unit",
    lengths="batch",
    h="2 * batch * ceildiv(size, unit) * unit",
    y="walk(offset, steps, later, batch, stride, size, 1)",
    sums="batch * ceildiv(size, unit) * 3 * unit",
)
def linear_gru(
    xw: Ptr,
    r: Ptr,
    recurrent_bias: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    sums: Ptr,
    d: Direction,
    width: int,
    act: GateFunctions,
    f: Static,
    g: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    unit: Static,
    part: int,
    parts: int,
) -> int:
    """As `gru`, the reset gate applied after the product with the recurrence weights, as in cuDNN: one round a step, h as in `lstm`.

    r is a panel of 3 unit columns a block, gates z, r, h, and recurrent_bias (blocks, 3, unit); sums are scratch for their products.
    """
    step, own = part // parts, part % parts
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    before, after = shift(h, step % 2 * d.batch * padded), shift(h, (1 - step % 2) * d.batch * padded)
    mode = 0 if null(recurrent_bias) else BIAS
    if step >= d.steps:
        return OK
    for number in range(left, right):
        block = alternate(number, step, left, right)
        at, weights, bias = block * unit, shift(r, block * d.size * 3 * unit), shift(recurrent_bias, block * 3 * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            x, target = shift(before, first * padded), shift(sums, (first * blocks + block) * 3 * unit)
            product(x, padded, weights, target, 3 * padded, many, d.size, mode, bias, rows, vectors, lanes)
            for b in range(first, first + many):
                gates = shift(xw, ((t * d.batch + b) * blocks + block) * 3 * unit)
                hidden, old = shift(sums, (b * blocks + block) * 3 * unit), shift(before, b * padded + at)
                new, alive = shift(after, b * padded + at), step < valid_steps(lengths, b, d.steps)
                if alive:
                    reset_sums(gates, hidden, act.limit, act.a0, act.b0, f, unit, width)
                    blend_state(gates, shift(gates, 2 * unit), old, new, act.limit, act.a1, act.b1, g, width)
                else:
                    keep(old, new, width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def reset_sums(gates: Ptr, hidden: Ptr, limit: float, alpha: float, beta: float, f: Static, across: int, count: int) -> None:
    """In place: gate z from the sums of both products, and the sum of the new state, its hidden share times gate r."""
    for j in range(count):
        gates[j] = activate(clip(gates[j] + hidden[j], limit), f, alpha, beta)
        r = activate(clip(gates[across + j] + hidden[across + j], limit), f, alpha, beta)
        gates[2 * across + j] += r * hidden[2 * across + j]


@native
@extents(
    xw="steps * batch * ceildiv(size, unit) * unit",
    r="ceildiv(size, unit) * size * unit",
    lengths="batch",
    h="2 * batch * ceildiv(size, unit) * unit",
    y="walk(offset, steps, later, batch, stride, size, 1)",
)
def rnn(
    xw: Ptr,
    r: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    d: Direction,
    width: int,
    limit: float,
    a0: float,
    b0: float,
    f: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    unit: Static,
    part: int,
    parts: int,
) -> int:
    """As `lstm`, of one gate and without a cell: xw (steps, batch, blocks, unit), r a panel of unit columns a block."""
    step, own = part // parts, part % parts
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    before, after = shift(h, step % 2 * d.batch * padded), shift(h, (1 - step % 2) * d.batch * padded)
    if step >= d.steps:
        return OK
    for number in range(left, right):
        block = alternate(number, step, left, right)
        at, weights = block * unit, shift(r, block * d.size * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            x, sums = shift(before, first * padded), shift(xw, (t * d.batch + first) * padded + at)
            product(x, padded, weights, sums, padded, many, d.size, ACCUMULATE, x, rows, vectors, lanes)
            for b in range(first, first + many):
                z, new = shift(sums, (b - first) * padded), shift(after, b * padded + at)
                alive = step < valid_steps(lengths, b, d.steps)
                if alive:
                    activate_sums(z, new, limit, a0, b0, f, width)
                else:
                    keep(shift(before, b * padded + at), new, width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def activate_sums(sums: Ptr, h: Ptr, limit: float, alpha: float, beta: float, f: Static, count: int) -> None:
    for j in range(count):
        h[j] = activate(clip(sums[j], limit), f, alpha, beta)
