"""Names for the providers of one session."""

from collections.abc import Sequence

from ort_lite.provider.ask import who
from ort_lite.provider.provider import ExecutionProvider


def labels_of(providers: Sequence[ExecutionProvider]) -> list[str]:
    """Return a name for each: of several instances of one provider the second is "Name#2"."""
    seen: dict[str, int] = {}
    labels = []
    for provider in providers:
        name = who(provider)
        seen[name] = count = seen.get(name, 0) + 1
        labels.append(name if count == 1 else f"{name}#{count}")
    return labels
