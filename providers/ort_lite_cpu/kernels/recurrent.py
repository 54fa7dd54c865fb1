"""Kernels of LSTM, GRU and RNN: the time steps of one direction, after the products with the inputs.

A step is a round: parts share its hidden units, and the next round begins when all units have their new state. Units come in blocks of
`unit`, the last one filled up with zeros. The weights of all gates of a block are adjacent (`interleave`), so that a panel of the
recurrence weights gives all sums that the new state of its block needs. States lie in rows of whole blocks.

The file is long because three layers share their rounds, blocks and products.
"""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    Ptr,
    Static,
    StaticInt,
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
KINDS = tuple(ACTIVATIONS)
"""Names of the activations by the numbers that kernels take."""
SIGMOID, TANH, RELU, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, _ = range(len(KINDS))


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
    """The activations f, g and k of an LSTM: kind, alpha (a) and beta (b). Sums are clipped to `limit` if it is above 0."""

    limit: float
    coupled: int
    """1: the forget gate is 1 less the input gate."""
    f: StaticInt
    a0: float
    b0: float
    g: StaticInt
    a1: float
    b1: float
    k: StaticInt
    a2: float
    b2: float


class GateFunctions(NamedTuple):
    """The activations f and g of a GRU, as in CellFunctions."""

    limit: float
    f: StaticInt
    a0: float
    b0: float
    g: StaticInt
    a1: float
    b1: float


class UnitTile(NamedTuple):
    """The register tile for a panel of recurrence weights: `rows` sequences and the gates of one block of hidden units."""

    unit: StaticInt
    """Hidden units in a block."""
    width: int
    """The same as `unit`, unknown to the compiler, which would unroll loops over so few elements instead of vectorising them."""
    rows: StaticInt
    vectors: StaticInt
    """Vectors of all gates."""
    across: StaticInt
    """Vectors of one gate."""
    lanes: StaticInt


def activate(x: Any, kind: Static, alpha: float, beta: float) -> Any:
    """Return the activation of x."""
    if kind == SIGMOID:
        return sigmoid(x)
    if kind == TANH:
        return tanh(x)
    if kind == RELU:
        return fmax(x, like(x, 0))
    if kind == AFFINE:
        return like(x, alpha) * x + like(x, beta)
    if kind == LEAKY_RELU:
        return x if x >= like(x, 0) else like(x, alpha) * x
    if kind == THRESHOLDED_RELU:
        return x if x >= like(x, alpha) else like(x, 0)
    if kind == SCALED_TANH:
        return like(x, alpha) * tanh(like(x, beta) * x)
    if kind == HARD_SIGMOID:
        return fmax(like(x, 0), fmin(like(x, 1), like(x, alpha) * x + like(x, beta)))
    if kind == ELU:
        return x if x >= like(x, 0) else like(x, alpha) * (exp(x) - like(x, 1))
    if kind == SOFTSIGN:
        return x / (like(x, 1) + fabs(x))
    return fmax(x, like(x, 0)) + log1p(exp(-fabs(x)))


def clip(x: Any, limit: float) -> Any:
    """Return x within [-limit, limit], or x itself if `limit` is not above 0."""
    return fmin(fmax(x, like(x, -limit)), like(x, limit)) if limit > 0 else x


@native
@extents(w="walk(at, gates * size, columns, columns, 1)", out="ceildiv(size, unit) * unit * gates * columns")
def interleave(w: Ptr, out: Ptr, at: int, gates: int, size: int, columns: int, unit: int, part: int, parts: int) -> int:
    """out (blocks, gates, unit, columns) = w[at:] (gates, size, columns), rows of one block of all gates beside each other.

    Rows after the last hidden unit are zeros.
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
    """c (m, vectors * lanes) = a (m, k) @ b, a panel, with the `mode` and bias of a tile's epilogue, `rows` rows at a time."""
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
    """Compute the tile of c whose first row is i."""
    x, y = LeftOperand(shift(a, i * lda), lda, 0, 1), shift(c, i * ldc)
    end = TileEpilogue(mode, bias, bias, 0.0, 0.0)
    tile(x, b, b, y, ldc, vectors * lanes, k, end, rows, vectors, vectors, lanes, SHARES)


@native
def valid_steps(lengths: Ptr, b: int, steps: int) -> int:
    """Return the number of steps of sequence b of the batch."""
    return steps if null(lengths) else min(int(read_once(lengths, b)), steps)


