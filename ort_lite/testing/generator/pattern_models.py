"""Models with the nodes that patterns of transforms match.

Inner nodes come first. The recipe of a node gets the operands that it must use; if it uses others, the pattern is rejected. Nodes
without attributes are added as in the pattern.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import numpy as np

from ort_lite.testing.generator.arrays import between, cast, is_float, numbers, positive
from ort_lite.testing.generator.draft import Draft, Known, Rejected
from ort_lite.testing.generator.draw import Draw
from ort_lite.transform import NHWC_DOMAIN
from ort_lite.transform.contract import LocalRule, Transform
from ort_lite.transform.patterns import ConstantOperand, Operand, Pattern

PLAIN = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Erf", "Sqrt", "Sigmoid", "Tanh", "Relu", "Clip", "HardSwish"}
)
"""Elementwise operators that need no recipe."""
CONSTANTS = {"low": 0.0, "high": 6.0, "epsilon": 1e-5}
"""Numbers that transforms look for in constants with these names."""

Draws = Callable[[str, str, Mapping[int, str]], list[Draw]]
"""(domain, operator, operands) -> a Draw for each target of that operator in the draft's opset."""
Propose = Callable[[Draw], None]
"""Adds a node to the draft by its recipe."""


def patterns_of(transforms: Iterable[Transform], of_provider: bool = False) -> dict[str, tuple[Pattern, ...]]:
    """Return the patterns of each transform that has some with operators of public domains.

    With `of_provider`, the transforms are a provider's fusions. Their patterns have ONNX's operators in place of channels-last
    ones, and the results of fusions are expanded to what they match.
    """
    rules = {one.name: one.patterns for one in transforms if isinstance(one, LocalRule)}
    if of_provider:
        rules = {name: tuple(map(_without_layout, patterns)) for name, patterns in rules.items()}
        matched = [pattern for patterns in rules.values() for pattern in patterns if _is_public(pattern)]
        rules = {name: tuple(new for old in patterns for new in _expand(old, matched)) for name, patterns in rules.items()}
    found = {name: tuple(filter(_is_public, patterns)) for name, patterns in rules.items()}
    return {name: patterns for name, patterns in found.items() if patterns}


def operators_of(pattern: Pattern) -> set[str]:
    """Return the operators of a pattern's nodes."""
    inner = [operators_of(operand) for operand in pattern.operands if isinstance(operand, Pattern)]
    return set(pattern.op_types).union(*inner)


def _without_layout(pattern: Pattern) -> Pattern:
    domain = "" if pattern.domain == NHWC_DOMAIN else pattern.domain
    return _with_inner(pattern.replace(domain=domain), _without_layout)


def _expand(pattern: Pattern, matched: Iterable[Pattern]) -> list[Pattern]:
    """Return the pattern with each matched one in place of an operator of the provider's own, which any of them may become."""
    if _is_public(pattern) or not _is_public_node(pattern):
        return [pattern]

    def replace_inner(one: Pattern) -> Pattern:
        return _with_inner(pattern, lambda inner: inner if _is_public(inner) else one)

    return list(map(replace_inner, matched))


