"""Compiled partitions stored in a model as `com.microsoft.EPContext` nodes, with onnxruntime's attribute names.

    outputs = EPContext<main_context=1, ep_cache_context="...", embed_mode=1, source="MyExecutionProvider",
                        partition_name="MyExecutionProvider_0", ep_sdk_version="what it depends on",
                        notes="context of 2048 bytes, BLAKE2b 9f86...">(inputs)

`source` names the provider that serialized the partition. Only that provider is offered the node; of several instances, the one
whose label starts `partition_name`. With `embed_mode` 0, `ep_cache_context` is the name of a file next to the model, and
`notes` hold the size and fingerprint of that file. Behind them are the positions of inputs and outputs that are host values.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from ort_lite.errors import InvalidGraph, ProviderError
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.graph.released import check_there
from ort_lite.native.digest import digest
from ort_lite.partition.assignment import Assignment
from ort_lite.provider.ask import ask
from ort_lite.provider.context_nodes import BYTES, DOMAIN, OPERATOR, host_note, is_context, note_host_values
from ort_lite.provider.provider import CompiledPartition, Partition
from ort_lite.session.older_opsets import bring_to_imports


def read_files(graph: Graph, path: str, read: Callable[[str], bytes] | None = None) -> None:
    """Load contexts from external files into their nodes. O(nodes).

    Files are read from the folder of the model at `path`, or through `read`. Raises the errors of external data, for example
    for a file outside the model's folder, and InvalidGraph if a file does not match the fingerprint saved with the model.
    """
    from ort_lite.load.external import ExternalData

    contents: dict[str, tuple[str, str]] = {}  # the text and fingerprint of each file
    with closing(ExternalData(os.path.dirname(path) or ".", path)) as files:
        for node in graph.all_nodes():
            if is_context(node) and node.attr("embed_mode", 1) == 0:
                name = str(node.attr("ep_cache_context", ""))
                if name not in contents:
                    data = files.whole(name, str(node)) if read is None else read(name)
                    contents[name] = data.decode(*BYTES), fingerprint(data)
                text, found = contents[name]
                saved = str(node.attr("notes", "")).partition("; ")[0]
                if saved.startswith(_NOTES) and saved != found:
                    raise InvalidGraph(
                        f"{node} ({node.attr('source', '')}): the file {name!r} has {found.removeprefix(_NOTES)}; "
                        f"saved with the model were {saved.removeprefix(_NOTES)}: cut short, or of another model?"
                    )
                _set(node, ep_cache_context=text, embed_mode=1)


_NOTES = "context of "


def fingerprint(data: bytes) -> str:
    """Return the fingerprint of a context file as stated in `notes`."""
    return f"{_NOTES}{len(data)} bytes, BLAKE2b {digest(data).hex()}"


def save_with_contexts(model: Model, path: str, embed: bool) -> None:
    """Save a model with EPContext nodes. Changes the model.

    Without `embed`, each context goes to a file `<stem>_<partition>.bin` next to the model. Files are renamed to their final
    names once all of them are complete, the model last.
    """
    from ort_lite.load.files import check_replaceable
    from ort_lite.load.save import save

    staged: dict[str, str] = {}
    check_replaceable(path)
    try:
        if not embed:
            _stage(model, path, staged)
        temporary = _beside(path)
        staged[temporary] = path
        save(model, temporary)
        for made, wanted in staged.items():
            os.replace(made, wanted)
    finally:
        for made in filter(os.path.exists, staged):
            os.unlink(made)


def _stage(model: Model, path: str, staged: dict[str, str]) -> None:
    """Write the contexts to temporary files and map each of them to its final path in `staged`."""

    def write(name: str, data: bytes) -> None:
        whole = os.path.join(os.path.dirname(path), name)
        temporary = _beside(whole)
        staged[temporary] = whole
        with open(temporary, "xb") as file:
            file.write(data)

    hand_out(model, os.path.splitext(os.path.basename(path))[0], write)


def hand_out(model: Model, stem: str, write: Callable[[str, bytes], None]) -> None:
    """Pass each context to `write`, with the name of its file, and leave only this name in the model."""
    for node in model.graph.all_nodes():
        if is_context(node):
            data = str(node.attr("ep_cache_context")).encode(*BYTES)
            name = f"{stem}_{node.attr('partition_name')}.bin"
            write(name, data)
            notes = "; ".join(filter(None, [fingerprint(data), host_note(node)]))
            _set(node, ep_cache_context=name, embed_mode=0, notes=notes)


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{secrets.token_hex(6)}")


def _set(node: Node, **values: Any) -> None:
    node.attributes.update((name, Attr.of(name, value)) for name, value in values.items())


class NothingToSave(ProviderError):
    """The error for a session in which no provider can serialize its partitions."""


def with_contexts(model: Model, assignment: Assignment, compiled: Mapping[str, CompiledPartition]) -> Model:
    """Return a copy of the model in which each serializable partition is one EPContext node. O(model).

    Other nodes stay unchanged, and so do partitions with bodies that have partitions of their own: one node cannot represent
    them, so the inner partitions are saved instead. Raises NothingToSave if no partition can be saved, and ProviderError naming
    a provider whose `serialize` fails.
    """
    mapping: dict[Value, Value] = {}
    copy = model.replace(
        graph=model.graph.clone(mapping), opset_imports=dict(model.opset_imports), metadata_props=dict(model.metadata_props)
    )
    twins = dict(zip(model.graph.all_nodes(), copy.graph.all_nodes(), strict=True))
    levels = {level.graph for level in assignment.levels}
    count = 0
    for partition in assignment.partitions:
        nodes = [twins[node] for node in partition.nodes]
        node = nodes[0]
        if is_context(node):
            _set(node, partition_name=partition.name)
        elif any(body in levels for each in partition.nodes for body in each.subgraphs()):
            continue
        else:
            label = assignment.label(partition)
            data = ask(partition.provider, "serialize", compiled[partition.name], label=label)
            if data is None:
                continue
            version = ask(partition.provider, "compatibility", label=label)
            node = _replace(nodes, partition, bytes(data), version, mapping)
        count += 1
        copy.metadata_props[f"ep_compatibility_info.{partition.provider.name}"] = node.attr("ep_sdk_version", "")
    if not count:
        names = ", ".join(assignment.providers)
        raise NothingToSave(f"none of {names} saves what it compiled: there is nothing but the model itself to save")
    copy.opset_imports.setdefault(DOMAIN, 1)
    for node in copy.graph.all_nodes():
        copy.opset_imports.setdefault(node.domain, node.version)
    bring_to_imports(copy)
    _drop_unread(copy.graph)
    return copy


def _replace(nodes: Sequence[Node], partition: Partition, data: bytes, version: str, mapping: dict[Value, Value]) -> Node:
    home = nodes[0].graph
    assert home is not None
    old = [mapping[value] for value in partition.outputs]
    new = [Value(value.name, value.type) for value in old]
    attributes: dict[str, Any] = {
        "main_context": 1,
        "ep_cache_context": data.decode(*BYTES),
        "embed_mode": 1,
        "source": partition.provider.name,
        "partition_name": partition.name,
        "ep_sdk_version": version,
    }
    if note := note_host_values(partition.inputs, partition.outputs, partition.host_values):
        attributes["notes"] = note
    inputs = [mapping[value] for value in partition.inputs]
    made = Node(OPERATOR, inputs, new, attributes, domain=DOMAIN, version=1, name=partition.name)
    home.append(made)
    for before, after in zip(old, new, strict=True):
        before.replace_all_uses_with(after)
    mapping.update(zip(partition.outputs, new, strict=True))  # partitions of bodies read these values
    for node in reversed(nodes):
        home.remove(node)
    home.sort()
    return made


def _drop_unread(graph: Graph) -> None:
    """Remove initializers that only replaced nodes read. Raises RuntimeException if a needed one was released."""
    for name, value in list(graph.initializers.items()):
        if not value.uses and not value.is_graph_output():
            del graph.initializers[name]
        else:
            check_there(value, "saving")
    for node in graph:
        for body in node.subgraphs():
            _drop_unread(body)
