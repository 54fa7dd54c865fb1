"""What the provider's own fusions look for: nodes as their patterns have them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ort_lite.testing.drawing.sketch import Row, Sketch, numbers
from ort_lite.transform import NHWC_DOMAIN
from ort_lite.transform.contract import LocalRule, Transform
from ort_lite.transform.patterns import ConstantOperand, Operand, Pattern

IMAGE, TABLE = (2, 4, 5, 6), (4, 4)
IMAGES = ("Conv", "ConvTranspose", "BatchNormalization", "MaxPool", "AveragePool", "GlobalAveragePool")
WEIGHTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "Conv": ((4, 4, 3, 3), (4,)),
    "ConvTranspose": ((4, 4, 3, 3), (4,)),
    "BatchNormalization": ((4,),) * 4,
    "Gemm": ((4, 4), (4,)),
    "MatMul": ((4, 4),),
    "LayerNormalization": ((4,), (4,)),
}
"""Operands behind the first."""
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Conv": {"pads": [1, 1, 1, 1]},
    "ConvTranspose": {"pads": [1, 1, 1, 1]},
    "MaxPool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "AveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
}
FREE = ("as the result", "of a channel", "a number")
"""What the other operands of an elementwise node are, one sketch each."""


def of_patterns(transforms: Iterable[Transform]) -> Iterator[Sketch]:
    """Of each operator that a pattern allows the first one. What the CPU provider refuses is not drawn well, and left out."""
    for transform in transforms:
        patterns = transform.patterns if isinstance(transform, LocalRule) else ()
        for k, pattern in enumerate(patterns):
            for free in FREE:
                drawing = _Drawing(pattern, free)
                sketch = drawing.sketch(f"{transform.name}, pattern {k + 1}, other operands {free}")
                if sketch is not None:
                    yield sketch
                if not drawing.has_others:
                    break


class _Unknown(Exception):
    """A node of the provider's own, or any node at all: there is nothing to draw."""


class _Drawing:
    def __init__(self, pattern: Pattern, free: str) -> None:
        self._pattern, self._free = pattern, free
        self._shape = IMAGE if any(name in IMAGES for name in _operators(pattern)) else TABLE
        self.has_others = False
        self._rows: list[Row] = []
        self._feed: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}

    def sketch(self, name: str) -> Sketch | None:
        try:
            result = self._node(self._pattern)
        except _Unknown:
            return None
        if not self._feed:
            return None
        return Sketch(name, "graphs", tuple(self._rows), (self._feed,), self._constants, (result,))

    def _node(self, pattern: Pattern) -> str:
        if "*" in pattern.op_types or pattern.domain not in ("", NHWC_DOMAIN):
            raise _Unknown
        op_type = min(pattern.op_types)
        weights = WEIGHTS.get(op_type, ())
        operands: list[Operand] = [*pattern.operands]
        operands += [...] * (1 + len(weights) - len(operands))
        inputs = [self._operand(one, weights[k - 1] if 0 < k <= len(weights) else None, k) for k, one in enumerate(operands)]
        result = f"v{len(self._rows)}"
        self._rows.append(Row(op_type, tuple(inputs), (result,), ATTRIBUTES.get(op_type, {})))
        return result

    def _operand(self, operand: Operand, weight: tuple[int, ...] | None, position: int) -> str:
        """Its name; behind the first of a node with weights, a constant."""
        if isinstance(operand, Pattern):
            return self._node(operand)
        if operand is None:
            return ""
        if isinstance(operand, (int, float)):
            return self._constant(f"k{len(self._constants)}", np.array(operand, np.float32))
        name = operand.name if isinstance(operand, ConstantOperand) else operand if isinstance(operand, str) else ""
        name = name or f"x{len(self._feed) + len(self._constants)}"
        if name in self._feed or name in self._constants:
            return name
        if weight is not None:
            return self._constant(name, np.abs(numbers(weight, name)) + np.float32(0.25))
        if isinstance(operand, ConstantOperand):
            return self._constant(name, numbers(self._other(), name))
        self._feed[name] = numbers(self._shape if position == 0 else self._other(), name)
        return name

    def _constant(self, name: str, array: Any) -> str:
        self._constants[name] = array
        return name

    def _other(self) -> tuple[int, ...]:
        self.has_others = True
        channel = (4, 1, 1) if self._shape == IMAGE else (4,)
        return {"as the result": self._shape, "of a channel": channel, "a number": ()}[self._free]


def _operators(pattern: Pattern) -> Iterator[str]:
    yield from pattern.op_types
    for operand in pattern.operands:
        if isinstance(operand, Pattern):
            yield from _operators(operand)
