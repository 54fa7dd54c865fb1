"""The mapping from names that a provider uses to keys of the page's nodes."""

from collections.abc import Collection, Mapping, Sequence


def key_of(name: str, nodes: Collection[str], fused: Mapping[str, Sequence[str]]) -> str:
    """Return the key, among `nodes`, that a name belongs to, or "" if it belongs to none.

    `fused` holds the parts of fused nodes; the last part stands for all. Providers may also join names with "+", with an operator
    before the last one.
    """
    ends = [name[k + 1 :] for k, letter in enumerate(name) if letter == "+"]
    for whole in (name, *ends, name.partition("_")[2]):
        parts = [part for part in fused.get(whole, (whole,)) if part in nodes]
        if parts:
            return parts[-1]
    return ""
