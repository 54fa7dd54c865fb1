"""Which nodes stand for compiled partitions (see `ort_lite.pipeline.context`)."""

from ort_lite.graph.graph import Node

DOMAIN, OPERATOR = "com.microsoft", "EPContext"
BYTES = ("utf-8", "surrogateescape")
"""How the text attribute of a node holds the bytes of its context: what `encode` and `decode` are called with."""


def is_context(node: Node) -> bool:
    return node.op_type == OPERATOR and node.domain == DOMAIN
