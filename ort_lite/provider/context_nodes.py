"""EPContext nodes, which represent compiled partitions (see `ort_lite.session.context`)."""

from collections.abc import Sequence

from ort_lite.graph.graph import Node

DOMAIN, OPERATOR = "com.microsoft", "EPContext"
BYTES = ("utf-8", "surrogateescape")
"""The arguments of `encode` and `decode` that convert a context's bytes to a text attribute."""


def is_context(node: Node) -> bool:
    """Return True for an EPContext node."""
    return node.op_type == OPERATOR and node.domain == DOMAIN


def owner_of(node: Node, labels: Sequence[str]) -> tuple[str, str]:
    """Return the label of the provider that gets the node and "", or "" and the reason why no provider does.

    Of several instances, it is the one whose number starts the node's `partition_name`. A name of another form, which other
    software may have written, means the first instance.
    """
    source = node.attr("source", "")
    if not isinstance(source, str) or source not in labels:
        return "", f"it was compiled by {source or 'somebody who is not named'}"
    wanted = str(node.attr("partition_name", "")).rpartition("_")[0]
    name, _, number = wanted.partition("#")
    if name != source or not number.isdigit():
        return source, ""
    return (wanted, "") if wanted in labels else ("", f"it was compiled by {wanted}: instance {number}, which is not here")
