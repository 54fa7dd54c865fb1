"""The nodes of a model, each as a model of its own with the values that it reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_lite.dtypes import from_numpy, from_ort_name, to_onnx

Values = Mapping[str, Any]


class Site(NamedTuple):
    """A node with what it reads, as far as that is known: of nodes in bodies, constants and values of the outer graph."""

    node: onnx.NodeProto
    opset: int
    values: Values

    @property
    def operator(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}" if self.node.domain else self.node.op_type

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; text as str, a tensor as an array."""
        for one in self.node.attribute:
            if one.name == name and not one.ref_attr_name:
                value = helper.get_attribute_value(one)
                if isinstance(value, onnx.TensorProto):
                    return numpy_helper.to_array(value)
                return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return default

    def operand(self, index: int) -> Any:
        """The value of an input; None where it is left out or not known."""
        return self.values.get(self.node.input[index]) if index < len(self.node.input) else None

    def dtype(self, index: int) -> str:
        """The element type of an input; "" where it is not known."""
        value = self.operand(index)
        return from_numpy(value.dtype) if isinstance(value, np.ndarray) else ""


def sites(model: onnx.ModelProto, values: Values) -> Iterator[Site]:
    """List the nodes of a model, those of bodies included, those of functions not."""
    opsets = {one.domain: one.version for one in model.opset_import}
    for node in model.graph.node:
        yield Site(node, opsets.get(node.domain, 1), values)
        yield from _inside(node, opsets, values)


def _inside(node: onnx.NodeProto, opsets: Mapping[str, int], values: Values) -> Iterator[Site]:
    """The nodes of the bodies of a node. Names of a body do not hide those of the outer graph."""
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            known = {**values, **_constants(body)} if body.node else {}
            for inner in body.node:
                yield Site(inner, opsets.get(inner.domain, 1), known)
                yield from _inside(inner, opsets, known)


def reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, in its bodies too; of those, some are the bodies' own."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            names.update(one.name for one in body.output)
            for inner in body.node:
                names |= reads(inner)
    return names


def constants(model: onnx.ModelProto) -> dict[str, Any]:
    """The initializers of a model by name."""
    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def _constants(body: onnx.GraphProto) -> dict[str, Any]:
    """The initializers of a body and the tensors of its Constant nodes by name."""
    nodes = (node for node in body.node if node.op_type == "Constant" and node.attribute[0].HasField("t"))
    tensors = {node.output[0]: node.attribute[0].t for node in nodes} | {one.name: one for one in body.initializer}
    return {name: numpy_helper.to_array(tensor) for name, tensor in tensors.items()}


def all_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model that returns every value which a node of it makes."""
    traced = onnx.ModelProto()
    traced.CopyFrom(model)
    there = {one.name for one in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in there]
    traced.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return traced


def single(model: onnx.ModelProto, node: onnx.NodeProto, values: Values, types: Mapping[str, str]) -> onnx.ModelProto:
    """A model of one node of a model, and of what it reads. Initializers stay initializers, all else becomes an input.

    `types` are those that onnxruntime's NodeArg names. Raises KeyError for a value of an unknown type.
    """
    wanted = [name for name in sorted(reads(node)) if name in values]
    fixed = {one.name: one for one in model.graph.initializer}
    inputs = [_input(name, values[name], types.get(name, "")) for name in wanted if name not in fixed]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs, [fixed[name] for name in wanted if name in fixed])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def feeds(model: onnx.ModelProto, values: Values) -> dict[str, Any]:
    """The values that a model takes."""
    return {one.name: values[one.name] for one in model.graph.input}


def _input(name: str, value: Any, type_: str) -> onnx.ValueInfoProto:
    if isinstance(value, np.ndarray) and not type_.startswith("optional("):
        return helper.make_tensor_value_info(name, to_onnx(from_numpy(value.dtype)), list(value.shape))
    return helper.make_value_info(name, _type_proto(type_))


def _type_proto(type_: str) -> onnx.TypeProto:
    """The TypeProto of a name such as "seq(tensor(float))". Raises KeyError for others."""
    head, _, inside = type_.partition("(")
    inside = inside[:-1]
    if head == "tensor":
        return helper.make_tensor_type_proto(to_onnx(from_ort_name(inside)), None)
    if head == "seq":
        return helper.make_sequence_type_proto(_type_proto(inside))
    if head == "optional":
        return helper.make_optional_type_proto(_type_proto(inside))
    if head == "map":
        key, _, value = inside.partition(",")
        return helper.make_map_type_proto(to_onnx(from_ort_name(key)), _type_proto(value))
    raise KeyError(type_)


def upstream(model: onnx.ModelProto, output: str) -> Sequence[onnx.NodeProto]:
    """List the nodes of the graph that an output depends on."""
    found, wanted = [], {output}
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            found.append(node)
            wanted |= reads(node)
    return found
