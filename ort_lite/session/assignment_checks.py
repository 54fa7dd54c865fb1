"""Check an assignment before it is compiled: disallowed fallbacks, and listed providers that run no node."""

from collections import Counter
from collections.abc import Iterator

from ort_lite.errors import Fail, ModelRequiresCompilation, ProviderError
from ort_lite.options.config_keys import DISABLE_COMPILE, DISABLE_CPU_FALLBACK
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment, Reason
from ort_lite.plugins.selection import DEFAULT, WITHOUT_IT, Selection
from ort_lite.provider.context_nodes import is_context

_MOST = 3
"""The number of reasons that a message shows."""
_WIDTH = 160
"""The number of characters of a reason that a message shows."""


def check_fallback(assignment: Assignment, options: SessionOptions) -> None:
    """Raise Fail if the config disables CPU fallback and the default provider would run a node.

    The message names each such node and the reasons of the other providers.
    """
    if options.config(DISABLE_CPU_FALLBACK, "0") != "1":
        return
    left = [place.node for _, place in assignment.rows() if place.provider == DEFAULT]
    if left:
        lines = [f"  {node}: {assignment.why_not(node) or 'nobody else was asked'}" for node in left]
        some = "a node" if len(left) == 1 else f"{len(left)} nodes"
        raise Fail(f"{DISABLE_CPU_FALLBACK} is set, and {DEFAULT} would run {some}:\n" + "\n".join(lines))


def check_compilation(assignment: Assignment, options: SessionOptions) -> None:
    """Raise ModelRequiresCompilation if the config disables compiling and a partition would have to be compiled.

    EPContext nodes, partitions of kernel providers and those of the default provider are exempt.
    """
    if options.config(DISABLE_COMPILE, "0") != "1":
        return
    from ort_lite.provider.kernels import KernelProvider

    ready = [is_context(p.nodes[0]) or isinstance(p.provider, KernelProvider) for p in assignment.partitions]
    left = [p for p, done in zip(assignment.partitions, ready, strict=True) if not done and p.provider.name != DEFAULT]
    if left:
        lines = [f"  {p.name}: {', '.join(map(str, p.nodes[:3]))}{', ...' if len(p.nodes) > 3 else ''}" for p in left]
        why = "these partitions are not compiled (InferenceSession.save_compiled makes a model in which they are)"
        raise ModelRequiresCompilation(f"{DISABLE_COMPILE} is set, and {why}:\n" + "\n".join(lines))


def check_usage(chosen: Selection, assignment: Assignment) -> list[str]:
    """Return one message for each listed provider that runs no node, with its most frequent reasons.

    The default provider may stay unused. Raises ProviderError for the first unused provider that is required.
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
    reasons = [each for place in assignment.placements.values() for each in place.reasons if each.provider == label]
    if not reasons:
        return "no node is left of the model once it is optimized"
    kinds = Counter((reason.verdict, reason.code) for reason in reasons).most_common()
    shown = [
        _format_reasons(count, [each for each in reasons if (each.verdict, each.code) == kind]) for kind, count in kinds[:_MOST]
    ]
    return "; ".join([*shown, *_more(len(kinds) - _MOST)])


def _format_reasons(count: int, reasons: list[Reason]) -> str:
    details = Counter(map(str, reasons)).most_common()
    text = details[0][0]
    short = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
    return f"{count} {'node' if count == 1 else 'nodes'} {short}{', and similar' if len(details) > 1 else ''}"


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more {'kind' if count == 1 else 'kinds'} of reasons"
