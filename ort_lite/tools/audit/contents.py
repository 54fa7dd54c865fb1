"""The parts of a ModelProto that reach outside of it or cost time without a limit: files, patterns and loops."""

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ort_lite.errors import OrtLiteError, describe
from ort_lite.load.external import ExternalData
from ort_lite.load.proto import pb, text
from ort_lite.record import Record

_PATTERNS = {"RegexFullMatch": ("pattern",), "Tokenizer": ("tokenexp", "separators")}
"""Attributes that are regular expressions, by operator."""


Constants = ChainMap[str, Any]
"""Tensors by name, None for a value that is no constant; the innermost graph comes first."""


class FileRead(Record):
    """A file that the model reads besides itself: its real path, the bytes that are read, and who reads it.

    `refused` says why a session does not open it, "" if it does.
    """

    location: str
    path: str
    nbytes: int
    readers: int
    """Tensors or nodes that read it."""
    refused: str = ""


class RegularExpression(Record):
    """A regular expression of a node. RE2 matches it in a time that is linear in the text."""

    node: str
    operator: str
    pattern: str


class LoopBound(Record):
    """A loop of the model. `bound` is the largest number of iterations, None if only a run tells."""

    node: str
    operator: str
    depth: int
    """The number of loops around it."""
    bound: int | None
    reason: str
    """The origin of the number."""


class NodeProto(Record):
    """A node of the model, with the constants that it can see and the number of loops around it."""

    proto: Any
    constants: Mapping[str, Any]
    depth: int


def nodes_of(model: pb.ModelProto) -> Iterator[NodeProto]:
    """Yield the nodes of the graph, of its bodies and of the functions, outer ones first. O(nodes)."""
    yield from _nodes(model.graph, ChainMap(), 0)
    for function in model.functions:
        yield from _nodes_in(function.node, ChainMap(), 0)


def _nodes(graph: pb.GraphProto, outer: Constants, depth: int) -> Iterator[NodeProto]:
    known: dict[str, Any] = {tensor.name: tensor for tensor in graph.initializer}
    known.update(dict.fromkeys(value.name for value in graph.input))  # inputs hide outer names, and override initializers
    yield from _nodes_in(graph.node, outer.new_child(known), depth)


def _nodes_in(nodes: Sequence[Any], constants: Constants, depth: int) -> Iterator[NodeProto]:
    for node in nodes:
        yield NodeProto(node, constants, depth)
        if node.op_type == "Constant" and node.output:
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            constants[node.output[0]] = values[0] if values else None
        inside = depth + (node.op_type in ("Loop", "Scan", "SequenceMap"))
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _nodes(body, constants, inside)


def tensors_of(model: pb.ModelProto) -> Iterator[Any]:
    """Yield all tensors: initializers and attributes, of bodies and functions too."""
    yield from _graph_tensors(model.graph)
    for node in nodes_of(model):
        for attribute in node.proto.attribute:
            yield from (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _graph_tensors(body)


def _graph_tensors(graph: pb.GraphProto) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def files_of(model: pb.ModelProto, path: str) -> list[FileRead]:
    """Return the files of external data and of saved contexts (EPContext), in the order in which the model names them."""
    external = ExternalData(os.path.dirname(path) or ".", path)
    found: dict[str, FileRead] = {}
    for tensor in tensors_of(model):
        if tensor.data_location == pb.TensorProto.EXTERNAL:
            entries = [(text(entry.key), text(entry.value)) for entry in tensor.external_data]
            _add(found, _place(external, entries, text(tensor.name)))
    for node in nodes_of(model):
        values = {attribute.name: attribute for attribute in node.proto.attribute}
        if node.proto.op_type == "EPContext" and "embed_mode" in values and not values["embed_mode"].i:
            location = text(values["ep_cache_context"].s) if "ep_cache_context" in values else ""
            _add(found, _place(external, [("location", location)], text(node.proto.name)))
    return list(found.values())


def _add(found: dict[str, FileRead], file: FileRead) -> None:
    known = found.get(file.location)
    if known is not None:
        refused = known.refused or file.refused
        file = file.replace(nbytes=known.nbytes + file.nbytes, readers=known.readers + 1, refused=refused)
    found[file.location] = file


def _place(external: ExternalData, entries: Sequence[tuple[str, str]], who: str) -> FileRead:
    location = dict(entries).get("location", "")
    try:
        path, _, nbytes = external.place(entries, 0, who)
    except OrtLiteError as error:
        return FileRead(location, "", 0, 1, describe(error))
    refused = "" if os.path.isfile(path) else "there is no such file"
    return FileRead(location, path, nbytes, 1, refused)


def patterns_of(model: pb.ModelProto) -> list[RegularExpression]:
    """Return the regular expressions of the model."""
    return [
        RegularExpression(_name(node.proto), node.proto.op_type, text(value))
        for node in nodes_of(model)
        for attribute in node.proto.attribute
        if attribute.name in _PATTERNS.get(node.proto.op_type, ())
        for value in ([attribute.s] if attribute.HasField("s") else attribute.strings)
    ]


def loops_of(model: pb.ModelProto) -> list[LoopBound]:
    """Return the loops of the model."""
    found = []
    for node in nodes_of(model):
        if node.proto.op_type == "Loop":
            found.append(LoopBound(_name(node.proto), "Loop", node.depth, *_iteration_limit(node)))
        elif node.proto.op_type in ("Scan", "SequenceMap"):
            reason = "as many iterations as its input has elements along an axis"
            found.append(LoopBound(_name(node.proto), node.proto.op_type, node.depth, None, reason))
    return found


def _iteration_limit(node: NodeProto) -> tuple[int | None, str]:
    count, condition = (*node.proto.input[:2], "", "")[:2]
    if not count:
        ends = "its condition alone ends it" if condition else "nothing ends it but the condition that its body computes"
        return None, f"it has no trip count; {ends}"
    tensor = node.constants.get(count)
    if tensor is None:
        return None, f"its trip count {count!r} is computed or fed"
    if not tensor.int64_data and len(tensor.raw_data) < 8:
        return None, f"its trip count {count!r} is no integer in the model's file"
    values = tensor.int64_data[:1] or [int.from_bytes(tensor.raw_data[:8], "little", signed=True)]
    return int(values[0]), f"its trip count {count!r} is a constant"


def _name(node: Any) -> str:
    return text(node.name) or f"the node that computes {text(node.output[0]) if node.output else 'nothing'}"
