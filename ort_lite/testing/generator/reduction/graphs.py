"""Edits of ModelProtos. Each returns a new model and its feeds, or None if the edit is not possible."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ort_lite.testing.generator.reduction.protos import declaration, initializer, output

Feeds = Mapping[str, Any]
Candidate = tuple[Any, dict[str, Any]]
"""A ModelProto and its feeds."""


def copy(model: Any) -> Any:
    """Return a deep copy of a protobuf message."""
    other = type(model)()
    other.CopyFrom(model)
    return other


def reads(node: Any) -> Iterator[str]:
    """Return the names that a node reads, including captures of its bodies, each as often as it is read."""
    yield from (name for name in node.input if name)
    for graph in bodies(node):
        local = {value.name for value in graph.input} | {one.name for one in graph.initializer}
        local.update(one.values.name for one in graph.sparse_initializer)
        local.update(name for inner in graph.node for name in inner.output)
        names = [*(name for inner in graph.node for name in reads(inner)), *(value.name for value in graph.output)]
        yield from (name for name in names if name not in local)


def bodies(node: Any) -> list[Any]:
    """Return the graphs among the attributes of a node."""
    return [
        graph
        for attribute in node.attribute
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
    ]


def all_graphs(graph: Any) -> Iterator[Any]:
    """Return the graph and all bodies in it, outer ones first."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from all_graphs(body)


def replace(field: Any, items: Iterable[Any]) -> None:
    """Replace the contents of a repeated field."""
    kept = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(kept)


def drop_dead(graph: Any) -> None:
    """Drop nodes, initializers and, at the top level, inputs that no output depends on."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(name in needed for name in node.output if name):
            kept.append(node)
            needed.update(reads(node))
    replace(graph.node, reversed(kept))
    replace(graph.initializer, [one for one in graph.initializer if one.name in needed])


def prune(model: Any, feeds: Feeds) -> Candidate:
    """Remove what no output depends on from the model, in place, and from the feeds what is no longer an input."""
    graph = model.graph
    drop_dead(graph)
    needed = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    replace(graph.input, [value for value in graph.input if value.name in needed])
    inputs = {value.name for value in graph.input}
    called = _find_calls(model)
    replace(model.functions, [one for one in model.functions if (one.domain, one.name) in called])
    return model, {name: value for name, value in feeds.items() if name in inputs}


def _find_calls(model: Any) -> set[tuple[str, str]]:
    """Return the functions that the graph calls, directly or indirectly."""
    functions = {(one.domain, one.name): one for one in model.functions}
    found: set[tuple[str, str]] = set()
    waiting = [node for graph in all_graphs(model.graph) for node in graph.node]
    while waiting:
        node = waiting.pop()
        key = node.domain, node.op_type
        if key in functions and key not in found:
            found.add(key)
            waiting.extend(functions[key].node)
        waiting.extend(inner for graph in bodies(node) for inner in graph.node)
    return found


def with_outputs(model: Any, feeds: Feeds, names: Collection[str]) -> Candidate | None:
    """Keep only these outputs."""
    if not names:
        return None
    other = copy(model)
    replace(other.graph.output, [value for value in other.graph.output if value.name in names])
    return prune(other, feeds)


def without_nodes(
    model: Any, feeds: Feeds, removed: Collection[int], values: Mapping[str, Any], style: str = "fixed"
) -> Candidate | None:
    """Remove nodes. Their results become inputs with recorded `values`, or initializers if `style` is "constant".

    The sizes of a new input are numbers, or not declared if `style` is "open". Results that only removed nodes read become outputs.
    """
    other = copy(model)
    graph = other.graph
    kept = [node for index, node in enumerate(graph.node) if index not in removed]
    lost = {name for index in removed for name in graph.node[index].output if name}
    read = {name for node in kept for name in reads(node)}
    read_before = {name for index in removed for name in reads(graph.node[index])}
    outputs = [value for value in graph.output if value.name not in lost]
    known = {value.name for value in outputs}
    leaves = [name for node in kept for name in node.output if name in read_before and name not in read and name not in known]
    outputs.extend(output(name) for name in leaves)
    if not outputs:
        return None
    replace(graph.node, kept)
    replace(graph.output, outputs)
    return bind(other, feeds, {name: values.get(name) for name in lost & read}, style)


def bind(model: Any, feeds: Feeds, contents: Mapping[str, Any], style: str = "fixed") -> Candidate | None:
    """Add inputs, or initializers if `style` is "constant", with these contents to the model, in place."""
    added = dict(feeds)
    for name, value in sorted(contents.items()):
        if style == "constant":
            if not isinstance(value, np.ndarray):
                return None
            model.graph.initializer.append(initializer(value, name))
            continue
        declared = declaration(name, value, style)
        if declared is None:
            return None
        model.graph.input.append(declared)
        added[name] = value
    return prune(model, added)


def bypass(model: Any, feeds: Feeds, graph_index: int, node_index: int, operand: str) -> Candidate | None:
    """Remove a node from one of the graphs. Readers of its first output read `operand` instead."""
    other = copy(model)
    graph = list(all_graphs(other.graph))[graph_index]
    node = graph.node[node_index]
    result = node.output[0]
    outputs = [value for value in graph.output if value.name == result]
    if outputs:
        local = {name for one in graph.node for name in one.output} | {one.name for one in graph.initializer}
        local.update(value.name for value in graph.input if graph_index)
        if operand not in local or operand in {value.name for value in graph.output}:
            return None
    for value in outputs:
        value.name = operand
    del graph.node[node_index]
    for inner in all_graphs(graph):
        for one in inner.node:
            for position, name in enumerate(one.input):
                if name == result:
                    one.input[position] = operand
    if graph_index:
        drop_dead(graph)
    return prune(other, feeds)


def unfold(model: Any, feeds: Feeds, body: Any, formals: Mapping[str, Any]) -> Candidate | None:
    """Append the nodes of a body to the graph. The body's outputs become those of the model; `formals` are the contents of its
    inputs.
    """
    other = copy(model)
    graph = other.graph
    if any(name not in formals for name in (value.name for value in body.input)):
        return None
    graph.node.extend(body.node)
    graph.initializer.extend(body.initializer)
    local = {name for node in body.node for name in node.output}
    outputs = [value.name for value in body.output if value.name in local]
    if not outputs:
        return None
    replace(graph.output, [output(name) for name in dict.fromkeys(outputs)])
    return bind(other, feeds, formals)


def formals_of(node: Any, values: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each body of a node with the initial contents of its inputs."""
    attributes = {one.name: one for one in node.attribute}
    operands = [values.get(name) for name in node.input]
    for body in bodies(node):
        names = [value.name for value in body.input]
        contents: list[Any] = operands
        if node.op_type == "Loop":
            contents = [np.array(0, np.int64), np.array(True), *operands[2:]]
        elif node.op_type == "Scan" and "num_scan_inputs" in attributes:
            scanned = attributes["num_scan_inputs"].i
            axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else [0] * scanned
            states = len(operands) - scanned
            contents = [*operands[:states], *map(_first, operands[states:], axes)]
        elif node.op_type == "SequenceMap":
            contents = [value[0] if isinstance(value, list) and value else value for value in operands]
        if len(contents) >= len(names):
            yield body, dict(zip(names, contents, strict=False))


def _first(value: Any, axis: int) -> Any:
    return np.take(value, 0, axis) if isinstance(value, np.ndarray) and value.ndim and value.shape[axis] else None
