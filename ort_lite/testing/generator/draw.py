"""Random choices for recipes: numbers, shapes, and operands of the types that the target binds."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random
from typing import Any, TypeVar

import numpy as np

from ort_lite.dtypes import FLOATS, Array, from_numpy, is_dtype, to_onnx
from ort_lite.graph.types import Type
from ort_lite.inference.schema_text import OpSchema
from ort_lite.testing.generator.arrays import Contents, cast, is_float, numbers, special
from ort_lite.testing.generator.draft import Draft, Known, Rejected, type_of
from ort_lite.testing.generator.targets import GenerationTarget

T = TypeVar("T")
Shape = tuple[int, ...]
DEEPEST = 3
"""The most bodies around a node."""
MOST_ELEMENTS = 4096
"""The most elements of a value, so that a model runs in milliseconds."""


class Draw:
    """Random choices for one node of `target` in `draft`. Operands are identified by their position in the schema.

    `operands` maps positions to values that the node must read, whatever their shape. If the node is not valid with one, the shape
    rules reject it.
    """

    def __init__(
        self,
        draft: Draft,
        schema: OpSchema,
        target: GenerationTarget,
        rng: Random,
        extend: Callable[[Draft, int], None] | None = None,
        operands: Mapping[int, str] | None = None,
    ) -> None:
        self.draft, self.schema, self.target, self.rng, self._extend = draft, schema, target, rng, extend
        self._operands = dict(operands or {})
        self.types: dict[str, str] = dict(target.types)
        self.fixed: dict[int, bool] = {}
        """By input: True if a fresh operand from `tensor` or `value` is a constant."""
        self.covered: list[Any] = []
        """Targets of nodes in bodies, with their attributes."""

    # --- the operator's version
    @property
    def version(self) -> int:
        """Return the opset version that introduced this form of the operator."""
        return self.target.since

    @property
    def op_type(self) -> str:
        """Return the operator type of the node."""
        return self.target.op_type

    def has_attribute(self, name: str) -> bool:
        """Return True if this version of the operator has the attribute."""
        return name in self.schema.attributes

    def has_input(self, index: int) -> bool:
        """Return True if this version of the operator has an input at `index`. A variadic input covers all later ones."""
        formal = self.schema.inputs.formal
        return index < len(formal) or (bool(formal) and formal[-1].option == "variadic")

    def kind(self, index: int) -> str:
        """Return the kind that the target binds for an input."""
        operand = self.schema.inputs.at(index)
        return self.types.get(operand.type, operand.type)

    def output_kind(self, index: int) -> str:
        """Return the type of output `index`, such as "float32" or "seq(int64)"."""
        operand = self.schema.outputs.at(index)
        return self.types.get(operand.type, operand.type)

    # --- numbers
    def integer(self, least: int, most: int) -> int:
        """Return an integer from `least` to `most` inclusive."""
        return self.rng.randint(least, most)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options, all equally likely."""
        return self.rng.choice(options)

    def maybe(self, value: T, probability: float = 0.5) -> T | None:
        """Return the value or None, which leaves an attribute out."""
        return value if self.chance(probability) else None

    def number(self) -> float:
        """Return a float attribute that float32 holds exactly: 0, 1 or a small number of either sign."""
        return self.choice([0.0, 1.0, -1.0, self.integer(-16, 16) / 8, self.integer(1, 64) / 16])

    def axis(self, rank: int, low: int | None = None) -> int:
        """Return an axis of a value of this rank, counted from either end, or one that is `low` at least."""
        if rank == 0:
            raise Rejected("a scalar has no axis")
        return self.integer(-rank if low is None else low, rank - 1)

    def axes(self, rank: int, least: int = 0, most: int | None = None, negative: bool = True) -> list[int]:
        """Return distinct axes in any order, counted from either end."""
        count = self.integer(min(least, rank), rank if most is None else min(most, rank))
        chosen = self.rng.sample(range(rank), count)
        return [axis - rank if negative and self.chance(0.3) else axis for axis in chosen]

    # --- shapes
    def size(self, most: int = 6) -> int:
        """Return a size: usually small, sometimes 1, rarely 0."""
        if self.chance(0.03):
            return 0
        return 1 if self.chance(0.15) else self.integer(1, most)

    def shape(self, low: int = 0, high: int = 4, most: int = 6, least: int = 0) -> Shape:
        """Return a shape with `low` to `high` axes and sizes from `least` to `most`."""
        return tuple(max(self.size(most), least) for _ in range(self.integer(low, high)))

    def broadcastable(self, shape: Shape, wider: bool = True) -> Shape:
        """Return a shape that broadcasts with `shape`. Only if `wider`, the result may be larger than `shape`."""
        if self.chance(0.2):
            return shape
        other = [1 if self.chance(0.25) else n for n in shape]
        if wider:
            other = [self.size() if own == 1 and self.chance(0.3) else n for n, own in zip(other, shape, strict=True)]
        if self.chance(0.3):
            return tuple(other[self.integer(0, len(other)) :])
        return (self.size(3), *other) if wider and self.chance(0.1) else tuple(other)

    # --- operands
    def tensor(self, index: int, shape: Sequence[int], contents: Contents | None = None, constant: bool | None = None) -> str:
        """Return the name of an operand of this shape, with the type of input `index`.

        Without `contents` it may be an earlier value, sometimes reshaped or cast. With them it is a new feed, or a new constant if
        `constant`.
        """
        known = self.take_operand(index)
        if known is not None:
            return known.name
        return self.tensor_of(self.kind(index), shape, contents, self.fixed.get(index) if constant is None else constant)

    def tensor_of(
        self, dtype: str, shape: Sequence[int], contents: Contents | None = None, constant: bool | None = None
    ) -> str:
        """Return the name of an operand of any element type, by the rules of `tensor`."""
        sizes = tuple(shape)
        check_size(sizes)
        if not is_dtype(dtype):
            raise Rejected(f"{dtype} is no tensor")
        if contents is None and constant is None and (found := self._earlier(dtype, sizes)) is not None:
            return found
        if contents is None or (self.draft.contents is not None and is_float(dtype)):
            return self.array(self.contents(dtype, sizes), constant)
        return self.array(contents(self.rng, sizes, dtype), constant)

    def array(self, array: Array, constant: bool | None = None) -> str:
        """Return the name of an operand with these contents: a feed, a constant or a Constant node."""
        if self.draft.constants_only and self.draft.inputs:
            constant = True
        elif constant is None:
            constant = bool(self.draft.inputs) and self.chance(self.draft.constant_share)
        if not constant and (self.draft.outer is None or self.chance(0.3)):
            return self.draft.outermost.feed(array).name
        if from_numpy(array.dtype) in ("float32", "int64") and not self.draft.plain and self.chance(0.2):
            return self.draft.append("Constant", [], {"value": array})[0].name
        return self.draft.constant(array).name

    def ints(self, *values: int, constant: bool | None = None, dtype: str = "int64") -> str:
        """Return the name of a vector of integers, such as axes and sizes."""
        return self.array(np.array(values, dtype), self.chance(0.8) if constant is None else constant)

    def scalar(self, value: Any, dtype: str, constant: bool | None = None) -> str:
        """Return the name of a new operand with this value, cast to `dtype`."""
        return self.array(cast(np.asarray(value), dtype), constant)

    def value(self, index: int, low: int = 0, high: int = 5, least: int = 0, open_shape: bool = False) -> Known:
        """Return an earlier or new value with the type of input `index` and `low` to `high` axes of at least `least` elements.

        With `open_shape`, its shape need not be known.
        """
        known = self.take_operand(index)
        if known is not None and not _fits(known, self.kind(index), low, high, least, open_shape):
            raise Rejected(f"{known.name} does not fit operand {index}")
        if known is None and index in self.fixed and is_dtype(self.kind(index)):
            shape = self.shape(low, max(low, min(high, 4)), least=least)
            known = self.draft.lookup(self.tensor_of(self.kind(index), shape, constant=self.fixed[index]))
        return self.value_of(self.kind(index), low, high, least, open_shape) if known is None else known

    def take_operand(self, index: int) -> Known | None:
        """Return the value that the node must read at `index`, on the first call, or None."""
        name = self._operands.pop(index, None)
        return None if name is None else self.draft.lookup(name)

    def value_of(self, kind: str, low: int = 0, high: int = 5, least: int = 0, open_shape: bool = False) -> Known:
        """Return a value of any kind, by the rules of `value`."""
        fitting = [known for known in self.visible() if _fits(known, kind, low, high, least, open_shape)]
        if fitting and self.chance(0.75):
            recent = fitting[-4:] if self.chance(0.6) else fitting
            return self.choice(recent)
        if not is_dtype(kind):
            return self.container(kind)
        return self.draft.lookup(self.tensor_of(kind, self.shape(low, min(high, 4) if low <= 4 else high, least=least)))

    def visible(self) -> list[Known]:
        """Return the values that a node may read, outer ones first. A plain draft has none."""
        if self.draft.plain:
            return []
        drafts = []
        draft: Draft | None = self.draft
        while draft is not None:
            drafts.append(draft)
            draft = draft.outer
        return [known for one in reversed(drafts) for known in one.values.values()]

    def container(self, kind: str) -> Known:
        """Add a feed of a kind that is not a tensor: a sequence, an optional or a map."""
        return self.draft.outermost.feed(self.content_of(kind), type_of(kind))

    def body(self, inputs: Sequence[Type] = ()) -> Draft:
        """Return a body with these inputs and a few nodes, which may read outer values, without outputs. Raises Rejected."""
        if self.draft.depth >= DEEPEST or self._extend is None:
            raise Rejected("bodies are nested too deeply")
        body = Draft(self.draft.opsets, self.rng, self.draft.rules, self.draft)
        for type_ in inputs:
            body.formal(type_)
        self._extend(body, self.integer(0, 4 - self.draft.depth))
        return body

    def inside(self, body: Draft) -> "Draw":
        """Return choices for the same node, whose operands go into a body."""
        return Draw(body, self.schema, self.target, self.rng, self._extend)

    def content_of(self, kind: str) -> Any:
        """Return the contents of a feed of a kind: an array, a list, a dict, or None for an empty optional."""
        head, bracket, inside = kind.partition("(")
        if not bracket:
            return self.contents(kind, self.shape(0, 3, most=4))
        inside = inside[:-1]
        if head == "seq":
            return [self.content_of(inside) for _ in range(self.integer(0, 3))]
        if head == "optional":
            return None if self.chance(0.25) else self.content_of(inside)
        key, _, value = inside.partition(",")
        keys = self.contents(key, (4,)).tolist()
        return {one: self.contents(value, ()).item() for one in keys}

    def contents(self, dtype: str, shape: Shape) -> Array:
        """Return an array of ordinary numbers. In some drafts it contains NaN, infinities and the like."""
        if self.draft.contents is not None and is_float(dtype):
            return self.draft.contents(self.rng, shape, dtype)
        chosen = special if self.draft.special and self.chance(0.5) else numbers
        return chosen(self.rng, shape, dtype)

    # --- helpers
    def _earlier(self, dtype: str, shape: Shape) -> str | None:
        """Return an earlier value of this type and shape, or one that is reshaped or cast to them."""
        visible = [known for known in self.visible() if known.shape is not None]
        same = [known.name for known in visible if known.kind == dtype and known.shape == shape]
        if same and self.chance(0.6):
            return self.choice(same)
        if not self.chance(0.35):
            return None
        size = prod(shape)
        moved = [one for one in visible if one.kind == dtype and one.shape is not None and np.prod(one.shape) == size != 0]
        if moved and dtype != "string":
            target = self.ints(*shape, constant=True)
            return self._try_append("Reshape", [self.choice(moved).name, target])
        wider = [one for one in visible if one.shape == shape and _castable(one.kind, dtype)]
        if wider:
            return self._try_append("Cast", [self.choice(wider).name], {"to": to_onnx(dtype)})
        return None

    def _try_append(self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None) -> str | None:
        """Append a node and return its result, or None if the opset has no such operator for the type."""
        try:
            return self.draft.append(op_type, inputs, attributes)[0].name
        except Rejected:
            return None


def check_size(shape: Sequence[int]) -> None:
    """Raise Rejected for a value with more than MOST_ELEMENTS elements."""
    if prod(shape) > MOST_ELEMENTS:
        raise Rejected(f"{tuple(shape)} has too many elements")


def _fits(known: Known, kind: str, low: int, high: int, least: int, open_shape: bool) -> bool:
    if known.kind != kind or known.shape is None:
        return known.kind == kind and open_shape
    return low <= known.rank <= high and all(n >= least for n in known.shape)


def _castable(source: str, target: str) -> bool:
    """Return True if the result of a Cast is defined. Floats are not cast to integers, whose range they may exceed."""
    if source == target or target not in FLOATS:
        return False
    return source in FLOATS or source in ("int8", "int16", "int32", "int64", "uint8", "bool")
