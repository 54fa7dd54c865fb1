"""Chains: functions that write the nodes that a transform matches, registered by the name of the transform."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.testing.generator.arrays import cast, numbers
from ort_lite.testing.generator.draft import Draft, Known, Rejected
from ort_lite.testing.generator.draw import Draw

ByRecipe = Callable[[str, Mapping[str, str]], Known]
"""(operator, types) -> the first output of a new node that its recipe draws. Raises Rejected."""


class ChainDraft:
    """Writes nodes into a draft one after the other. All methods raise Rejected if a node is not valid."""

    def __init__(self, draft: Draft, draw: Draw, by_recipe: ByRecipe, rng: Random) -> None:
        self.draft, self.draw, self.rng, self._by_recipe = draft, draw, rng, by_recipe

    @property
    def opset(self) -> int:
        """Return the version of the default domain's operators."""
        return self.draft.opsets[""]

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def lookup(self, name: str) -> Known:
        """Return a value of the draft by name. Raises KeyError if there is none."""
        return self.draft.lookup(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value. Raises Rejected if it is not known."""
        return self.lookup(name).sizes

    def skip(self, reason: str) -> None:
        """Leave the chain out of this model."""
        raise Rejected(reason)

    # --- nodes
    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output and return its name."""
        return self.nodes(op_type, *inputs, **attributes)[0]

    def nodes(self, op_type: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> list[str]:
        """Append a node and return the names of its outputs. Raises Rejected if the node is not valid."""
        return [known.name for known in self.draft.append(op_type, inputs, attributes, outputs, domain)]

    def either_way(self, op_type: str, a: str, b: str) -> str:
        """Append a node of a commutative operator, with its operands in either order."""
        return self.node(op_type, *((a, b) if self.chance(0.5) else (b, a)))

    def by_recipe(self, op_type: str, **types: str) -> str:
        """Append a node that the recipe of its operator draws. `types` binds type variables; the others have usual types."""
        return self._by_recipe(op_type, types).name

    # --- operands
    def value(self, low: int = 0, high: int = 4, kind: str = "float32", least: int = 0) -> str:
        """Return an earlier value or a new one."""
        return self.draw.value_of(kind, low, high, least).name

    def fresh(self, shape: Sequence[int], kind: str = "float32") -> str:
        """Return an operand of this shape, which may be an earlier value."""
        return self.draw.tensor_of(kind, shape)

    def constant(self, shape: Sequence[int], kind: str = "float32") -> str:
        """Return a constant with random contents."""
        return self.array(numbers(self.rng, shape, kind))

    def array(self, array: Array) -> str:
        """Return a constant with these contents: an initializer or a Constant node."""
        return self.draw.array(array, constant=True)

    def scalar(self, value: float, kind: str = "float32") -> str:
        """Return a constant with one element and no axes, or sometimes one axis."""
        return self.array(cast(np.array(value), kind).reshape((1,) if self.chance(0.2) else ()))

    def array_of(self, value: float, kind: str = "float32") -> str:
        """Return a constant with one element and no axes."""
        return self.array(cast(np.array(value), kind))

    def ints(self, *values: int) -> str:
        """Return a new one-dimensional int64 operand with these elements."""
        return self.array(np.array(values, np.int64))

    def channel_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one number per channel of a value `(N, C, ...)`, or of one number for all channels."""
        shape = self.shape(name)
        if self.chance(0.2):
            return ()
        return (*([1] if self.chance(0.3) else []), shape[1], *[1] * (len(shape) - 2))

    def broadcast(self, name: str) -> str:
        """Return an operand that broadcasts to the shape of a value."""
        return self.fresh(self.draw.broadcastable(self.shape(name), wider=False), self.lookup(name).kind)


Writer = Callable[[ChainDraft], None]
_WRITERS: dict[str, Writer] = {}


def chain_for(*transforms: str) -> Callable[[Writer], Writer]:
    """Register a function that writes the nodes that these transforms match."""

    def register(function: Writer) -> Writer:
        for name in transforms:
            if name in _WRITERS:
                raise ValueError(f"{name} has two chains")
            _WRITERS[name] = function
        return function

    return register


def chains() -> Mapping[str, Writer]:
    """Return all chains by the name of their transform. Imports the modules that register them."""
    package = import_module("ort_lite.testing.generator.chains")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_WRITERS.items()))
