"""onnxruntime's graph as a Model of ort-lite: nodes, attributes, types with symbolic dimensions, constants, bodies."""

from ctypes import byref, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p, create_string_buffer
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.graph import Attr, Graph, MapType, Model, Node, OptionalType, SequenceType, TensorType, Type, Value
from ort_lite.record import Record, field
from ort_lite.shapes.dims import symbol
from ort_lite_ep.c_api import CApi
from ort_lite_ep.tensors import from_host, read_value

_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS, _GRAPH, _TENSOR = range(1, 9)  # OrtOpAttrType
_TENSORS, _SEQUENCE, _MAP, _OPTIONAL = 1, 2, 3, 6  # ONNXType


class HostGraph(Record):
    """A graph of onnxruntime that was read. `addresses` are the OrtNodes of the main graph's nodes.

    `unreadable` are nodes that a provider cannot be asked about, with the reason.
    """

    model: Model
    addresses: dict[Node, int]
    unreadable: dict[Node, str]


class _Names(Record, frozen=False):
    """The values that a graph can see, by name."""

    graph: Graph
    outer: "_Names | None"
    values: dict[str, Value] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        names: _Names | None = self
        while names is not None:
            if (value := names.values.get(name)) is not None:
                return value
            names = names.outer
        return None


def read_graph(api: CApi, graph: int, copies: bool) -> HostGraph:
    """Return a graph of onnxruntime as a model. O(nodes), about 50 us each.

    Values that the graph takes from a graph around it become inputs. Arrays of constants are valid during the call of
    onnxruntime in which the graph was passed, unless it `copies` them.
    """
    return _Reader(api, copies).read(graph)


def read_parent(api: CApi, graph: int) -> HostGraph | None:
    """Return the node whose body the graph is, as a model of this node alone; None for a main graph."""
    node = api.read("Graph_GetParentNode", graph)
    if not node:
        return None
    reader = _Reader(api, False)
    reader.read_versions(graph)
    return reader.read_nodes(Graph("parent"), [node])


