"""Graphs of a few nodes: what devices fuse, values with several readers, values that are read twice."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.testing.drawing.sketch import Sketch, graph, runs

Producer = tuple[str, tuple[int, ...], dict[str, Any], tuple[int, ...], dict[str, Any]]
"""The call, x's shape, constants, the result's shape, attributes."""
Attributes = dict[str, dict[str, Any]]
PRODUCERS: dict[str, Producer] = {
    "Conv": ("Conv(x, w, b)", (2, 3, 5, 6), {"w": (4, 3, 3, 3), "b": (4,)}, (2, 4, 5, 6), {"pads": [1, 1, 1, 1]}),
    "ConvTranspose": ("ConvTranspose(x, w)", (2, 3, 4, 5), {"w": (3, 4, 2, 2)}, (2, 4, 5, 6), {}),
    "MatMul": ("MatMul(x, w)", (3, 5), {"w": (5, 4)}, (3, 4), {}),
    "Gemm": ("Gemm(x, w, b)", (3, 5), {"w": (5, 4), "b": (4,)}, (3, 4), {"alpha": 0.5}),
    "MaxPool": ("MaxPool(x)", (2, 3, 5, 6), {}, (2, 3, 4, 5), {"kernel_shape": [2, 2]}),
    "AveragePool": ("AveragePool(x)", (2, 3, 5, 6), {}, (2, 3, 4, 5), {"kernel_shape": [2, 2]}),
    "GlobalAveragePool": ("GlobalAveragePool(x)", (2, 3, 5, 6), {}, (2, 3, 1, 1), {}),
    "Relu": ("Relu(x)", (3, 4), {}, (3, 4), {}),
    "Abs": ("Abs(x)", (3, 4), {}, (3, 4), {}),
    "Mul": ("Mul(x, w)", (3, 4), {"w": (4,)}, (3, 4), {}),
    "Softmax": ("Softmax(x)", (3, 4), {}, (3, 4), {}),
}
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Elu", "Neg", "Exp")
PLACES = ("{op}(p, z)", "{op}(z, p)")


def fused() -> Iterator[Sketch]:
    for name, producer in PRODUCERS.items():
        call, shape, constants, result, how = producer
        base = {"x": shape}, constants
        attributes = {name: how}
        for after in ACTIVATIONS:
            if after != name:
                yield graph(f"{name}, {after}", f"p = {call}; y = {after}(p)", *base, attributes=attributes)
        for after in ("Add", "Mul"):
            yield from _binary(name, after, producer)
        for after in ("Sub", "Div", "Max", "Min", "Pow"):
            fed = {"x": shape}, {**constants, "z": np.full(result[-1:], 2, np.float32)}
            yield graph(f"{name}, {after}", f"p = {call}; y = {after}(p, z)", *fed, attributes=attributes)
        yield from _longer(name, producer)


def _binary(name: str, after: str, producer: Producer) -> Iterator[Sketch]:
    """The other operand: as it is, of a channel, of a row, a number, one that widens the result; on either side, fed or constant."""
    call, shape, constants, result, how = producer
    channel = (result[1],) + (1,) * (len(result) - 2) if len(result) > 2 else result[-1:]
    others = {"same": result, "channel": channel, "row": result[-1:], "number": (), "wider": (2, *result)}
    attributes = {name: how}
    for label, other in others.items():
        for place in PLACES:
            body = f"p = {call}; y = {place.format(op=after)}"
            yield graph(f"{name}, {after} {label}", body, {"x": shape, "z": other}, constants, attributes=attributes)
        fixed = {**constants, "z": other}
        yield graph(f"{name}, {after} {label}", f"p = {call}; y = {after}(p, z)", {"x": shape}, fixed, attributes=attributes)
    yield graph(f"{name}, {after} itself", f"p = {call}; y = {after}(p, p)", {"x": shape}, constants, attributes=attributes)


def _longer(name: str, producer: Producer) -> Iterator[Sketch]:
    """Chains of three, and the same where somebody else reads what a fusion would swallow."""
    call, shape, constants, result, how = producer
    fed, attributes = {"x": shape, "z": result}, {name: how}
    for label, body, outputs in (
        ("Add, Relu", "q = Add(p, z); y = Relu(q)", ["y"]),
        ("Add, Relu, from the right", "q = Add(z, p); y = Relu(q)", ["y"]),
        ("Relu, Add", "q = Relu(p); y = Add(q, z)", ["y"]),
        ("Mul, Add", "q = Mul(p, z); y = Add(q, z)", ["y"]),
        ("Add, Add", "q = Add(p, z); y = Add(q, p)", ["y"]),
        ("Relu, first is an output", "y = Relu(p); q = Add(p, z)", ["p", "y", "q"]),
        ("Add, Relu, middle is an output", "q = Add(p, z); y = Relu(q)", ["q", "y"]),
        ("Add, Relu, first is an output", "q = Add(p, z); y = Relu(q)", ["y", "p"]),
        ("Relu with a second reader", "q = Relu(p); y = Mul(q, p)", ["y"]),
        ("Add with a second reader", "q = Add(p, z); y = Mul(q, p)", ["y"]),
        ("Add, Relu with a second reader of the sum", "q = Add(p, z); r = Relu(q); y = Mul(r, q)", ["y"]),
    ):
        yield graph(f"{name}, {label}", f"p = {call}; {body}", fed, constants, outputs=outputs, attributes=attributes)
        if "z" in body and len(outputs) == 1:
            kept = {**constants, "z": result}
            yield graph(f"{name}, {label}", f"p = {call}; {body}", {"x": shape}, kept, attributes=attributes)


def read_twice() -> Iterator[Sketch]:
    """The same value twice, an input that several nodes read, an output that is an input of another output's node."""
    for name in ("Add", "Mul", "Sub", "Max", "MatMul"):
        yield graph(f"{name} of the same", f"y = {name}(x, x)", {"x": (3, 3)})
    yield graph("Gemm of the same", "y = Gemm(x, x, x)", {"x": (3, 3)})
    yield graph("Concat of the same", "y = Concat(x, x)", {"x": (3, 3)}, attributes={"Concat": {"axis": 0}})
    for name in ("Relu", "Abs", "Neg", "Sigmoid", "Exp", "Flatten"):
        yield graph(f"x read after {name}", f"p = {name}(x); y = Add(p, x)", {"x": (3, 4)})
        yield graph(f"x read by two, {name}", f"p = {name}(x); q = {name}(x); y = Mul(p, q)", {"x": (3, 4)}, outputs=["y", "p"])
        yield graph(f"{name} twice", f"p = {name}(x); y = {name}(p)", {"x": (3, 4)}, outputs=["p", "y"])
    for name in ("Add", "Mul"):
        yield graph(f"x read after {name}", f"p = {name}(x, z); y = Mul(p, x)", {"x": (3, 4), "z": (3, 4)}, outputs=["y", "p"])
        yield graph(f"one {name} for two", f"p = {name}(x, z); y = {name}(z, x)", {"x": (3, 4), "z": (4,)}, outputs=["y", "p"])


