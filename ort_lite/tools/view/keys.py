"""Keys of the page's nodes for the names that a provider gives to things."""

from collections.abc import Collection, Mapping, Sequence


def key_of(name: str, nodes: Collection[str], fused: Mapping[str, Sequence[str]]) -> str:
    """The key, among `nodes`, of the one that a name is of; "" where it is of none.

    `fused` has the parts of nodes that became one, whose last one stands for all. Providers join names with "+", too, and write an
    operator before the one of the last.
    """
    ends = [name[k + 1 :] for k, letter in enumerate(name) if letter == "+"]
    for whole in (name, *ends, name.partition("_")[2]):
        parts = [part for part in fused.get(whole, (whole,)) if part in nodes]
        if parts:
            return parts[-1]
    return ""
