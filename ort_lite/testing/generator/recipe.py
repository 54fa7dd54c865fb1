"""Recipes: functions that draw one node. A recipe states once what the schema of an operator does not say.

    @recipe("Concat")
    def concat(draw: Draw) -> NodeProposal:
        first = draw.value(0, low=1)
        axis = draw.axis(first.rank)
        ...
        return call([first.name, *others], axis=axis)

The shape rules check each proposal, so a recipe needs no proof that its node is valid: it should nearly always be.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from ort_lite.graph.types import Type
from ort_lite.record import Record
from ort_lite.testing.generator.draw import Draw


class NodeProposal(Record, eq=False):
    """A node that a recipe proposes. `types` are those of the outputs, if shape rules cannot infer them."""

    inputs: tuple[str, ...]
    outputs: tuple[bool, ...]
    attributes: Mapping[str, Any]
    types: tuple[Type | None, ...] | None = None


T = TypeVar("T")
Recipe = Callable[[Draw], NodeProposal]
_RECIPES: dict[tuple[str, str], Recipe] = {}


def recipe(*operators: str, domain: str = "") -> Callable[[Recipe], Recipe]:
    """Register a function as the recipe of operators of a domain."""

    def register(function: Recipe) -> Recipe:
        for op_type in operators:
            if (domain, op_type) in _RECIPES:
                raise ValueError(f"{domain}.{op_type} has two recipes")
            _RECIPES[domain, op_type] = function
        return function

    return register


def recipes() -> Mapping[tuple[str, str], Recipe]:
    """Return all recipes by domain and operator. Imports the modules that register them."""
    package = import_module("ort_lite.testing.generator.recipes")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_RECIPES.items()))


def call(
    inputs: Sequence[str], outputs: int | Sequence[bool] = 1, *, types: Sequence[Type | None] | None = None, **attributes: Any
) -> NodeProposal:
    """Propose a node. Attributes that are None are left out, and so are trailing inputs that are "" and trailing outputs that are
    False.
    """
    named = [True] * outputs if isinstance(outputs, int) else outputs
    present = {name: value for name, value in attributes.items() if value is not None}
    return NodeProposal(_without_last(inputs), _without_last(named), present, None if types is None else tuple(types))


def _without_last(items: Sequence[T]) -> tuple[T, ...]:
    """Return the items up to the last true one."""
    return tuple(items[: max((place for place, item in enumerate(items, 1) if item), default=0)])