def _blocks() -> Iterator[Sketch]:
    """Between two Conv, so that a device's own layout reaches all of it: what a fusion joins, and what else reads it."""
    image, weights = {"x": (2, 3, 5, 6)}, {"u": (4, 3, 3, 3), "v": (4, 4, 3, 3), "w": (4, 4, 1, 1)}
    for label, body, outputs in (
        ("Add, Relu", "r = Conv(p, w); s = Add(p, r); t = Relu(s)", ["y"]),
        ("Add from the right", "r = Conv(p, w); t = Add(r, p)", ["y"]),
        ("Relu, Add", "r = Conv(p, w); s = Relu(r); t = Add(s, p)", ["y"]),
        ("Relu with a second reader", "r = Relu(p); t = Mul(r, p)", ["y"]),
        ("Add with a second reader", "r = Conv(p, w); s = Add(r, p); t = Mul(s, r)", ["y"]),
        ("Add, Relu, the sum is read again", "r = Conv(p, w); s = Add(r, p); a = Relu(s); t = Mul(a, s)", ["y"]),
        ("Relu, its input is an output", "r = Conv(p, w); t = Relu(r)", ["y", "r"]),
        ("Add, Relu, the sum is an output", "r = Conv(p, w); s = Add(r, p); t = Relu(s)", ["y", "s"]),
        ("Mul by itself", "t = Mul(p, p)", ["y"]),
    ):
        text = f"p = Conv(x, u); {body}; y = Conv(t, v)"
        yield graph(f"block of {label}", text, image, weights, outputs=outputs)


def networks() -> Iterator[Sketch]:
    """Image operators in a row, as a device with a layout of its own keeps them in it; a classifier."""
    v, w = {"v": (4, 3, 3, 3)}, {"w": (5, 4, 2, 3)}
    one: Attributes = {"Conv": {"strides": [1, 2]}, "MaxPool": {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}}
    image = {"x": (2, 3, 7, 10)}
    yield graph("two Conv", "p = Conv(x, v); y = Conv(p, w)", image, v | w, attributes=one)
    yield graph(
        "Conv, Relu, Conv", "p = Conv(x, v); q = Relu(p); y = Conv(q, w)", image, v | w, outputs=["y", "q"], attributes=one
    )
    yield graph("Conv, MaxPool", "p = Conv(x, v); y = MaxPool(p)", image, v, attributes=one)
    yield graph("Conv, MaxPool, Conv", "p = Conv(x, v); q = MaxPool(p); y = Conv(q, w)", image, v | w, attributes=one)
    yield graph("MaxPool, Conv", "p = MaxPool(x); y = Conv(p, v)", image, v, attributes=one)
    grouped: Attributes = {"Conv": {"group": 2}}
    yield graph(
        "grouped Conv, Relu", "p = Conv(x, w); y = Relu(p)", {"x": (2, 4, 5, 6)}, {"w": (6, 2, 3, 2)}, attributes=grouped
    )
    row = "p = Conv(x, v); q = Add(p, k); y = Conv(q, w)"
    yield graph("a row between two Conv", row, image, v | w | {"k": (4,)}, attributes=one)
    yield graph("a channel between two Conv", row, image, v | w | {"k": (4, 1, 1)}, attributes=one)
    yield from _blocks()
    head = "p = Conv(x, v); q = Relu(p); g = GlobalAveragePool(q); f = Flatten(g); y = Gemm(f, d, e)"
    classifier = graph("classifier", head, image, v | {"d": (4, 3), "e": (3,)}, attributes=one)
    yield classifier
    yield runs(classifier, (1, 3, 7, 10), (3, 3, 7, 10), (3, 3, 9, 8), (1, 3, 7, 10))
    layers, weights = "p = MatMul(x, v); q = Add(p, b); r = Relu(q); y = Gemm(r, w)", {"v": (5, 4), "b": (4,), "w": (4, 2)}
    mlp = graph("two layers", layers, {"x": (3, 5)}, weights)
    yield mlp
    yield runs(mlp, (1, 5), (3, 5), (0, 5), (2, 5), (1, 5))
