"""Stage 1: a path, bytes or ModelProto becomes a Model, validated; nodes may come in any order.

Every tensor's bytes lie in a ByteSpan (see `spans`): owned by default, so that nothing of the file or of the caller's
bytes is kept; with `no_copy` borrowed from a mapped file of external data, or from the caller's buffer.
"""

import copyreg
import os
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.checkpoint import checkpoint
from ort_lite.dtypes import Array, itemsize, ort_name, to_onnx
from ort_lite.errors import InvalidArgument, InvalidGraph, InvalidProtobuf
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.inline import check_functions
from ort_lite.graph.model import Function, Model
from ort_lite.graph.types import TensorType, Type
from ort_lite.serialization.parse_options import ParseOptions
from ort_lite.serialization.proto import NEWEST_IR_VERSION, AttributeReader, element_type, pb, read_type, text
from ort_lite.serialization.scope import Dims, Scope, graph_name
from ort_lite.serialization.source import ModelSource, read_source
from ort_lite.serialization.spans import ByteSpan
from ort_lite.serialization.tensor_proto import TensorReader

if TYPE_CHECKING:
    from ort_lite.serialization.external import ExternalData
    from ort_lite.serialization.supplied import Supplied

# Operators of these domains run in models that do not import them, in these versions, as in onnxruntime.
_IMPLICIT_DOMAINS = {"com.microsoft": 1, "ai.onnx.ml": 5}


def _reduced(model: Model) -> tuple[Any, ...]:
    from ort_lite.serialization.copying import reduced

    return reduced(model)


copyreg.pickle(Model, _reduced)


def load(
    model: ModelSource | Model,
    options: ParseOptions | None = None,
    *,
    no_copy: bool | None = None,
    load_external_data: bool | None = None,
    folder: str | os.PathLike[str] | None = None,
    supplied: "Supplied | None" = None,
) -> Model:
    """The model as a validated graph in topological order, node names unique.

    `no_copy` and `load_external_data`, if given, hold instead of the options' own. `folder` is where external data is; by
    default that of the model's own file; `supplied` is external data in memory. Initialisers are constants unless they are inputs
    too and the IR version is 4 or newer: those can be overridden by a feed, and are in `graph.inputs` as well. Of a Model, the
    result is a clone over the same tensors. O(size of the file), with `no_copy` without its external data. Raises NoSuchFile,
    InvalidProtobuf, InvalidGraph naming the node, InvalidArgument for another kind of `model`.
    """
    options = _options(options, no_copy, load_external_data)
    if isinstance(model, Model):
        if supplied is not None:
            raise InvalidArgument("external data in memory is for files and bytes of a model; a Model has its data already")
        return model.clone()
    source = read_source(model, in_place=options.no_copy)
    if folder is None and source.file is not None:
        folder = os.path.dirname(source.file) or "."
    external = _external(folder, source.file, options, supplied)
    aligned = options.copy_misaligned or not options.no_copy
    tensor = TensorReader(source.data, source.spans, external, source.in_place, aligned, options.max_tensor_size_bytes)
    loaded = _Loader(source.proto, tensor, options, supplied, source.file).model()
    if options.raw_data_callback is not None:
        from ort_lite.serialization.tensors import call_back

        call_back(loaded, options.raw_data_callback)
    return loaded


def _external(
    folder: str | os.PathLike[str] | None, file: str | None, options: ParseOptions, supplied: "Supplied | None"
) -> Callable[[dict[str, str], int, str], ByteSpan]:
    """Reads from the files beside a model, which most do not have."""
    files: ExternalData | None = None

    def read(entries: dict[str, str], nbytes: int, who: str) -> ByteSpan:
        nonlocal files
        if files is None:
            from ort_lite.serialization.external import ExternalData

            files = ExternalData(folder, file, options.external_data_roots, options.no_copy, supplied)
        return files.read(entries, nbytes, who)

    return read


def _options(given: ParseOptions | None, no_copy: bool | None, load_external_data: bool | None) -> ParseOptions:
    chosen = {"no_copy": no_copy, "load_external_data": load_external_data}
    changed = {name: value for name, value in chosen.items() if value is not None}
    if given is None:
        return ParseOptions(**changed)
    if not isinstance(given, ParseOptions):
        raise InvalidArgument(f"load: options came as {type(given).__name__}, expected ParseOptions")
    return ParseOptions(**vars(given) | changed) if changed else given


