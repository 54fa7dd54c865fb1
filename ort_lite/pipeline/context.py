"""Compiled partitions as nodes of a model: `com.microsoft.EPContext`, named as onnxruntime names them.

    outputs = EPContext<main_context=1, ep_cache_context="...", embed_mode=1, source="MyExecutionProvider",
                        partition_name="MyExecutionProvider_0", ep_sdk_version="what it depends on">(inputs)

`source` is the provider that serialised the partition and is the only one that gets the node back. With embed_mode 0,
`ep_cache_context` is the name of a file beside the model.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.graph.released import check_there
from ort_lite.partition.assignment import Assignment
from ort_lite.pipeline.older_opsets import bring_to_imports
from ort_lite.provider.ask import ask
from ort_lite.provider.context_nodes import BYTES, DOMAIN, OPERATOR, is_context
from ort_lite.provider.provider import CompiledPartition, Partition


def read_files(graph: Graph, path: str) -> None:
    """Puts contexts that are in files beside the model, `path`, into its nodes. O(nodes).

    Raises what reading external data raises: a file outside of the model's folder is not read.
    """
    from ort_lite.serialization.external import ExternalData

    files = ExternalData(os.path.dirname(path) or ".", path)
    for node in graph.all_nodes():
        if is_context(node) and node.attr("embed_mode", 1) == 0:
            data = files.whole(node.attr("ep_cache_context", ""), str(node))
            _set(node, ep_cache_context=data.decode(*BYTES), embed_mode=1)


def write_files(model: Model, path: str) -> None:
    """Puts the contexts of a model that will be saved at `path` into files beside it: <stem>_<partition>.bin."""
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    for node in model.graph.all_nodes():
        if is_context(node):
            name = f"{stem}_{node.attr('partition_name')}.bin"
            whole = os.path.join(folder, name)
            with open(f"{whole}.new", "wb") as file:
                file.write(str(node.attr("ep_cache_context")).encode(*BYTES))
            os.replace(f"{whole}.new", whole)
            _set(node, ep_cache_context=name, embed_mode=0)


def _set(node: Node, **values: Any) -> None:
    node.attributes.update((name, Attr.of(name, value)) for name, value in values.items())


def with_contexts(model: Model, assignment: Assignment, compiled: Mapping[str, CompiledPartition]) -> Model:
    """A copy of the model in which every partition that its provider can serialise is one EPContext node.

    The other nodes stay as they are. Raises ProviderError when there is no such partition. O(model).
    """
    mapping: dict[Value, Value] = {}
    copy = model.replace(
        graph=model.graph.clone(mapping), opset_imports=dict(model.opset_imports), metadata_props=dict(model.metadata_props)
    )
    twins = dict(zip(model.graph.all_nodes(), copy.graph.all_nodes(), strict=True))
    count = 0
    for partition in assignment.partitions:
        data = _serialized(partition, compiled[partition.name])
        if data is not None:
            count += 1
            node = _replace([twins[node] for node in partition.nodes], partition, data, mapping)
            copy.metadata_props[f"ep_compatibility_info.{partition.provider.name}"] = node.attr("ep_sdk_version")
    if not count:
        names = ", ".join(assignment.providers)
        raise ProviderError(f"none of {names} saves what it compiled: there is nothing but the model itself to save")
    copy.opset_imports.setdefault(DOMAIN, 1)
    for node in copy.graph.all_nodes():
        copy.opset_imports.setdefault(node.domain, node.version)
    bring_to_imports(copy)
    _drop_unread(copy.graph)
    return copy


def _serialized(partition: Partition, compiled: CompiledPartition) -> bytes | None:
    (first, *_) = partition.nodes
    if is_context(first):
        return str(first.attr("ep_cache_context")).encode(*BYTES)
    data = ask(partition.provider, "serialize", compiled)
    return None if data is None else bytes(data)


def _replace(nodes: Sequence[Node], partition: Partition, data: bytes, mapping: dict[Value, Value]) -> Node:
    home = nodes[0].graph
    assert home is not None
    old = [mapping[value] for value in partition.outputs]
    new = [Value(value.name, value.type) for value in old]
    attributes: dict[str, Any] = {
        "main_context": 1, "ep_cache_context": data.decode(*BYTES), "embed_mode": 1, "source": partition.provider.name,
        "partition_name": partition.name, "ep_sdk_version": ask(partition.provider, "compatibility"),
    }  # fmt: skip
    inputs = [mapping[value] for value in partition.inputs]
    made = Node(OPERATOR, inputs, new, attributes, domain=DOMAIN, version=1, name=partition.name)
    home.append(made)
    for before, after in zip(old, new, strict=True):
        before.replace_all_uses_with(after)
    mapping.update(zip(partition.outputs, new, strict=True))  # partitions of bodies read them
    for node in reversed(nodes):
        home.remove(node)
    home.sort()
    return made


def _drop_unread(graph: Graph) -> None:
    """Initialisers that only replaced nodes read are in the compiled form. Raises RuntimeException for one that is needed."""
    for name, value in list(graph.initializers.items()):
        if not value.uses and not value.is_graph_output():
            del graph.initializers[name]
        else:
            check_there(value, "saving")
    for node in graph:
        for body in node.subgraphs():
            _drop_unread(body)