class _Reader:
    """Reads one graph. Versions of operators are those that its model imports."""

    def __init__(self, api: CApi, copies: bool) -> None:
        self._api, self._copies = api, copies
        self._versions: dict[str, int] = {}
        self._root: _Names | None = None
        self._unnamed = 0
        self._addresses: dict[Node, int] = {}
        self._unreadable: dict[Node, str] = {}

    def read(self, graph: int) -> HostGraph:
        self.read_versions(graph)
        made = Graph(self._api.text("Graph_GetName", graph))
        names = self._root = _Names(made, None)
        self._fill(names, graph)
        return self._finish(made)

    def read_nodes(self, made: Graph, nodes: list[int]) -> HostGraph:
        """Return a model of these nodes, whose outputs are those of the model."""
        names = self._root = _Names(made, None)
        for address in nodes:
            self._append(names, address)
        made.set_outputs(value for node in made for value in node.outputs if value is not None)
        return self._finish(made)

    def read_versions(self, graph: int) -> None:
        """Read which version of each domain the model imports."""
        api, count = self._api, self._api.read("Graph_GetNumOperatorSets", graph, kind=c_size_t)
        domains, versions = (c_char_p * count)(), (c_int64 * count)()
        api.call("Graph_GetOperatorSets", graph, domains, versions, count)
        named = zip(domains, versions, strict=True)
        self._versions = {_domain((name or b"").decode()): version for name, version in named}

    def _finish(self, made: Graph) -> HostGraph:
        return HostGraph(Model(made, dict(self._versions)), self._addresses, self._unreadable)

    def _fill(self, names: _Names, graph: int) -> None:
        """Read inputs, constants, nodes and outputs."""
        api, made = self._api, names.graph
        for info in api.pointers("Graph_Inputs", graph):
            value = self._declare(names, info)
            if value.constant is None:
                made.inputs.append(value)
        for info in api.pointers("Graph_Initializers", graph):
            name = api.text("GetValueInfoName", info)
            if name not in names.values:
                value = self._declare(names, info)
                if value.constant is None:  # a feed can override it
                    made.inputs.append(value)
        for address in api.pointers("Graph_Nodes", graph):
            assert address is not None, "onnxruntime lists nodes"
            self._append(names, address)
        outputs = [self._value(names, info) for info in api.pointers("Graph_Outputs", graph)]
        made.set_outputs(value for value in outputs if value is not None)

    def _append(self, names: _Names, address: int) -> None:
        api = self._api
        op_type, domain = api.text("Node_GetOperatorType", address), _domain(api.text("Node_GetDomain", address))
        inputs = [self._value(names, info) for info in api.pointers("Node_Inputs", address)]
        attributes, unknown = self._attributes(names, address)
        outputs = [self._output(names, info) for info in api.pointers("Node_Outputs", address)]
        version = self._versions.get(domain) or api.read("Node_GetSinceVersion", address, kind=c_int)
        name = api.text("Node_GetName", address)
        if not name:
            self._unnamed += 1
            name = f"{op_type}_{self._unnamed}"
        node = Node(op_type, inputs, outputs, attributes, domain=domain, version=version, name=name)
        names.graph.append(node)
        if names is self._root:
            self._addresses[node] = address
        if owner := api.text("Node_GetEpName", address):
            self._unreadable[node] = f"onnxruntime has assigned it to {owner} before"
        elif unknown:
            self._unreadable[node] = f"attribute {unknown!r} is of a kind that onnxruntime does not pass on"
        elif not api.passes_captures and any(value.constant is None for value in node.captures()):
            self._unreadable[node] = "onnxruntime before 1.27 does not pass values that bodies read from outside"

    # Values

    def _value(self, names: _Names, info: int | None) -> Value | None:
        """Return the value that a node reads or a graph returns. One that no graph has is an input of the main graph."""
        name = self._api.text("GetValueInfoName", info) if info else ""
        if not name:
            return None
        found = names.find(name)
        if found is None:
            assert self._root is not None, "a graph is being read"
            found = self._declare(self._root, info)
            if found.constant is None:
                self._root.graph.inputs.append(found)
        return found

    def _output(self, names: _Names, info: int | None) -> Value | None:
        name = self._api.text("GetValueInfoName", info) if info else ""
        return self._declare(names, info) if name else None

    def _declare(self, names: _Names, info: int | None) -> Value:
        api = self._api
        value = Value(api.text("GetValueInfoName", info))
        types = api.read("GetValueInfoTypeInfo", info)
        value.type = self._type(types, value.name) if types else None
        if api.read("ValueInfo_IsConstantInitializer", info, kind=c_bool):
            value.constant = self._constant(info)
        names.values[value.name] = value
        return names.graph.add_initializer(value) if value.constant is not None else value

    def _constant(self, info: int | None) -> Array | None:
        found = self._api.read("ValueInfo_GetInitializerValue", info)
        if not found:
            return None
        array = read_value(self._api, found)
        if self._copies:
            array = array.copy()
            array.setflags(write=False)
        return array

    def _type(self, types: int, name: str) -> Type | None:
        """Return a type from an OrtTypeInfo; None where onnxruntime does not know it."""
        api, kind = self._api, self._api.read("GetOnnxTypeFromTypeInfo", types, kind=c_int)
        if kind == _TENSORS:
            return self._tensor_type(api.read("CastTypeInfoToTensorInfo", types), name)
        if kind == _SEQUENCE:
            element = self._inner("GetSequenceElementType", api.read("CastTypeInfoToSequenceTypeInfo", types), name)
            return SequenceType(element) if element is not None else None
        if kind == _OPTIONAL:
            element = self._inner("GetOptionalContainedTypeInfo", api.read("CastTypeInfoToOptionalTypeInfo", types), name)
            return OptionalType(element) if element is not None else None
        if kind == _MAP:
            own = api.read("CastTypeInfoToMapTypeInfo", types)
            element = self._inner("GetMapValueType", own, name)
            key = from_host(api.read("GetMapKeyType", own, kind=c_int))
            return MapType(key, element) if element is not None else None
        return None

    def _inner(self, function: str, owner: int, name: str) -> Type | None:
        types = self._api.read(function, owner)
        try:
            return self._type(types, name)
        finally:
            self._api.other("ReleaseTypeInfo", types)

    def _tensor_type(self, info: int, name: str) -> Type | None:
        api, code = self._api, self._api.read("GetTensorElementType", info, kind=c_int)
        try:
            dtype = from_host(code)
        except KeyError:
            return None
        if not api.other("TensorTypeAndShape_HasShape", info):
            return TensorType(dtype)
        rank = api.read("GetDimensionsCount", info, kind=c_size_t)
        sizes, symbols = (c_int64 * rank)(), (c_char_p * rank)()
        if rank:
            api.call("GetDimensions", info, sizes, rank)
            api.call("GetSymbolicDimensions", info, symbols, rank)
        dims = [size if size >= 0 else symbol((text or b"").decode() or f"{name}_{axis}")
                for axis, (size, text) in enumerate(zip(sizes, symbols, strict=True))]  # fmt: skip
        return TensorType(dtype, tuple(dims))

    # Attributes

    def _attributes(self, names: _Names, node: int) -> tuple[list[Attr], str]:
        """Return the attributes of a node, and the name of one that cannot be read, or ""."""
        api, found, unknown = self._api, list[Attr](), ""
        for attribute in api.pointers("Node_Attributes", node):
            name = api.text("OpAttr_GetName", attribute)
            kind = api.read("OpAttr_GetType", attribute, kind=c_int)
            if kind == _TENSOR:
                found.append(Attr(name, "TENSOR", self._tensor_attribute(attribute)))
            elif _INT <= kind <= _STRINGS:
                found.append(_plain(name, kind, self._bytes(attribute, kind)))
            elif kind != _GRAPH:
                unknown = name
        found.extend(Attr(name, "GRAPH", body) for name, body in self._bodies(names, node))
        return found, unknown

    def _tensor_attribute(self, attribute: int | None) -> Array:
        value = self._api.read("OpAttr_GetTensorAttributeAsOrtValue", attribute)
        try:
            return read_value(self._api, value).copy()
        finally:
            self._api.other("ReleaseValue", value)

    def _bytes(self, attribute: int | None, kind: int) -> bytes:
        api, size = self._api, c_size_t()
        status = api.function("ReadOpAttr")(attribute, kind, None, 0, byref(size))
        if status:  # too little room for what it has: it says how much it needs
            api.other("ReleaseStatus", status)
        if not size.value:
            return b""
        buffer = create_string_buffer(size.value)
        api.call("ReadOpAttr", attribute, kind, buffer, size.value, byref(size))
        return buffer.raw[: size.value]

    def _bodies(self, names: _Names, node: int) -> list[tuple[str, Graph]]:
        api, count = self._api, self._api.read("Node_GetNumSubgraphs", node, kind=c_size_t)
        if not count:
            return []
        graphs, attributes = (c_void_p * count)(), (c_char_p * count)()
        api.call("Node_GetSubgraphs", node, graphs, count, attributes)
        found = []
        for graph, attribute in zip(graphs, attributes, strict=True):
            body = Graph(api.text("Graph_GetName", graph))
            self._fill(_Names(body, names), graph)
            found.append(((attribute or b"").decode(), body))
        return found


def _plain(name: str, kind: int, raw: bytes) -> Attr:
    """Return an attribute of numbers or texts from the bytes that onnxruntime writes for it."""
    if kind in (_INT, _INTS):
        numbers: list[Any] = list((c_int64 * (len(raw) // 8)).from_buffer_copy(raw)) if raw else []
        return Attr(name, "INTS", numbers) if kind == _INTS else Attr(name, "INT", numbers[0])
    if kind in (_FLOAT, _FLOATS):
        numbers = list((c_float * (len(raw) // 4)).from_buffer_copy(raw)) if raw else []
        return Attr(name, "FLOATS", numbers) if kind == _FLOATS else Attr(name, "FLOAT", numbers[0])
    texts = raw.decode(errors="surrogateescape")
    if kind == _STRING:
        return Attr(name, "STRING", texts)
    return Attr(name, "STRINGS", texts.split("\0")[:-1] if texts else [])


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