class _Loader:
    def __init__(
        self,
        proto: pb.ModelProto,
        tensor: TensorReader,
        options: ParseOptions,
        supplied: "Supplied | None" = None,
        file: str | None = None,
    ) -> None:
        self._origin = file or "the model"
        self._supplied, self._external_names = supplied, set[str]()
        self._proto, self._tensor, self._options = proto, tensor, options
        self._depth = -1  # in messages: the model is 1, its graph 2, each graph nested in an attribute of a node 3 more
        self._input_dims = [(info.name, info.type.tensor_type.shape.dim[:]) for info in proto.graph.input[:]]
        self._dims = Dims(text(dim.dim_param) for _, dims in self._input_dims for dim in dims)
        self._versions: dict[str, int] = {}
        self._names: list[str | bytes] = []  # of values, nodes, operators and attributes: bytes where they are not UTF-8
        self._made: list[Node] = []  # nodes of the graph at work and of its bodies, a body's before the node that has it
        self._function_domains = {_domain(function.domain) for function in proto.functions}

    def model(self) -> Model:
        proto = self._proto
        if not proto.HasField("graph") or not proto.HasField("ir_version"):
            missing = "graph" if proto.HasField("ir_version") else "ir_version"
            raise InvalidProtobuf(f"{self._origin} has no {missing}: it is no ONNX model, or was cut short")
        if proto.ir_version < 1:
            raise InvalidGraph(f"the model has IR version {proto.ir_version}; they are 1 to {NEWEST_IR_VERSION}")
        if proto.ir_version > NEWEST_IR_VERSION:
            known = f"the installed package onnx knows up to {NEWEST_IR_VERSION}"
            raise InvalidGraph(f"the model has IR version {proto.ir_version}, {known}: pip install -U onnx")
        self._versions = _imports(proto.opset_import)
        if not self._versions and proto.ir_version < 3:
            self._versions[""] = 1
        graph = self._graph(proto.graph, None)
        opset_imports = self._versions
        if self._supplied is not None:
            self._supplied.check_used(self._external_names)
        functions = [self._function(function, opset_imports) for function in proto.functions]
        keys = [(f.domain, f.name, f.overload) for f in functions]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidGraph(f"the model has function {twice[1]!r} of domain {twice[0]!r} twice")
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
            denotations={
                name: tuple([text(dim.denotation) for dim in dims])
                for name, dims in self._input_dims
                if any(dim.denotation for dim in dims)
            },
        )
        check_functions(model.functions)
        if bytes in map(type, self._names):
            strange = next(name for name in self._names if not isinstance(name, str))
            raise InvalidProtobuf(f"the model has the name {strange!r}, which is not UTF-8 text")
        return model

    def _graph(self, proto: pb.GraphProto, outer: Scope | None) -> Graph:
        self._depth += 3
        if self._depth > (limit := self._options.max_recursion_depth):
            raise InvalidGraph(
                f"graph {text(proto.name)!r} is {self._depth} messages deep; ParseOptions.max_recursion_depth is {limit}"
            )
        graph = Graph(text(proto.name))
        graph.doc_string = text(proto.doc_string)
        scope = Scope(graph, outer)
        self._initializers(proto, scope)
        for info in proto.input:
            initializer = graph.initializers.get(info.name)
            if initializer is None:
                value = Value(info.name, self._type(info))
                graph.inputs.append(scope.declare(value, graph_name(graph)))
                if outer is None:
                    _check_typed(value, graph)
                continue
            _check_input(info, initializer, graph)
            if self._proto.ir_version >= 4:
                initializer.type = _declared(self._type(info), initializer)
                graph.inputs.append(initializer)
        declared = {info.name: info for info in (*proto.value_info[:], *proto.output[:])}
        self._nodes(proto.node[:], declared, scope)
        graph.set_outputs(self._output(info.name, declared, scope) for info in proto.output)
        if outer is None:
            self._finish(graph)
        self._depth -= 3
        return graph

    def _initializers(self, proto: pb.GraphProto, scope: Scope) -> None:
        where = graph_name(scope.graph)
        for tensor in proto.initializer[:]:
            checkpoint()
            name = tensor.name
            who = f"initialiser {name!r}"
            if (type_ := self._left_out(tensor, who)) is not None:
                scope.graph.add_initializer(scope.declare(Value(name, type_), where))
                continue
            held = None if self._supplied is None else self._given(self._supplied, tensor, who)
            array = self._tensor(tensor, who) if held is None else held
            scope.graph.add_initializer(scope.declare(Value(name, constant=array), where))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            array = self._tensor(sparse, f"sparse initialiser {name!r}")
            scope.graph.add_initializer(scope.declare(Value(name, constant=array), where))

    def _given(self, supplied: "Supplied", tensor: pb.TensorProto, who: str) -> Array | None:
        """The array that the caller has for an initialiser with external data."""
        if tensor.data_location != pb.TensorProto.EXTERNAL:
            return None
        self._external_names.add(tensor.name)
        return supplied.array(tensor.name, *self._tensor.described(tensor, who)[:2])

    def _left_out(self, tensor: pb.TensorProto, who: str) -> TensorType | None:
        """The type of an initialiser that the options leave without an array."""
        options = self._options
        if options.load_external_data and not options.skip_raw_data:
            return None
        external = tensor.data_location == pb.TensorProto.EXTERNAL
        dtype, shape, nbytes = self._tensor.described(tensor, who)
        raw = external or tensor.HasField("raw_data") or tensor.HasField("segment")
        if external and not options.load_external_data:
            return TensorType(dtype, shape)
        return TensorType(dtype, shape) if options.skip_raw_data and raw and nbytes >= options.raw_data_threshold else None

    def _nodes(self, nodes: Sequence[pb.NodeProto], declared: dict[str, pb.ValueInfoProto], scope: Scope) -> None:
        reader = AttributeReader(lambda body: self._graph(body, scope), self._tensor, self._dims)
        outputs = []  # of all nodes first: they may come in any order
        for number, proto in enumerate(nodes):
            if not number & 63:
                checkpoint()
            values: list[Value | None] = []
            for name in proto.output[:]:
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

    def _node(self, proto: pb.NodeProto, outputs: list[Value | None], scope: Scope, reader: AttributeReader) -> Node:
        domain = _domain(proto.domain)
        version = self._versions.get(domain)
        if version is None:
            version = self._versions[domain] = self._implicit_version(domain, proto)
        checkpoint()
        names, known = proto.input[:], scope.values
        inputs = [known.get(name) or (scope.find(name) if name else None) for name in names]
        if None in inputs:
            _check_found(proto, names, inputs)
        attributes: list[Attr] = [reader(attribute, lambda: _who(proto)) for attribute in proto.attribute[:]]
        node = Node(
            proto.op_type,
            inputs,
            outputs,
            attributes,
            domain=domain,
            version=version,
            name=proto.name,
            overload=proto.overload,
        )
        if len(node.attributes) != len(attributes):
            raise InvalidGraph(
                f"{_who(proto)}: it has an attribute twice; the attributes are {', '.join(a.name for a in attributes)}"
            ).about(proto)
        self._names += (node.op_type, node.name, node.overload, *node.attributes)
        self._made.append(node)
        return node

    def _implicit_version(self, domain: str, proto: pb.NodeProto) -> int:
        if domain in self._function_domains:
            return 1
        if domain in _IMPLICIT_DOMAINS:
            return _IMPLICIT_DOMAINS[domain]
        imported = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in self._versions.items()) or "nothing"
        raise InvalidGraph(
            f"{_who(proto)}: its domain {domain or 'ai.onnx'!r} is not imported; the model imports {imported}"
        ).about(proto)

    def _output(self, name: str, declared: dict[str, pb.ValueInfoProto], scope: Scope) -> Value:
        value = scope.find(name)
        if value is None:
            raise InvalidGraph(f"{graph_name(scope.graph)}: its output {name!r} is computed by no node")
        if value.type is None and name in declared:
            value.type = self._type(declared[name])
        return value

    def _function(self, proto: pb.FunctionProto, model_versions: dict[str, int]) -> Function:
        self._versions = {**model_versions, **_imports(proto.opset_import)}
        graph = Graph(text(proto.name))
        graph.doc_string = text(proto.doc_string)
        scope = Scope(graph, None)
        declared = {info.name: info for info in proto.value_info}
        for name in proto.input:
            value = Value(name, self._type(declared[name]) if name in declared else None)
            graph.inputs.append(scope.declare(value, f"function {proto.name!r}"))
        self._nodes(proto.node[:], declared, scope)
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


