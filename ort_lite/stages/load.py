"""Stage 1: a path, bytes or ModelProto becomes a Model, validated; nodes may come in any order.

External data is memory-mapped, one map a file; all other arrays own their bytes, so nothing of the file or of the caller's
bytes is kept.
"""

import os
from collections.abc import Iterable, Sequence

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidGraph, InvalidProtobuf
from ort_lite.graph import Attr, Function, Graph, Model, Node, Type, Value
from ort_lite.proto import NEWEST_IR_VERSION, AttributeReader, pb, read_type, text
from ort_lite.shapes import Dim, symbol
from ort_lite.stages.external import ExternalData
from ort_lite.stages.inline import check_functions
from ort_lite.stages.source import ModelSource, read_source
from ort_lite.tensor_proto import TensorReader

# Operators of these domains run in models that do not import them, as in onnxruntime.
_IMPLICIT_DOMAINS = frozenset({"com.microsoft", "ai.onnx.ml"})
_NO_NAME = frozenset({"", "?", "-1", "None"})  # what exporters write for "not known", many different dims alike


def load(model: ModelSource, folder: str | os.PathLike[str] | None = None) -> Model:
    """The model as a validated graph in topological order, node names unique. O(size of the file without external data).

    `folder` is where external data is; by default that of the model's own file. Initialisers are constants unless they are
    inputs too and the IR version is 4 or newer: those can be overridden by a feed, and are in `graph.inputs` as well.
    Raises NoSuchFile, InvalidProtobuf, InvalidGraph naming the node, InvalidArgument for another kind of `model`.
    """
    source = read_source(model)
    if folder is None and source.file is not None:
        folder = os.path.dirname(source.file) or "."
    external = ExternalData(folder, source.file)
    return _Loader(source.proto, TensorReader(source.data, source.spans, external.read)).model()


