"""Which nodes stand for compiled partitions (see `ort_lite.pipeline.context`)."""

from ort_lite.graph.graph import Node

DOMAIN, OPERATOR = "com.microsoft", "EPContext"


def is_context(node: Node) -> bool:
    return node.op_type == OPERATOR and node.domain == DOMAIN