def _check_found(proto: pb.NodeProto, names: Sequence[str], inputs: Sequence[Value | None]) -> None:
    """Raises InvalidGraph for an input that is named, but is nowhere."""
    for name, value in zip(names, inputs, strict=True):
        if name and value is None:
            raise InvalidGraph(f"{_who(proto)}: input {name!r} is no input, initialiser or node output of the model").about(
                proto, input=name
            )


def _check_typed(value: Value, graph: Graph) -> None:
    """Raises InvalidGraph for an input of the model without a type, or of more bytes than an address has."""
    if value.type is None:
        raise InvalidGraph(f"{graph_name(graph)}: input {value.name!r} has no type; every input of a model needs one")
    numbers = [dim for dim in value.shape or () if isinstance(dim, int)]
    if numbers and prod(numbers) * itemsize(value.dtype or "uint8") >= 2**63:
        raise InvalidGraph(f"{graph_name(graph)}: input {value.name!r} has dimensions {numbers}: 2**63 bytes or more")


def _declared(said: Type | None, initializer: Value) -> Type | None:
    """The type of an initialiser that a feed may replace: other sizes fit where the model declares them open, as in onnxruntime."""
    own = initializer.type
    if not isinstance(said, TensorType) or not isinstance(own, TensorType) or said.shape is None or own.shape is None:
        return own
    if len(said.shape) != len(own.shape) or all(isinstance(dim, int) for dim in said.shape):
        return own
    return TensorType(own.dtype, said.shape)