class _Dims:
    """Dimensions of declared types. `unnamed` collects the symbols made up here, with the text that they stand for."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self.unnamed: dict[str, str] = {}
        self.owner = ""

    def __call__(self, proto: pb.TensorShapeProto.Dimension, axis: int) -> Dim:
        """Sizes of 0 and less count as unknown: some exporters write them where they mean that."""
        if proto.dim_value > 0:
            return proto.dim_value
        given = text(proto.dim_param)
        if given.strip() not in _NO_NAME:
            return symbol(given)
        base, count = f"{self.owner}_{axis}", 1
        name = base
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self.unnamed[name] = given
        return symbol(name)


class _Scope:
    """The values of a graph by name, and the scope around it."""

    def __init__(self, graph: Graph, outer: "_Scope | None") -> None:
        self.graph, self.outer = graph, outer
        self.values: dict[str, Value] = {}

    def declare(self, value: Value, who: str) -> Value:
        """Raises InvalidGraph when the graph has the name already; names of outer graphs may be shadowed."""
        if self.values.setdefault(value.name, value) is not value or not value.name:
            raise InvalidGraph(f"{who}: {value.name!r} is {self._origin(value.name)}; every value needs a name of its own")
        return value

    def _origin(self, name: str) -> str:
        if not name:
            return "no name"
        if name in self.graph.initializers:
            return "already an initialiser"
        inputs = any(value.name == name for value in self.graph.inputs)
        return f"already an input of {_graph_name(self.graph)}" if inputs else "already an output of another node"

    def find(self, name: str) -> Value | None:
        """The value of this graph or the innermost one around it."""
        scope: _Scope | None = self
        while scope is not None:
            if (value := scope.values.get(name)) is not None:
                return value
            scope = scope.outer
        return None


class _Loader:
    def __init__(self, proto: pb.ModelProto, tensor: TensorReader) -> None:
        self._proto, self._tensor = proto, tensor
        self._dims = _Dims(text(d.dim_param) for info in proto.graph.input for d in info.type.tensor_type.shape.dim)
        self._versions: dict[str, int] = {}
        self._names: list[str | bytes] = []  # of values, nodes, operators and attributes: bytes where they are not UTF-8
        self._made: list[Node] = []  # nodes of the graph at work and of its bodies, a body's before the node that has it
        self._function_domains = {_domain(function.domain) for function in proto.functions}

    def model(self) -> Model:
        proto = self._proto
        if not proto.HasField("graph") or not proto.HasField("ir_version"):
            missing = "graph" if proto.HasField("ir_version") else "ir_version"
            raise InvalidProtobuf(f"the model has no {missing}: it is no ONNX model, or was cut short")
        if proto.ir_version > NEWEST_IR_VERSION:
            known = f"the installed package onnx knows up to {NEWEST_IR_VERSION}"
            raise InvalidGraph(f"the model has IR version {proto.ir_version}, {known}: pip install -U onnx")
        self._versions = _imports(proto.opset_import)
        if not self._versions and proto.ir_version < 3:
            self._versions[""] = 1
        graph = self._graph(proto.graph, None)
        opset_imports = self._versions
        functions = [self._function(function, opset_imports) for function in proto.functions]
        model = Model(
            graph=graph,
            opset_imports=opset_imports,
            ir_version=proto.ir_version,
            functions={(f.domain, f.name, f.overload): f for f in functions},
            metadata_props={text(entry.key): text(entry.value) for entry in proto.metadata_props},
            producer_name=text(proto.producer_name),
            producer_version=text(proto.producer_version),
            domain=text(proto.domain),
            model_version=proto.model_version,
            doc_string=text(proto.doc_string),
            unnamed_dims=self._dims.unnamed,
        )
        check_functions(model.functions)
        if strange := [name for name in self._names if not isinstance(name, str)]:
            raise InvalidProtobuf(f"the model has the name {strange[0]!r}, which is not UTF-8 text")
        return model

    def _graph(self, proto: pb.GraphProto, outer: _Scope | None) -> Graph:
        graph = Graph(text(proto.name))
        graph.doc_string = text(proto.doc_string)
        scope = _Scope(graph, outer)
        self._initializers(proto, scope)
        for info in proto.input:
            initializer = graph.initializers.get(info.name)
            if initializer is None:
                value = Value(info.name, self._type(info))
                graph.inputs.append(scope.declare(value, _graph_name(graph)))
            elif self._proto.ir_version >= 4:
                graph.inputs.append(initializer)
        declared = {info.name: info for infos in (proto.value_info, proto.output) for info in infos}
        self._nodes(proto.node, declared, scope)
        graph.set_outputs(self._output(info.name, declared, scope) for info in proto.output)
        if outer is None:
            self._finish(graph)
        return graph

    def _initializers(self, proto: pb.GraphProto, scope: _Scope) -> None:
        for tensor in proto.initializer:
            name = tensor.name
            array = self._tensor(tensor, f"initialiser {name!r}")
            self._initializer(name, array, scope)
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            self._initializer(name, self._tensor(sparse, f"sparse initialiser {name!r}"), scope)

    @staticmethod
    def _initializer(name: str, array: Array, scope: _Scope) -> None:
        value = scope.declare(Value(name, constant=array), _graph_name(scope.graph))
        scope.graph.add_initializer(value)

    def _nodes(self, nodes: Sequence[pb.NodeProto], declared: dict[str, pb.ValueInfoProto], scope: _Scope) -> None:
        reader = AttributeReader(lambda body: self._graph(body, scope), self._tensor, self._dims)
        outputs = []  # of all nodes first: they may come in any order
        for proto in nodes:
            values: list[Value | None] = []
            for name in proto.output:
                if not name:
                    values.append(None)
                    continue
                info = declared.get(name)
                value = Value(name, None if info is None else self._type(info))
                if scope.values.setdefault(name, value) is not value:
                    scope.declare(value, _who(proto))
                values.append(value)
            outputs.append(values)
        self._names.extend(scope.values)
        for proto, values in zip(nodes, outputs, strict=True):
            scope.graph.append(self._node(proto, values, scope, reader))

    def _node(self, proto: pb.NodeProto, outputs: list[Value | None], scope: _Scope, reader: AttributeReader) -> Node:
        domain = _domain(proto.domain)
        version = self._versions.get(domain)
        if version is None:
            version = self._versions[domain] = self._implicit_version(domain, proto)
        inputs: list[Value | None] = []
        for name in proto.input:
            value = (scope.values.get(name) or scope.find(name)) if name else None
            if name and value is None:
                raise InvalidGraph(f"{_who(proto)}: input {name!r} is no input, initialiser or node output of the model")
            inputs.append(value)
        attributes: list[Attr] = [reader(attribute, lambda: _who(proto)) for attribute in proto.attribute]
        node = Node(
            proto.op_type, inputs, outputs, attributes,
            domain=domain, version=version, name=proto.name, overload=proto.overload,
        )  # fmt: skip
        self._names += (proto.op_type, proto.name, proto.overload, *node.attributes)
        self._made.append(node)
        return node

    def _implicit_version(self, domain: str, proto: pb.NodeProto) -> int:
        if domain in _IMPLICIT_DOMAINS or domain in self._function_domains:
            return 1
        imported = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in self._versions.items()) or "nothing"
        raise InvalidGraph(f"{_who(proto)}: its domain {domain or 'ai.onnx'!r} is not imported; the model imports {imported}")

    def _output(self, name: str, declared: dict[str, pb.ValueInfoProto], scope: _Scope) -> Value:
        value = scope.find(name)
        if value is None:
            raise InvalidGraph(f"{_graph_name(scope.graph)}: its output {name!r} is computed by no node")
        if value.type is None and name in declared:
            value.type = self._type(declared[name])
        return value

    def _function(self, proto: pb.FunctionProto, model_versions: dict[str, int]) -> Function:
        self._versions = {**model_versions, **_imports(proto.opset_import)}
        graph = Graph(text(proto.name))
        graph.doc_string = text(proto.doc_string)
        scope = _Scope(graph, None)
        declared = {info.name: info for info in proto.value_info}
        for name in proto.input:
            value = Value(name, self._type(declared[name]) if name in declared else None)
            graph.inputs.append(scope.declare(value, f"function {proto.name!r}"))
        self._nodes(proto.node, declared, scope)
        graph.set_outputs(self._output(name, {}, scope) for name in proto.output)
        self._finish(graph)
        reader = AttributeReader(lambda body: self._graph(body, scope), self._tensor, self._dims)
        defaults = [reader(attribute, lambda: f"function {proto.name!r}") for attribute in proto.attribute_proto]
        self._names += (attribute.name for attribute in defaults)
        return Function(
            domain=_domain(proto.domain),
            name=text(proto.name),
            overload=text(proto.overload),
            graph=graph,
            attributes=[text(name) for name in proto.attribute],
            defaults={attribute.name: attribute for attribute in defaults},
            opset_imports=_imports(proto.opset_import),
        )

    def _finish(self, graph: Graph) -> None:
        """Node names become unique: those left out by operator, later ones of a name apart from the first."""
        nodes, self._made = self._made, []
        taken = {node.name for node in nodes}
        seen: set[str] = set()
        counts: dict[str, int] = {}
        for node in nodes:
            if not node.name or node.name in seen:
                base = node.name or node.op_type
                count = counts.get(base, 1 if node.name else 0)
                while f"{base}_{count}" in taken:
                    count += 1
                counts[base] = count + 1
                node.name = f"{base}_{count}"
                taken.add(node.name)
            seen.add(node.name)
        graph.sort()

    def _type(self, info: pb.ValueInfoProto) -> Type | None:
        self._dims.owner = info.name
        return read_type(info.type, self._dims, f"value {info.name!r}")


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else text(name)


def _imports(opsets: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    """Of two imports of a domain the last one holds, as in onnxruntime."""
    return {_domain(opset.domain): opset.version for opset in opsets}


def _who(proto: pb.NodeProto) -> str:
    """A node before it has a name of its own."""
    if proto.name:
        return f"{proto.op_type} {proto.name!r}"
    return f"{proto.op_type} with outputs {', '.join(map(repr, proto.output))}"


def _graph_name(graph: Graph) -> str:
    return f"graph {graph.name!r}"


__all__ = ["ModelSource", "load"]