def _with_inner(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Return the pattern with its inner ones replaced."""

    def change_all(operands: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple(change(one) if isinstance(one, Pattern) else one for one in operands)

    orders = tuple(order.replace(operands=change_all(order.operands)) for order in pattern.orders)
    return pattern.replace(operands=change_all(pattern.operands), orders=orders)


def _is_public(pattern: Pattern) -> bool:
    inner = all(_is_public(operand) for operand in pattern.operands if isinstance(operand, Pattern))
    return inner and _is_public_node(pattern)


def _is_public_node(pattern: Pattern) -> bool:
    return "*" not in pattern.op_types and pattern.domain in ("", "com.microsoft")


class PatternDraft:
    """Adds the nodes of one pattern to a draft. `propose` adds one node by its recipe."""

    def __init__(self, draft: Draft, rng: Random, draws: Draws, propose: Propose) -> None:
        self._draft, self._rng, self._draws, self._propose = draft, rng, draws, propose
        self._captured: dict[str, str] = {}
        self._dtype = "float32" if rng.random() < 0.7 else rng.choice(["float64", "float16", "int32"])

    def add(self, pattern: Pattern) -> Known:
        """Append the nodes and return the first output of the root. Raises Rejected."""
        op_type = self._rng.choice(sorted(pattern.op_types))
        opset = self._draft.opsets.get(pattern.domain, 0)
        if not pattern.since <= opset < pattern.until:
            raise Rejected(f"{op_type} of opset {opset} is not in the pattern")
        operands = self._rng.choice(pattern.orders).operands
        inner = {
            index: self.add(operand).name
            for index, operand in enumerate(operands)
            if isinstance(operand, Pattern) and operand.op_types != {"DequantizeLinear"}
        }
        for index, operand in enumerate(operands):
            if isinstance(operand, str) and operand in self._captured:
                inner[index] = self._captured[operand]
        if op_type == "ReduceMean":
            return self._mean(inner, operands)
        if op_type in PLAIN and all(operand is not ... for operand in operands) and operands:
            return self._plain(op_type, pattern.domain, operands, inner)
        return self._by_recipe(op_type, pattern, operands, inner)

    def _by_recipe(self, op_type: str, pattern: Pattern, operands: Sequence[Operand], inner: dict[int, str]) -> Known:
        draw = self._draw(op_type, pattern.domain, inner)
        draw.fixed = {
            index: isinstance(operand, ConstantOperand) or (isinstance(operand, Pattern) and index > 0)
            for index, operand in enumerate(operands)
        }
        self._propose(draw)
        node = self._draft.nodes.pop()  # it goes behind those that are to feed it
        inputs = list(node.inputs)
        if any(index >= len(inputs) or inputs[index] != name for index, name in inner.items()):
            raise Rejected(f"the recipe of {op_type} took other operands")
        quantized = [one for one in operands if isinstance(one, Pattern) and one.op_types == {"DequantizeLinear"}]
        scale = self._scale(inputs[1]) if op_type == "QuantizeLinear" else ""
        for index, name in enumerate(inputs):
            operand = operands[index] if index < len(operands) else None
            if isinstance(operand, Pattern) and index not in inner:
                inputs[index] = self._dequantize(name, operand.domain, scale)
            elif op_type == "Concat" and quantized:
                inputs[index] = self._dequantize(name, quantized[0].domain, scale)
            elif isinstance(operand, str) and name:
                self._captured.setdefault(operand, name)
            if op_type == "Concat" and quantized:
                scale = self._draft.nodes[-1].inputs[1]  # all parts have the first one's
        self._draft.nodes.append(node.replace(inputs=tuple(inputs)))
        return self._draft.lookup(next(name for name in node.outputs if name))

    def _draw(self, op_type: str, domain: str, inner: dict[int, str]) -> Draw:
        """Return a Draw of a target that supports the operands, usually with float32."""
        draws = self._draws(domain, op_type, inner)
        self._rng.shuffle(draws)
        if self._rng.random() < 0.8:
            draws.sort(key=lambda draw: "float32" not in draw.types.values())
        kinds = {index: self._draft.lookup(name).kind for index, name in inner.items()}
        for draw in draws:
            if all(draw.has_input(index) and draw.kind(index) == kind for index, kind in kinds.items()):
                return draw
        raise Rejected(f"{op_type} does not take the operands of the pattern")

    def _scale(self, name: str) -> str:
        """Return the scale if it is one constant number that DequantizeLinear supports, otherwise ""."""
        known = self._draft.lookup(name)
        single = known.array is not None and known.array.size == 1
        return name if known.kind == "float32" and single and name in self._draft.constants else ""

    def _dequantize(self, name: str, domain: str, scale: str = "") -> str:
        """Append a DequantizeLinear whose result has the type and shape of a value, with its own scale unless one is given."""
        known = self._draft.lookup(name)
        if known.kind != "float32" or known.shape is None:
            raise Rejected("only float32 is dequantized")
        dtype = self._rng.choice(["int8", "uint8"])
        contents = numbers(self._rng, known.shape, dtype)
        x = self._draft.constant(contents) if name in self._draft.constants else self._draft.feed(contents)
        if not scale:
            scale = self._draft.constant(np.array(self._rng.choice([0.5, 0.25, 0.0625, 0.013]), np.float32)).name
        zero = self._draft.constant(np.array(self._rng.choice([0, 0, 3]), dtype))
        return self._draft.append("DequantizeLinear", [x.name, scale, zero.name], domain=domain)[0].name

    def _mean(self, inner: dict[int, str], operands: Sequence[Operand]) -> Known:
        """Append the mean over the last axis, which is kept."""
        x = inner.get(0) or self._free(operands[0], None)
        if self._draft.opsets[""] < 18:
            return self._draft.append("ReduceMean", [x], {"axes": [-1], "keepdims": 1})[0]
        axes = self._draft.constant(np.array([-1], np.int64))
        return self._draft.append("ReduceMean", [x, axes.name], {"keepdims": 1})[0]

    def _plain(self, op_type: str, domain: str, operands: Sequence[Operand], inner: dict[int, str]) -> Known:
        base = self._draft.lookup(next(iter(inner.values()))) if inner else None
        names: list[str] = []
        for index, operand in enumerate(operands):
            if index in inner:
                names.append(inner[index])
            elif operand is None:
                names.append("")
            else:
                names.append(self._free(operand, base))
                base = base or self._draft.lookup(names[-1])
        attributes = {}
        if op_type == "Clip" and self._draft.opsets[""] < 11:
            attributes, names = {"min": 0.0, "max": 6.0}, names[:1]
        while names and not names[-1]:
            names.pop()
        return self._draft.append(op_type, names, attributes, domain=domain)[0]

    def _free(self, operand: Operand, base: Known | None) -> str:
        """Return an operand that the pattern leaves open, or a number that it names, next to another operand."""
        dtype = self._dtype if base is None else base.kind
        start = tuple(self._rng.randint(1, 4) for _ in range(self._rng.randint(1, 4)))
        shape = start if base is None else base.shape
        if shape is None or not (is_float(dtype) or dtype.startswith("int")):
            raise Rejected(f"{dtype} of shape {shape} is not what a pattern starts with")
        if isinstance(operand, int | float):
            return self._number(operand, dtype)
        name = operand.name if isinstance(operand, ConstantOperand) else str(operand)
        if name in CONSTANTS:
            return self._number(CONSTANTS[name], dtype)
        sizes = shape if base is None else self._beside(shape)
        contents = (positive if is_float(dtype) else between(1, 6))(self._rng, sizes, dtype)
        if self._rng.random() < 0.6:
            contents = numbers(self._rng, sizes, dtype)
        constant = isinstance(operand, ConstantOperand) or (base is not None and self._rng.random() < 0.5)
        known = self._draft.constant(contents) if constant else self._draft.feed(contents)
        self._captured[name] = known.name
        return known.name

    def _number(self, number: float, dtype: str) -> str:
        shape = self._rng.choice([(), (), (1,)])
        return self._draft.constant(cast(np.full(shape, number), dtype)).name

    def _beside(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts to `shape`: the same, a scalar, one per channel or one per element of the last axis."""
        forms = [shape, (), shape[-1:]]
        if len(shape) > 1:
            forms.append((shape[1], *(1,) * (len(shape) - 2)))
        if self._draft.plain:
            forms += [shape] * len(forms)  # fusions of a sum most often want it so
        return self._rng.choice(forms)
