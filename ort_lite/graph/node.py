"""Values and what computes them: types, Value, Attr, Node. `ort_lite.graph` has these names, and the graphs that hold them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy, ort_name
from ort_lite.errors import InvalidGraph
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape

if TYPE_CHECKING:
    from ort_lite.graph.graph import Graph


class TensorType(Record):
    """Element type and shape; `shape` is None where not even the rank is known."""

    dtype: DType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape is not None else f"{self.dtype}[...]"


class SequenceType(Record):
    element: "Type"

    def __str__(self) -> str:
        return f"seq({self.element})"


class OptionalType(Record):
    element: "Type"

    def __str__(self) -> str:
        return f"optional({self.element})"


class MapType(Record):
    key: DType
    value: "Type"

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


Type = TensorType | SequenceType | OptionalType | MapType


def type_name(type_: Type | None) -> str:
    """onnxruntime's spelling: "tensor(float)", "seq(map(int64,tensor(float)))"."""
    match type_:
        case TensorType(dtype, _):
            return ort_name(dtype)
        case SequenceType(element):
            return f"seq({type_name(element)})"
        case OptionalType(element):
            return f"optional({type_name(element)})"
        case MapType(key, value):
            return f"map({ort_name(key)[7:-1]},{type_name(value)})"
    return "unknown"


class Value:
    """What a node computes, a graph takes in, or an initialiser holds (`constant` is then its array, never written to)."""

    __slots__ = ("_outputs_of", "constant", "name", "producer", "type", "uses")

    def __init__(self, name: str, type: Type | None = None, constant: Array | None = None) -> None:
        if constant is not None and type is None:
            type = TensorType(from_numpy(constant.dtype), constant.shape)
        self.name, self.type, self.constant = name, type, constant
        self.producer: Node | None = None
        self.uses: dict[tuple[Node, int], None] = {}  # ordered set
        self._outputs_of: dict[Graph, int] = {}

    @property
    def dtype(self) -> DType | None:
        """Element type of a tensor; None for other kinds of values and where it is unknown."""
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> Shape | None:
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def readers(self) -> list["Node"]:
        """The nodes that read this value, each once, in the order in which they began to."""
        return list(dict.fromkeys(node for node, _ in self.uses))

    def is_graph_output(self) -> bool:
        return bool(self._outputs_of)

    def can_be_replaced_by(self, other: "Value") -> bool:
        """False where a graph output would lose its name: one of the two comes from no node, or `other` is an output itself."""
        if not self.is_graph_output():
            return True
        return self.producer is not None and other.producer is not None and not other.is_graph_output()

    def replace_all_uses_with(self, other: "Value") -> None:
        """Readers and graph outputs take `other` instead; a graph output hands its name on. O(uses).

        Raises InvalidGraph where `can_be_replaced_by` says no.
        """
        if not self.can_be_replaced_by(other):
            raise InvalidGraph(f"graph output {self.name!r} would lose its name to {other.name!r}")
        for node, index in list(self.uses):
            node.replace_input(index, other)
        if self.is_graph_output():
            self.name, other.name = other.name, self.name
        for graph in list(self._outputs_of):
            graph.set_outputs([other if value is self else value for value in graph.outputs])

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Attr(Record):
    """An attribute. `type` is AttributeProto's name: INT, FLOATS, STRING, TENSOR (an array), GRAPH (a Graph), ...

    `ref` names the function's attribute that stands here, inside function bodies.
    """

    name: str
    type: str
    value: Any
    ref: str = ""

    @staticmethod
    def of(name: str, value: Any) -> "Attr":
        """The Attr for a Python value: int, float, str, array, Graph, Type or a list of one of them.

        A list that holds a float is FLOATS, an empty one INTS. Raises TypeError for anything else.
        """
        if isinstance(value, Attr):
            return value
        from ort_lite.graph.graph import Graph

        many = isinstance(value, (list, tuple, range))
        items = [item.item() if isinstance(item, np.generic) else item for item in (value if many else [value])]
        for kinds, type_ in (
            ((int,), "INT"), ((int, float), "FLOAT"), ((str,), "STRING"), ((Graph,), "GRAPH"),
            ((np.ndarray,), "TENSOR"), ((TensorType, SequenceType, OptionalType, MapType), "TYPE_PROTO"),
        ):  # fmt: skip
            if all(isinstance(item, kinds) for item in items):
                if type_ in ("INT", "FLOAT"):  # True is an INT too
                    items = [int(item) if type_ == "INT" else float(item) for item in items]
                return Attr(name, type_ + "S" * many, items if many else items[0])
        raise TypeError(f"attribute {name}: {type(value).__name__} is no ONNX attribute value")


