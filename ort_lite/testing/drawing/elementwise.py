"""Elementwise operators: every way to broadcast, every kind of number."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.testing.drawing.sketch import OPSET, Sketch, numbers, one, runs

BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mean", "Sum", "PRelu", "Mod")
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
UNARY = (
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
)
NEWER = {"Gelu": 20}
PAIRS = (
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((4,), (3, 4)),
    ((3, 4), (1, 4)),
    ((3, 1), (3, 4)),
    ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)),
    ((3, 1), (2, 3, 4)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((), ()),
    ((0, 4), (4,)),
    ((1, 4), (0, 4)),
    ((3, 0), (3, 1)),
    ((1,), (1, 1)),
    ((2, 3, 2, 2), (3, 1, 1)),
)
ALPHAS: dict[str, tuple[dict[str, Any], ...]] = {
    "LeakyRelu": ({"alpha": 0.5}, {"alpha": -0.25}, {"alpha": 0.0}, {"alpha": 2.0}),
    "Elu": ({"alpha": 0.5}, {"alpha": 2.0}),
    "Celu": ({"alpha": 0.5}, {"alpha": 2.0}),
    "Selu": ({"alpha": 0.5, "gamma": 2.0},),
    "HardSigmoid": ({"alpha": 0.5}, {"beta": 0.25}),
    "ThresholdedRelu": ({"alpha": 0.5},),
    "Shrink": ({"lambd": 1.0}, {"bias": 0.5}),
    "Gelu": ({"approximate": "tanh"}, {"approximate": "none"}),
    "IsInf": ({"detect_negative": 0}, {"detect_positive": 0}),
}
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, -3e38, 1.0, -1.0, 0.5], np.float32)
TYPES = ("int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "float16", "float64")
FLOATS_ALONE, WIDE_ALONE = ("Mean", "Sum"), ("Pow", "PRelu")
DENORMALS = np.array([1e-40, -1e-40], np.float32)
KEEP_DENORMALS = (
    "Abs",
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Softplus",
    "Erf",
    "HardSigmoid",
    "HardSwish",
    "Neg",
    "Add",
)
"""Whose results are the same, near enough, on devices that take denormals for 0. Mul's are not: of 1e-40 and 3e38, of 1e-40 and inf."""
PERIODIC = ("Sin", "Cos", "Tan")
"""Of numbers beyond a few periods, devices make what they like."""


def binary() -> Iterator[Sketch]:
    for name in BINARY:
        how: dict[str, Any] = {"fmod": 1} if name == "Mod" else {}
        pairs = [(a, b) for a, b in PAIRS if name != "PRelu" or np.broadcast_shapes(a, b) == a]
        for a, b in pairs:
            yield one(name, *_operands(name, a, b), **how)
        yield one(name, *_operands(name, (3, 4), (4,)), fixed=[1], **how)
        if name != "PRelu":
            yield one(name, *_operands(name, (4,), (3, 4)), fixed=[0], **how)
        for dtype in _types(name):
            x, y = np.arange(1, 13).reshape(3, 4).astype(dtype), np.arange(1, 5).astype(dtype)
            yield one(name, x, y, **how if x.dtype.kind == "f" else {})
        yield runs(one(name, *_operands(name, (3, 4), (4,)), fixed=[1], **how), *LENGTHS)
    for name in COMPARISONS:
        for a, b in PAIRS:
            yield one(name, a, b)
    flags = np.array([True, False, True, False]), np.array([[True], [False]])
    for name in ("And", "Or", "Xor"):
        yield one(name, *flags)
    yield one("Where", flags[1], (2, 4), (4,))
    yield one("Not", flags[0])


LENGTHS = ((1, 4), (3, 4), (2, 4), (0, 4), (1, 4))


def _types(name: str) -> tuple[str, ...]:
    if name in FLOATS_ALONE:
        return ("float16", "float64")
    return ("int32", "int64", "float16", "float64") if name in WIDE_ALONE else TYPES


def _operands(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Any, Any]:
    """Where a function is not defined for some pairs of numbers, others."""
    x, y = numbers(a, name), numbers(b, name + "b")
    if name in ("Div", "Mod", "Pow"):
        return (np.abs(x) + np.float32(0.25), np.abs(y) + np.float32(0.5))
    return x, y


def unary() -> Iterator[Sketch]:
    for name in UNARY:
        opset = NEWER.get(name, OPSET)
        for shape in ((3, 4), (2, 3, 4, 2), (1,), (), (0,), (2, 0, 3), (3, 7)):
            yield one(name, shape, opset=opset)
        for how in ALPHAS.get(name, ()):
            yield one(name, (3, 4), opset=opset, **how)
        yield runs(one(name, (3, 4), opset=opset), (1, 4), (3, 4), (3, 7), (0, 4), (1, 4))
        for dtype in ("float64", "float16", "int32", "int8"):
            if name in ("Abs", "Neg", "Sign", "Identity") or (dtype.startswith("float") and name not in ("Celu", "IsInf")):
                yield one(name, numbers((3, 4)).astype(dtype), opset=opset)
    for least, most in ((-1.0, 1.0), (None, 0.5), (-0.5, None), (0.0, 6.0)):
        bounds = [None if x is None else np.array(x, np.float32) for x in (least, most)]
        yield one("Clip", (3, 4), *bounds, fixed=[1, 2], note=f"to {least}, {most}")


def odd_numbers() -> Iterator[Sketch]:
    """NaN, infinities, zeros of both signs, denormals, large numbers: in a vector, and in each place of a pair."""
    for name in UNARY:
        x = ODD[np.abs(np.nan_to_num(ODD, nan=0, posinf=0, neginf=0)) < 100] if name in PERIODIC else ODD
        x = np.concatenate([x, DENORMALS]) if name in KEEP_DENORMALS else x
        yield one(name, x, kind="numbers", note="of odd numbers", opset=NEWER.get(name, OPSET))
    for name in ("Add", "Sub", "Mul", "Div", "Min", "Max", *COMPARISONS):
        x = np.concatenate([ODD, DENORMALS]) if name in KEEP_DENORMALS else ODD
        yield one(name, x[:, None], x, kind="numbers", note="of odd numbers")
    bound = np.array(1, np.float32)
    yield one("Clip", ODD, -bound, bound, fixed=[1, 2], kind="numbers", note="of odd numbers")
    for name in ("Softmax", "LogSoftmax"):
        large = np.array([[80, 90, 100], [-1000, 0, 1000], [-np.inf, 0, 1]], np.float32)
        yield one(name, large, kind="numbers", note="of large numbers")


def casts() -> Iterator[Sketch]:
    """Between all pairs of types, of numbers that both have."""
    types = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}
    for source in types:
        x = np.array([[0, 1, 2], [3, 100, 5]]).astype(source)
        for target, code in types.items():
            yield one("Cast", x, to=code, note=f"{source} to {target}")
    yield one("Cast", np.array([-2.75, -1.5, 0.5, 2.75], np.float32), to=6, note="towards 0")
