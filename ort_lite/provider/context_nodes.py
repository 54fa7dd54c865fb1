"""Nodes that stand for compiled partitions (see `ort_lite.session.context`)."""

from collections.abc import Sequence

from ort_lite.graph.graph import Node

DOMAIN, OPERATOR = "com.microsoft", "EPContext"
BYTES = ("utf-8", "surrogateescape")
"""How the text attribute of a node holds the bytes of its context: what `encode` and `decode` are called with."""


def is_context(node: Node) -> bool:
    return node.op_type == OPERATOR and node.domain == DOMAIN


def owner_of(node: Node, labels: Sequence[str]) -> tuple[str, str]:
    """The provider of the session that gets the node back, by its label, and "": or "" and why nobody does.

    Of several instances of one provider it is the one with the number that the node's `partition_name` begins with; a name that
    begins otherwise, as others may have written it, means the first.
    """
    source = node.attr("source", "")
    if not isinstance(source, str) or source not in labels:
        return "", f"it was compiled by {source or 'somebody who is not named'}"
    wanted = str(node.attr("partition_name", "")).rpartition("_")[0]
    name, _, number = wanted.partition("#")
    if name != source or not number.isdigit():
        return source, ""
    return (wanted, "") if wanted in labels else ("", f"it was compiled by {wanted}: instance {number}, which is not here")
