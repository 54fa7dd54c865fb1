"""Partitions that are compiled already: those of EPContext nodes, which `ort_lite.pipeline.context` writes."""

from ort_lite.errors import CompileError
from ort_lite.provider.ask import ask
from ort_lite.provider.context_nodes import BYTES
from ort_lite.provider.provider import CompiledPartition, Partition


def restored(partition: Partition) -> CompiledPartition:
    """The compiled partition of an EPContext node. Raises CompileError where it does not fit this machine or this reader."""
    (node,) = partition.nodes
    if node.attr("embed_mode", 1) != 1:
        raise CompileError(f"{node}: its context is in a file beside the model; load the model by its path")
    why = ask(partition.provider, "check_compatibility", node.attr("ep_sdk_version", ""))
    if why is not None:
        raise CompileError(f"{node}: {why}; compile the original model again")
    data = str(node.attr("ep_cache_context", "")).encode(*BYTES)
    compiled: CompiledPartition = ask(partition.provider, "deserialize", partition, data)
    return compiled
