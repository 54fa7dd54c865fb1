"""Iteration over all tensors of a model: initialisers, node attributes, nested graphs and functions."""

from collections.abc import Iterator

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Attr, Graph, Node
from ort_lite.graph.model import Model
from ort_lite.load.parse_options import RawDataCallback
from ort_lite.load.tensor_slot import TensorSlot


def model_tensors(model: Model) -> Iterator[TensorSlot]:
    """Yield tensors in graph order, nested graphs with their node, functions last. O(size of the model)."""
    yield from _of_graph(model.graph)
    for function in model.functions.values():
        yield from _of_graph(function.graph)
        for name, attribute in function.defaults.items():
            yield from _of_attribute(function.defaults, attribute, f"{function.name}.{name}", function.name)


def writeable_tensors(model: Model) -> frozenset[int]:
    """Return the ids of the writeable arrays. O(tensors)."""
    return frozenset(id(slot.array) for slot in model_tensors(model) if slot.array.flags.writeable)


def _of_graph(graph: Graph) -> Iterator[TensorSlot]:
    for value in graph.initializers.values():
        if value.constant is not None:
            yield _slot(value, "constant", value.name, graph.name)
    for node in graph:
        yield from _of_node(node, graph.name)


def _of_node(node: Node, graph: str) -> Iterator[TensorSlot]:
    for attribute in list(node.attributes.values()):
        yield from _of_attribute(node.attributes, attribute, f"{node.name}.{attribute.name}", graph)
    for body in node.subgraphs():
        yield from _of_graph(body)


def _of_attribute(attributes: dict[str, Attr], attribute: Attr, name: str, graph: str) -> Iterator[TensorSlot]:
    key = attribute.name
    if attribute.ref or attribute.type not in ("TENSOR", "TENSORS"):
        return
    if attribute.type == "TENSOR":
        # Attributes are immutable: a changed tensor needs a new one, read from the node again because it may have changed.
        yield TensorSlot(name, graph, lambda: attributes[key].value, lambda array: _put(attributes, key, array))
        return
    for k in range(len(attribute.value)):
        yield _slot_in_list(attributes, key, k, f"{name}[{k}]", graph)


def _slot_in_list(attributes: dict[str, Attr], key: str, k: int, name: str, graph: str) -> TensorSlot:
    def put(array: Array) -> None:
        arrays = attributes[key].value
        _put(attributes, key, [*arrays[:k], array, *arrays[k + 1 :]])

    return TensorSlot(name, graph, lambda: attributes[key].value[k], put)


def _put(attributes: dict[str, Attr], key: str, value: object) -> None:
    attributes[key] = attributes[key].replace(value=value)


def _slot(holder: object, field: str, name: str, graph: str) -> TensorSlot:
    return TensorSlot(name, graph, lambda: getattr(holder, field), lambda array: setattr(holder, field, array))


def call_back(model: Model, callback: RawDataCallback) -> None:
    """Call `callback` for every tensor with raw bytes, and attach the functions that it returns as deleters."""
    for slot in model_tensors(model):
        span = slot.span
        if span is not None and (deleter := callback(slot, slot.graph)) is not None:
            span.attach_deleter(deleter)