def _check_input(info: pb.ValueInfoProto, initializer: Value, graph: Graph) -> None:
    """Raises InvalidGraph where an initialiser is an input of another type."""
    tensor, array = info.type.tensor_type, initializer.constant
    if array is not None and tensor.HasField("shape"):
        said_dims = [dim.dim_value for dim in tensor.shape.dim[:]]
        fits = said_dims == list(array.shape) or (
            len(said_dims) == array.ndim and all(a <= 0 or a == b for a, b in zip(said_dims, array.shape, strict=True))
        )
        if not fits:
            raise InvalidGraph(
                f"{graph_name(graph)}: initialiser {info.name!r} has shape {list(array.shape)}, but the input of its name {said_dims}"
            )
    declared = tensor.elem_type
    if declared and initializer.dtype is not None and declared != to_onnx(initializer.dtype):
        came, said = initializer.dtype, element_type(declared, f"value {info.name!r}")
        raise InvalidGraph(
            f"{graph_name(graph)}: initialiser {info.name!r} is {ort_name(came)}, but the input of its name is {ort_name(said)}"
        )


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else text(name)


def _imports(opsets: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    """Versions by domain. Of two of a domain the last one holds, as in onnxruntime: exporters write a domain again. A warning tells of
    those that differ. Raises InvalidGraph for a version below 1.
    """
    found: dict[str, int] = {}
    for opset in opsets:
        domain = _domain(opset.domain)
        if opset.version < 1:
            raise InvalidGraph(f"the model imports opset {opset.version} of {domain or 'ai.onnx'}; the first one is 1")
        if found.get(domain, opset.version) != opset.version:
            both = f"opsets {found[domain]} and {opset.version} of {domain or 'ai.onnx'}"
            log.warn(-1, f"the model imports {both}: the last one holds")
        found[domain] = opset.version
    return found


def _who(proto: pb.NodeProto) -> str:
    """A node before it has a name of its own."""
    if proto.name:
        return f"{proto.op_type} {proto.name!r}"
    return f"{proto.op_type} with outputs {', '.join(map(repr, proto.output))}"
