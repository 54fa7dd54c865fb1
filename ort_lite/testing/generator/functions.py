"""Model-local functions: some nodes of a finished model become the body of a function, which is called in their place."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from ort_lite.testing.generator.reduction.graphs import bodies, reads

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
    read = {name for node in rest for name in reads(node)} | {output.name for output in model.graph.output}
    outputs = [name for node in chosen for name in node.output if name in read]
    if not outputs or any(name in FOREIGN for node in chosen for name in _parts(node)):
        return False
    computed = {name for node in chosen for name in node.output}
    inputs = [name for name in dict.fromkeys(name for node in chosen for name in reads(node)) if name not in computed]
    call = _replace(model, chosen, inputs, outputs, rng)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:start], call, *nodes[start + len(chosen) :]])
    return True


def _replace(model: Any, chosen: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str], rng: Random) -> Any:
    """Add the function to the model and return the call."""
    from onnx import NodeProto, helper

    number = len(model.functions) + 1
    inner = [NodeProto.FromString(node.SerializeToString()) for node in chosen]
    attributes = list(_references(inner, rng))
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
            inner,
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
    yield from (attribute.name for attribute in node.attribute)
    yield from (name for body in bodies(node) for inner in body.node for name in _parts(inner))
