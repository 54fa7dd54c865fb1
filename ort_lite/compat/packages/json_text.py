"""JSON of model packages, which is bounded in size and depth and which onnxruntime reads too."""

import json
from typing import Any

from ort_lite.compat.packages.paths import MOST_BYTES
from ort_lite.errors import InvalidArgument

MOST_DEPTH = 64
"""The depth limit of lists and objects."""


def parse(text: str, where: str) -> Any:
    """Parse JSON. Raises InvalidArgument for what is not JSON, more than MOST_BYTES characters and more than MOST_DEPTH levels."""
    if len(text) > MOST_BYTES:
        raise InvalidArgument(f"{where}: JSON of {len(text):,} characters, expected {MOST_BYTES:,} at most")
    try:
        found = json.loads(text, parse_constant=_reject)
    except RecursionError as error:
        raise InvalidArgument(f"{where}: its JSON nests deeper than {MOST_DEPTH} levels") from error
    except ValueError as error:
        raise InvalidArgument(f"{where}: JSON parse error: {error}") from error
    _check_depth(found, where)
    try:
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # an infinite number, or half of a surrogate pair
        raise InvalidArgument(f"{where}: JSON parse error: {error}") from error
    return found


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object. Raises the errors of `parse`, and InvalidArgument for other values."""
    return as_object(parse(text, where), where)


def as_object(value: Any, where: str) -> dict[str, Any]:
    """Return a value that is a JSON object. Raises InvalidArgument for others."""
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where}: expected a JSON object, got {type(value).__name__}")
    return value


def compact(value: Any) -> str:
    """Return JSON without spaces, as onnxruntime writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def format_json(value: Any) -> bytes:
    """Return JSON as it is stored in files."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _check_depth(found: Any, where: str) -> None:
    level = [found]
    for _ in range(MOST_DEPTH + 1):
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise InvalidArgument(f"{where}: its JSON nests deeper than {MOST_DEPTH} levels")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _reject(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
