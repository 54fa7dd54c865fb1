"""NAME=VALUE arguments, which several options take."""

from collections.abc import Sequence

from ort_lite.errors import InvalidArgument


def pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Split texts at the first "=". Raises InvalidArgument for a text without a name or without "="."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidArgument(f"{option} {text}: expected NAME=VALUE")
        found.append((name, value))
    return found