class Node:
    """An operator's use. `version` is the opset version under which its domain was imported, not the schema's own.

    Inputs and outputs that are left out are None. `name` is unique inside a loaded model. `overload` tells functions of one
    name apart.
    """

    __slots__ = (
        "_next",
        "_previous",
        "attributes",
        "domain",
        "graph",
        "inputs",
        "name",
        "op_type",
        "outputs",
        "overload",
        "version",
    )

    def __init__(
        self,
        op_type: str,
        inputs: Iterable[Value | None],
        outputs: Iterable[Value | None],
        attributes: Mapping[str, Any] | Iterable[Attr] = (),
        *,
        domain: str = "",
        version: int = 1,
        name: str = "",
        overload: str = "",
    ) -> None:
        self.op_type, self.domain, self.version, self.name, self.overload = op_type, domain, version, name, overload
        self.inputs: tuple[Value | None, ...] = tuple(inputs)
        self.outputs: tuple[Value | None, ...] = tuple(outputs)
        if not isinstance(attributes, (list, tuple)) and isinstance(attributes, Mapping):  # the ABC is asked last: it is slow
            attributes = [Attr.of(name, value) for name, value in attributes.items()]
        self.attributes: dict[str, Attr] = {attribute.name: attribute for attribute in attributes}
        self.graph: Graph | None = None
        self._next: Node | None = None
        self._previous: Node | None = None
        for value in self.outputs:
            if value is not None:
                if value.producer is not None:
                    raise InvalidGraph(f"{self}: {value.name!r} is already an output of {value.producer}")
                value.producer = self
        for index, value in enumerate(self.inputs):
            if value is not None:
                value.uses[self, index] = None

    @property
    def output(self) -> Value:
        """The first output. Raises InvalidGraph when the node leaves it out."""
        if not self.outputs or self.outputs[0] is None:
            raise InvalidGraph(f"{self} has no first output")
        return self.outputs[0]

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute's value, or `default`."""
        attribute = self.attributes.get(name)
        return default if attribute is None else attribute.value

    def replace_input(self, index: int, value: Value | None) -> None:
        old = self.inputs[index]
        if old is not None:
            del old.uses[self, index]
        self.inputs = (*self.inputs[:index], value, *self.inputs[index + 1 :])
        if value is not None:
            value.uses[self, index] = None

    def replace_output(self, index: int, value: Value) -> None:
        """The node computes `value` instead; the old output stays with its readers and is without a producer."""
        if value.producer is not None:
            raise InvalidGraph(f"{self}: {value.name!r} is already an output of {value.producer}")
        old = self.outputs[index]
        if old is not None:
            old.producer = None
        self.outputs = (*self.outputs[:index], value, *self.outputs[index + 1 :])
        value.producer = self

    def subgraphs(self) -> list["Graph"]:
        """Bodies of this node, in attribute order; not those nested deeper."""
        found: list[Graph] = []
        for attribute in self.attributes.values():
            if attribute.type == "GRAPH" and not attribute.ref:
                found.append(attribute.value)
            elif attribute.type == "GRAPHS" and not attribute.ref:
                found.extend(attribute.value)
        return found

    def reads(self) -> "tuple[Value | None, ...]":
        """Its inputs, and what its bodies capture."""
        for attribute in self.attributes.values():
            if attribute.type[0] == "G":  # GRAPH or GRAPHS, which few nodes have
                return *self.inputs, *self.captures()
        return self.inputs

    def captures(self) -> list[Value]:
        """Outer values that the bodies read, each once, in order of appearance. O(size of the bodies)."""
        bodies = self.subgraphs()
        return list(dict.fromkeys(value for body in bodies for value in body.captures())) if bodies else []

    def __str__(self) -> str:
        return f"{self.op_type} {self.name!r}" if self.name else self.op_type

    def __repr__(self) -> str:
        from ort_lite.graph.graph import node_text

        return node_text(self)


__all__ = ["Attr", "MapType", "Node", "OptionalType", "SequenceType", "TensorType", "Type", "Value", "type_name"]
