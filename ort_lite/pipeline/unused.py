"""Listed providers that are assigned no node: an error for those that are required, a warning for the others."""

from collections import Counter
from collections.abc import Iterator

from ort_lite.errors import ProviderError
from ort_lite.partition.assignment import Assignment, Reason
from ort_lite.plugins.selection import DEFAULT, WITHOUT_IT, Selection

_MOST = 3
"""Reasons that a message shows."""
_WIDTH = 160
"""Characters of a reason that it shows."""


def check_used(chosen: Selection, assignment: Assignment) -> list[str]:
    """Return a message for each listed provider that runs no node, with its reasons; the default provider need not run any.

    Raises ProviderError for the first one that is required.
    """
    if not chosen.listed:
        return []
    used = {place.provider for place in assignment.placements.values()}
    messages = []
    for (label, provider), policy in zip(assignment.providers.items(), chosen.policies, strict=True):
        if label in used or provider.name == DEFAULT:
            continue
        why = _reasons(label, assignment)
        if policy.required:
            text = f"{label} is required and is assigned no node: {why}; change the model or its options, or {WITHOUT_IT}"
            raise ProviderError(text).about(provider=provider.name)
        messages.append(f"{label} is assigned no node: {why}")
    return messages


def _reasons(label: str, assignment: Assignment) -> str:
    """Return the most frequent kinds of reasons why the provider runs no node, each with its number of nodes and an example."""
    reasons = [each for place in assignment.placements.values() for each in place.reasons if each.provider == label]
    if not reasons:
        return "no node is left of the model once it is optimized"
    kinds = Counter((reason.verdict, reason.code) for reason in reasons).most_common()
    shown = [_shown(count, [each for each in reasons if (each.verdict, each.code) == kind]) for kind, count in kinds[:_MOST]]
    return "; ".join([*shown, *_more(len(kinds) - _MOST)])


def _shown(count: int, reasons: list[Reason]) -> str:
    """Return how many nodes one kind of reasons is about, and the most frequent reason."""
    details = Counter(map(str, reasons)).most_common()
    text = details[0][0]
    short = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
    return f"{count} {'node' if count == 1 else 'nodes'} {short}{', and similar' if len(details) > 1 else ''}"


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more {'kind' if count == 1 else 'kinds'} of reasons"


__all__ = ["check_used"]