@native
@extents(lengths="batch", states="count * batch * width")
def clear_idle(lengths: Ptr, states: Ptr, steps: int, count: int, batch: int, width: int, part: int, parts: int) -> int:
    """Set states (count, batch, width) of sequences without steps to 0, as onnxruntime does. lengths may be null."""
    for row in span(count * batch, part, parts):
        if valid_steps(lengths, row % batch, steps) <= 0:
            for j in range(width):
                states[row * width + j] = like(states, 0)
    return OK


@native
def time_of(step: int, valid: int, backward: int) -> int:
    """Return the time of a step: backwards from the last valid time, then forwards after it."""
    return valid - 1 - step if backward != 0 and step < valid else step


@native
def alike(lengths: Ptr, count: int, backward: int) -> int:
    """Return how many of `count` sequences are at the same time in a step: all, unless they run backwards from different ends."""
    return 1 if backward != 0 and not null(lengths) else max(count, 1)


@native
def share(batch: int, blocks: int, part: int, parts: int, rows: Static) -> tuple[int, int, int, int]:
    """Return this part's first and last sequence of the batch, first and last block.

    Sequences are cut where a register tile begins, which keeps results bit-identical. A cut through the blocks makes parts read each
    other's states.
    """
    if parts == 1:
        return 0, batch, 0, blocks
    first, last, left, right = grid((batch + rows - 1) // rows, blocks, 1, 0, part, parts)
    return first * rows, min(last * rows, batch), left, right


@native
def alternate(number: int, step: int, left: int, right: int) -> int:
    """Return the block of a turn: every other step goes backwards from `right`, whose last weights are still in the cache."""
    return number if step % 2 == 0 else left + right - 1 - number


@native
def gather(h: Ptr, count: int, parts: int, lanes: Static) -> None:
    """Prefetch a state of which other cores wrote a part: its lines come from their caches together, not one by one."""
    if parts > 1:
        for j in range(0, count, lanes):
            prefetch(shift(h, j))


@native
def keep(old: Ptr, new: Ptr, count: int) -> None:
    """Copy the state of a sequence that has ended."""
    for j in range(count):
        new[j] = old[j]


@native
def put(h: Ptr, y: Ptr, alive: bool, count: int) -> None:
    """Write the result of a step: 0 after the end of a sequence."""
    for j in range(count):
        y[j] = h[j] if alive else like(y, 0)


@native
def put_all(
    h: Ptr, lengths: Ptr, y: Ptr, step: int, d: Direction, padded: int, top: int, bottom: int, first: int, last: int
) -> None:
    """Write the results of a step of sequences `top` to `bottom`, units `first` to `last` without the filling."""
    if not null(y):
        for b in range(top, bottom):
            valid = valid_steps(lengths, b, d.steps)
            out = shift(y, time_of(step, valid, d.backward) * d.later + b * d.stride + d.offset + first)
            put(shift(h, b * padded + first), out, step < valid, min(last, d.size) - first)


@native
def update_cell(gates: Ptr, across: int, peephole: Ptr, c: Ptr, h: Ptr, act: CellFunctions, count: int) -> None:
    """Update c and h of `count` units by one LSTM step, from the sums of gates i, o, f, c, which are `across` elements apart.

    peephole: of i, o, f, likewise, or null.
    """
    for j in range(count):
        old = c[j]
        zi, zo, zf, zc = gates[j], gates[across + j], gates[2 * across + j], gates[3 * across + j]
        if not null(peephole):
            zi += peephole[j] * old
            zf += peephole[2 * across + j] * old
        gate_i = activate(clip(zi, act.limit), act.f, act.a0, act.b0)
        gate_f = like(old, 1) - gate_i if act.coupled != 0 else activate(clip(zf, act.limit), act.f, act.a0, act.b0)
        new = gate_f * old + gate_i * activate(clip(zc, act.limit), act.g, act.a1, act.b1)
        if not null(peephole):
            zo += peephole[across + j] * new
        c[j] = new
        h[j] = activate(clip(zo, act.limit), act.f, act.a0, act.b0) * activate(new, act.k, act.a2, act.b2)


@native
@extents(
    xw="d.steps * d.batch * ceildiv(d.size, tile.unit) * 4 * tile.unit",
    r="ceildiv(d.size, tile.unit) * d.size * 4 * tile.unit",
    peephole="ceildiv(d.size, tile.unit) * 3 * tile.unit",
    lengths="d.batch",
    h="2 * d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    c="d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
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
    act: CellFunctions,
    tile: UnitTile,
    part: int,
    parts: int,
) -> int:
    """y[t * later + b * stride + offset :] (size,) = h after step t: gates i, o, f, c = xw (steps, batch, blocks, 4, unit) + h @ r.

    A round is a step of one direction. xw is written to; r is a panel of 4 unit columns a block; peephole (blocks, 3, unit) of i, o,
    f and lengths (batch) may be null. h (2, batch, blocks * unit): step s goes from the half s % 2 to the other one;
    c (batch, blocks * unit) is start and end state. Spec: ONNX LSTM-22.
    """
    step, own, unit = part // parts, part % parts, tile.unit
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, tile.rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    before, after = shift(h, step % 2 * d.batch * padded), shift(h, (1 - step % 2) * d.batch * padded)
    if step >= d.steps:
        return OK
    gather(shift(before, top * padded), (bottom - top) * padded, parts, tile.lanes)
    for number in range(left, right):
        block = alternate(number, step, left, right)
        at, weights = block * unit, shift(r, block * d.size * 4 * unit)
        peep = shift(peephole, 0 if null(peephole) else block * 3 * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            gates = shift(xw, ((t * d.batch + first) * blocks + block) * 4 * unit)
            x = shift(before, first * padded)
            product(x, padded, weights, gates, 4 * padded, many, d.size, ACCUMULATE, x, tile.rows, tile.vectors, tile.lanes)
            for b in range(first, first + many):
                old, new = shift(before, b * padded + at), shift(after, b * padded + at)
                z, alive = shift(gates, (b - first) * 4 * padded), step < valid_steps(lengths, b, d.steps)
                if alive:
                    cell = shift(c, b * padded + at)
                    update_cell(z, unit, peep, cell, new, act, tile.width)
                else:
                    keep(old, new, tile.width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
@extents(
    xw="d.steps * d.batch * ceildiv(d.size, tile.unit) * 3 * tile.unit",
    r="ceildiv(d.size, tile.unit) * d.size * 2 * tile.unit",
    new="ceildiv(d.size, tile.unit) * d.size * tile.unit",
    lengths="d.batch",
    h="d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
    reset="d.batch * ceildiv(d.size, tile.unit) * tile.unit",
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
    act: GateFunctions,
    tile: UnitTile,
    part: int,
    parts: int,
) -> int:
    """y[t * later + b * stride + offset :] (size,) = h after step t: gates z, r, h = xw (steps, batch, blocks, 3, unit) + h @ r, new.

    Two rounds are a step of one direction: its gates, then its state. xw is written to; r is a panel of 2 unit columns a block, of z
    and r, `new` one of unit columns. h (batch, blocks * unit) is start and end state; reset, of the same size, is scratch: gate r
    times h. Spec: ONNX GRU-22.
    """
    turn, own, unit = part // parts, part % parts, tile.unit
    blocks, step, opens = (d.size + unit - 1) // unit, turn // 2, turn % 2 == 0
    top, bottom, left, right = share(d.batch, blocks, own, parts, tile.rows)
    padded, many = blocks * unit, alike(lengths, bottom - top, d.backward)
    if step >= d.steps:
        return OK
    gather(shift(h if opens else reset, top * padded), (bottom - top) * padded, parts, tile.lanes)
    for block in range(left, right):
        at, weights, final = block * unit, shift(r, block * d.size * 2 * unit), shift(new, block * d.size * unit)
        for first in range(top, bottom, many):
            t = time_of(step, valid_steps(lengths, first, d.steps), d.backward)
            gates = shift(xw, ((t * d.batch + first) * blocks + block) * 3 * unit)
            if opens:
                x = shift(h, first * padded)
                product(x, padded, weights, gates, 3 * padded, many, d.size, ACCUMULATE, x, tile.rows, tile.vectors, tile.lanes)
            else:
                x, z = shift(reset, first * padded), shift(gates, 2 * unit)
                product(x, padded, final, z, 3 * padded, many, d.size, ACCUMULATE, x, tile.rows, tile.across, tile.lanes)
            for b in range(first, first + many):
                z, own_h = shift(gates, (b - first) * 3 * padded), shift(h, b * padded + at)
                alive = step < valid_steps(lengths, b, d.steps)
                if alive and opens:
                    open_gates(z, own_h, shift(reset, b * padded + at), act, unit, tile.width)
                elif alive:
                    blend_state(z, shift(z, 2 * unit), own_h, own_h, act, tile.width)
    if not opens:
        put_all(h, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def open_gates(gates: Ptr, h: Ptr, reset: Ptr, act: GateFunctions, across: int, count: int) -> None:
    """Turn sums into gates: z in place, and r as reset = r * h."""
    for j in range(count):
        gates[j] = activate(clip(gates[j], act.limit), act.f, act.a0, act.b0)
        reset[j] = activate(clip(gates[across + j], act.limit), act.f, act.a0, act.b0) * h[j]


@native
def blend_state(gate: Ptr, sums: Ptr, h: Ptr, after: Ptr, act: GateFunctions, count: int) -> None:
    """after (count,) = (1 - gate) * g(sums) + gate * h."""
    for j in range(count):
        z = gate[j]
        after[j] = (like(z, 1) - z) * activate(clip(sums[j], act.limit), act.g, act.a1, act.b1) + z * h[j]


@native
@extents(
    xw="d.steps * d.batch * ceildiv(d.size, tile.unit) * 3 * tile.unit",
    r="ceildiv(d.size, tile.unit) * d.size * 3 * tile.unit",
    recurrent_bias="ceildiv(d.size, tile.unit) * 3 * tile.unit",
    lengths="d.batch",
    h="2 * d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
    sums="d.batch * ceildiv(d.size, tile.unit) * 3 * tile.unit",
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
    act: GateFunctions,
    tile: UnitTile,
    part: int,
    parts: int,
) -> int:
    """Compute `gru` with the reset gate after the product with the recurrence weights, as in cuDNN: one round a step, h as in `lstm`.

    r is a panel of 3 unit columns a block, gates z, r, h, and recurrent_bias (blocks, 3, unit); sums are scratch for their products.
    Spec: ONNX GRU-22.
    """
    step, own, unit = part // parts, part % parts, tile.unit
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, tile.rows)
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
            product(x, padded, weights, target, 3 * padded, many, d.size, mode, bias, tile.rows, tile.vectors, tile.lanes)
            for b in range(first, first + many):
                gates = shift(xw, ((t * d.batch + b) * blocks + block) * 3 * unit)
                hidden, old = shift(sums, (b * blocks + block) * 3 * unit), shift(before, b * padded + at)
                new, alive = shift(after, b * padded + at), step < valid_steps(lengths, b, d.steps)
                if alive:
                    reset_sums(gates, hidden, act, unit, tile.width)
                    blend_state(gates, shift(gates, 2 * unit), old, new, act, tile.width)
                else:
                    keep(old, new, tile.width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def reset_sums(gates: Ptr, hidden: Ptr, act: GateFunctions, across: int, count: int) -> None:
    """Write gate z from the sums of both products, and the sum of the new state with its hidden share times gate r, in place."""
    for j in range(count):
        gates[j] = activate(clip(gates[j] + hidden[j], act.limit), act.f, act.a0, act.b0)
        r = activate(clip(gates[across + j] + hidden[across + j], act.limit), act.f, act.a0, act.b0)
        gates[2 * across + j] += r * hidden[2 * across + j]


@native
@extents(
    xw="d.steps * d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    r="ceildiv(d.size, tile.unit) * d.size * tile.unit",
    lengths="d.batch",
    h="2 * d.batch * ceildiv(d.size, tile.unit) * tile.unit",
    y="walk(d.offset, d.steps, d.later, d.batch, d.stride, d.size, 1)",
)
def rnn(
    xw: Ptr,
    r: Ptr,
    lengths: Ptr,
    h: Ptr,
    y: Ptr,
    d: Direction,
    limit: float,
    f: Static,
    a0: float,
    b0: float,
    tile: UnitTile,
    part: int,
    parts: int,
) -> int:
    """Compute `lstm` with one gate and without a cell: xw (steps, batch, blocks, unit), r a panel of unit columns a block.

    Spec: ONNX RNN-22.
    """
    step, own, unit = part // parts, part % parts, tile.unit
    blocks = (d.size + unit - 1) // unit
    top, bottom, left, right = share(d.batch, blocks, own, parts, tile.rows)
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
            product(x, padded, weights, sums, padded, many, d.size, ACCUMULATE, x, tile.rows, tile.vectors, tile.lanes)
            for b in range(first, first + many):
                z, new = shift(sums, (b - first) * padded), shift(after, b * padded + at)
                alive = step < valid_steps(lengths, b, d.steps)
                if alive:
                    activate_sums(z, new, limit, a0, b0, f, tile.width)
                else:
                    keep(shift(before, b * padded + at), new, tile.width)
    put_all(after, lengths, y, step, d, padded, top, bottom, left * unit, right * unit)
    return OK


@native
def activate_sums(sums: Ptr, h: Ptr, limit: float, alpha: float, beta: float, f: Static, count: int) -> None:
    """h (count,) = f(sums), the sums clipped."""
    for j in range(count):
        h[j] = activate(clip(sums[j], limit), f, alpha, beta)
