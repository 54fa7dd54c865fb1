"""Calls of what a hook answered: a function or object of a plugin that changes a graph. Errors name the hook and its author."""

from collections.abc import Callable
from typing import Any

from ort_lite.checkpoint import checkpoint
from ort_lite.errors import OrtLiteError, ProviderError, told
from ort_lite.graph.graph import Node
from ort_lite.provider.ask import shown


def inserted_by(hook: str, function: Callable[..., Any], *arguments: Any) -> list[Node]:
    """The nodes that the function inserted.

    Raises ProviderError from what it raised and for an answer that holds something else. Errors of ort_lite's own stay what they are.
    """
    made = call_hooked(hook, function, *arguments)
    if not isinstance(made, list) or not all(isinstance(node, Node) for node in made):
        raise ProviderError(f"{_author(hook, function)} returned {shown(made)}; expected a list of the nodes that it inserted")
    return made


def call_hooked(hook: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments). Raises as `inserted_by` does. A checkpoint."""
    checkpoint()
    try:
        return function(*arguments)
    except OrtLiteError as error:
        error.add_note(f"in {_author(hook, function)}")
        raise
    except Exception as error:
        raise ProviderError(f"{_author(hook, function)} failed: {told(error)}") from error


def _author(hook: str, function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{hook} ({getattr(function, '__module__', '?')}.{name})"


__all__ = ["call_hooked", "inserted_by"]
