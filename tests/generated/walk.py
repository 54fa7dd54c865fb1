"""The nodes of a model that an output depends on, with what is known of them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from ort_lite.dtypes import Array


class Site(NamedTuple):
    """A node. `constants` are the initializers and Constant nodes of the model by name."""

    node: onnx.NodeProto
    opset: int
    constants: Mapping[str, Array]
    feeds: Mapping[str, Any]

    @property
    def operator(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}" if self.node.domain else self.node.op_type

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; text as str."""
        for one in self.node.attribute:
            if one.name == name:
                value = onnx.helper.get_attribute_value(one)
                return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return default

    def operand(self, index: int) -> Array | None:
        """The contents of an input that is a constant or a feed, else None."""
        if index >= len(self.node.input):
            return None
        name = self.node.input[index]
        found = self.constants.get(name, self.feeds.get(name))
        return found if isinstance(found, np.ndarray) else None


def sites(model: onnx.ModelProto, output: str, feeds: Mapping[str, Any] | None = None) -> list[Site]:
    """List the nodes that the output depends on, those of bodies and functions included."""
    opsets = {one.domain: one.version for one in model.opset_import}
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    found, wanted = [], {output}
    functions = {(one.domain, one.name): one for one in model.functions}
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            inner = list(_inside(node, functions))
            for one in inner:
                wanted.update(one.input)
                if one.op_type == "Constant":
                    constants.update(_constant(one))
                found.append(Site(one, opsets.get(one.domain, 1), constants, feeds or {}))
    return found


def _inside(node: onnx.NodeProto, functions: Mapping[tuple[str, str], onnx.FunctionProto]) -> Iterator[onnx.NodeProto]:
    """The node and those of its bodies, or of the function that it calls."""
    yield node
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                yield from _inside(inner, functions)
    called = functions.get((node.domain, node.op_type))
    for inner in called.node if called is not None else ():
        yield from _inside(inner, functions)


def _constant(node: onnx.NodeProto) -> Mapping[str, Array]:
    value = next((numpy_helper.to_array(one.t) for one in node.attribute if one.name == "value"), None)
    return {} if value is None else {node.output[0]: value}
