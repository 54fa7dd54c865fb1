"""Model-local functions: some nodes of a finished model become the body of a function, which is called in their place."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

DOMAIN = "local"
LONGEST = 5
"""The most nodes of a function."""
FOREIGN = frozenset({"SimplifiedLayerNormalization", "sparse_value", "decoder"})
"""Operators and attributes that stay outside of functions. A process of onnxruntime ends where one has the first two.

Searches know the inputs of a decoder by their names, which change where functions are inlined.
"""
OVERLOADS = ("", "", "first", "second")


def outline(model: Any, rng: Random) -> bool:
    """Replace consecutive nodes of a ModelProto by a function call, in place. Returns False if there are none to replace.

    Consecutive nodes are convex, because a node comes after what it needs. The function sometimes has an overload, and attributes
    of its nodes become attributes of its own.
    """
    nodes = list(model.graph.node)
    if not nodes:
        return False
    start = rng.randrange(len(nodes))
    chosen = nodes[start : start + rng.randint(1, LONGEST)]
    rest = [*nodes[:start], *nodes[start + len(chosen) :]]
    read = {name for node in rest for name in names_read(node)} | {output.name for output in model.graph.output}
    outputs = [name for node in chosen for name in node.output if name in read]
    if not outputs or any(name in FOREIGN for node in chosen for name in _parts(node)):
        return False
    computed = {name for node in chosen for name in node.output}
    inputs = [name for name in dict.fromkeys(name for node in chosen for name in names_read(node)) if name not in computed]
    call = _replace(model, chosen, inputs, outputs, rng)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:start], call, *nodes[start + len(chosen) :]])
    return True


def _replace(model: Any, chosen: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str], rng: Random) -> Any:
    """Add the function to the model and return the call."""
    from onnx import NodeProto, helper

    number = len(model.functions) + 1
    bodies = [NodeProto.FromString(node.SerializeToString()) for node in chosen]
    attributes = list(_references(bodies, rng))
    required: list[Any] = []
    defaults: list[Any] = []
    for attribute in attributes:
        (defaults if rng.random() < 0.3 else required).append(attribute)
    name, overload = f"Function{number}", rng.choice(OVERLOADS)
    model.functions.append(
        helper.make_function(
            DOMAIN,
            name,
            inputs,
            outputs,
            bodies,
            [*model.opset_import, *([] if imports(model) else [helper.make_opsetid(DOMAIN, 1)])],
            [attribute.name for attribute in required],
            defaults,
            overload=overload,
        )
    )
    if not imports(model):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    call = helper.make_node(name, inputs, outputs, name=f"{name}_call", domain=DOMAIN, overload=overload)
    call.attribute.extend([*required, *(one for one in defaults if rng.random() < 0.5)])
    return call


def imports(model: Any) -> bool:
    """Return True if the model imports the domain of the functions."""
    return any(one.domain == DOMAIN for one in model.opset_import)


def _references(nodes: Iterable[Any], rng: Random) -> Iterator[Any]:
    """Make attributes of the nodes refer to attributes of the function. Yields those with their values."""
    from onnx import AttributeProto

    simple = {AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS, AttributeProto.FLOATS}
    count = 0
    for node in nodes:
        if node.domain == DOMAIN:
            continue  # a call in the body of a function: its attributes stay as they are
        for attribute in node.attribute:
            if attribute.type in simple and rng.random() < 0.4:
                count += 1
                value = AttributeProto.FromString(attribute.SerializeToString())
                value.name = f"a{count}"
                for field in ("i", "f", "s", "ints", "floats"):
                    attribute.ClearField(field)
                attribute.ref_attr_name = value.name
                yield value


def _parts(node: Any) -> Iterator[str]:
    """List the operators and attributes of a node and of its bodies."""
    yield node.op_type
    for attribute in node.attribute:
        yield attribute.name
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from (name for inner in graph.node for name in _parts(inner))


def names_read(node: Any) -> Iterator[str]:
    """Return the names that a node and its bodies read from outside, each as often as it is read."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from _read_from_outside(graph)


def _read_from_outside(graph: Any) -> Iterator[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer} | {name for node in graph.node for name in node.output}
    yield from (name for node in graph.node for name in names_read(node) if name not in own)
    yield from (output.name for output in graph.output if output.name not in own)
