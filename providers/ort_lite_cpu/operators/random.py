"""Random numbers: each element is a hash of its index and of the number of the run, so that any share of threads gives the same.

With the attribute `seed` every run gives the same numbers; without, no two do. `ort_lite.set_seed` makes a session's runs those of any
other session of the same model and seed.
"""

import os
import struct
from typing import Any

import numpy as np

from ort_lite.memory.recipes import refuse
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, address, cast, cos, exp, like, log, native, shr, span, sqrt, wadd, wmul
from ort_lite.shapes import equal
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.targets import round_targets, target_of, wide_target_of
from ort_lite_cpu.registry import ANY, REAL, operator
from ort_lite_cpu.run.atomics import fetch_add

PI = 3.141592653589793
GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15: 2**64 over the golden ratio


def mix(z: int) -> Any:
    """Return z mixed, so that all bits of the result depend on all of z. The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    u = cast(z, "u64")
    u = wmul(u ^ shr(u, cast(30, "u64")), cast(-4658895280553007687, "u64"))
    u = wmul(u ^ shr(u, cast(27, "u64")), cast(-7723592293110705685, "u64"))
    return cast(u ^ shr(u, cast(31, "u64")), "i64")


def uniform(stream: int, counter: int) -> Any:
    """Return the number `counter` of the stream, in [0, 1), a multiple of 2**-53."""
    bits = mix(wadd(mix(stream), wmul(counter + 1, GOLDEN)))
    return cast(shr(cast(bits, "u64"), cast(11, "u64")), "f64") * 1.1102230246251565e-16


@native
@extents(state="1", stream="1")
def next_stream(state: Ptr, stream: Ptr, part: int, parts: int) -> int:
    """stream[0] = a number that no other run gets. state: the program's own."""
    stream[0] = fetch_add(address(state), 1)
    return OK


@native
@extents(stream="1", y="n")
def random_uniform(stream: Ptr, y: Ptr, n: int, low: float, high: float, part: int, parts: int) -> int:
    """y[i] = a random number in [low, high)."""
    s = stream[0]
    for i in span(n, part, parts):
        y[i] = like(y, low + uniform(s, i) * (high - low))
    return OK


@native
@extents(stream="1", y="n")
def random_normal(stream: Ptr, y: Ptr, n: int, mean: float, scale: float, part: int, parts: int) -> int:
    """y[i] = a normal random number, by Box and Muller from two numbers of the stream."""
    s = stream[0]
    for i in span(n, part, parts):
        radius = sqrt(-2.0 * log(1.0 - uniform(s, 2 * i)))
        y[i] = like(y, mean + scale * radius * cos(2.0 * PI * uniform(s, 2 * i + 1)))
    return OK


@native
@extents(stream="1", x="n", y="n")
def bernoulli(stream: Ptr, x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    """y[i] = 1 with probability x[i], else 0."""
    s = stream[0]
    for i in span(n, part, parts):
        y[i] = 1 if uniform(s, i) < cast(x[i], "f64") else 0
    return OK


@native
@extents(stream="1", x="rows * classes", totals="rows * classes", y="rows * samples")
def multinomial(stream: Ptr, x: Ptr, totals: Ptr, y: Ptr, rows: int, classes: int, samples: int, part: int, parts: int) -> int:
    """y (rows, samples) = classes drawn by x (rows, classes), logarithms of weights. totals: as many float64. O(log classes).

    There is a class: `lower_multinomial` asks for one.
    """
    s = stream[0]
    for row in span(rows, part, parts):
        base = row * classes
        largest = x[base]
        for k in range(1, classes):
            largest = max(largest, x[base + k])
        total = 0.0
        for k in range(classes):
            total += exp(cast(x[base + k] - largest, "f64"))
            totals[base + k] = total
        for i in range(samples):
            wanted = uniform(s, row * samples + i) * total
            low, high = 0, classes - 1
            while low < high:
                middle = (low + high) // 2
                if totals[base + middle] > wanted:
                    high = middle
                else:
                    low = middle + 1
            y[row * samples + i] = like(y, low)
    return OK


def stream(op: NodeLowering) -> Tensor:
    """Return the number of the run, int64; with `seed` a constant."""
    seed = op.attr("seed")
    if seed is not None:
        return op.array(np.frombuffer(struct.pack("<d", float(seed)), np.int64))
    state = op.array(np.frombuffer(entropy(op, 8), np.int64).copy())
    made = op.temporary("int64", (1,))
    op.emit(next_stream, [state, made], work=1, slices=SERIAL)
    return made


def entropy(op: NodeLowering, count: int) -> bytes:
    """Return the node's random seed: a hash of the process's seed and the node's name, or the system's entropy."""
    seed = op.options.seed
    if seed is None:
        refuse(f"{op.node} draws from the system's entropy")
        return os.urandom(count)
    from hashlib import blake2b

    names = [op.node.name, *(value.name for value in op.node.outputs if value is not None)]
    return blake2b("\0".join([str(seed), *names]).encode(), digest_size=count).digest()


@operator("RandomUniform", "RandomUniformLike", types=ANY)
def lower_uniform(op: NodeLowering) -> None:
    """Emit RandomUniform or RandomUniformLike."""
    y = wide_target_of(op, 0)
    low, high = float(op.attr("low", 0.0)), float(op.attr("high", 1.0))
    op.emit(random_uniform, [stream(op), y], n=y.size, low=low, high=high, work=y.size * 2)
    round_targets(op, {0: y})


@operator("RandomNormal", "RandomNormalLike", types=ANY)
def lower_normal(op: NodeLowering) -> None:
    """Emit RandomNormal or RandomNormalLike."""
    y = wide_target_of(op, 0)
    mean, scale = float(op.attr("mean", 0.0)), float(op.attr("scale", 1.0))
    op.emit(random_normal, [stream(op), y], n=y.size, mean=mean, scale=scale, work=y.size * 30)
    round_targets(op, {0: y})


@operator("Bernoulli", since=15, types=REAL)
def lower_bernoulli(op: NodeLowering) -> None:
    """Emit Bernoulli."""
    x = op.input(0)
    y = target_of(op, 0, "bool")
    op.emit(bernoulli, [stream(op), x, y], n=x.size, work=x.size * 2)
    round_targets(op, {0: y})


@operator("Multinomial", since=7, types=REAL)
def lower_multinomial(op: NodeLowering) -> None:
    """Emit Multinomial."""
    x, y = op.input(0), op.output(0)
    rows, classes = x.shape
    op.require(1 - equal(classes, 0), "there are no classes to draw from")
    totals = op.temporary("float64", x.shape)
    work = x.size * 20 + y.size * 10
    op.emit(multinomial, [stream(op), x, totals, y], rows=rows, classes=classes, samples=y.shape[1], work=work)
