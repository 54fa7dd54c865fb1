"""Stage 1: load a path, bytes or ModelProto as a validated Model. Nodes may come in any order.

Each tensor's bytes are in a ByteSpan (see `spans`). By default the tensor owns them, so neither the file nor the caller's bytes are
kept; with `no_copy` it borrows them from a mapped file of external data or from the caller's buffer. Tensors are read from a file
directly into their final memory, so loading needs little memory beyond the model.
"""

import copyreg
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidGraph, InvalidProtobuf, OutOfMemory
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.inline import check_functions
from ort_lite.graph.model import Function, Model
from ort_lite.graph.types import TensorType, Type
from ort_lite.load.checks import (
    MANY_ATTRIBUTES,
    check_attributes,
    check_exists,
    check_function_names,
    check_input,
    check_input_names,
    check_input_type,
    check_node,
    describe_node,
    domain_of,
    initializer_type,
)
from ort_lite.load.parse_options import ParseOptions
from ort_lite.load.proto import NEWEST_IR_VERSION, AttributeReader, dims_of, pb, read_type, text
from ort_lite.load.scope import DimReader, Scope, graph_name
from ort_lite.load.source import ModelSource, ParsedSource, read_source
from ort_lite.load.spans import ByteSpan
from ort_lite.load.tensor_proto import TensorReader
from ort_lite.native.checkpoint import checkpoint

if TYPE_CHECKING:
    from ort_lite.load.external import ExternalData
    from ort_lite.load.supplied import Supplied

# Operators of these domains run in models that do not import them, in these versions, as in onnxruntime.
_IMPLICIT_DOMAINS = {"com.microsoft": 1, "ai.onnx.ml": 5}


def _reduce(model: Model) -> tuple[Any, ...]:
    from ort_lite.load.copying import reduce_model

    return reduce_model(model)


copyreg.pickle(Model, _reduce)


def load(
    model: ModelSource | ParsedSource | Model,
    options: ParseOptions | None = None,
    *,
    no_copy: bool | None = None,
    load_external_data: bool | None = None,
    folder: str | os.PathLike[str] | None = None,
    supplied: "Supplied | None" = None,
) -> Model:
    """Return the model as a validated graph in topological order with unique node names.

    `no_copy` and `load_external_data` override those of `options`. `folder` contains external data, by default the folder of the
    model's file; `supplied` is external data in memory. Initialisers are constants, unless they are also inputs and the IR version
    is 4 or newer: a feed can override those, and `graph.inputs` has them too. A Model is cloned, sharing its tensors. O(size of the
    file), with `no_copy` excluding external data. Raises NoSuchFile, InvalidProtobuf, InvalidGraph naming the node, and
    InvalidArgument for another kind of `model`.
    """
    options = _options(options, no_copy, load_external_data)
    if isinstance(model, Model):
        if supplied is not None:
            raise InvalidArgument("external data in memory is for files and bytes of a model; a Model has its data already")
        return model.clone()
    source = read_source(model, in_place=options.no_copy)
    if folder is None and source.path is not None:
        folder = os.path.dirname(source.path) or "."
    with closing(source), closing(_External(folder, source.path, options, supplied)) as external:
        loaded = _load(source, external, options, supplied)
    if options.raw_data_callback is not None:
        from ort_lite.load.tensors import call_back

        call_back(loaded, options.raw_data_callback)
    return loaded


def _load(source: ParsedSource, external: "_External", options: ParseOptions, supplied: "Supplied | None") -> Model:
    """Return the model, read from files that did not change meanwhile. Raises OutOfMemory and the errors of `load`."""
    aligned = options.copy_misaligned or not options.no_copy
    tensor = TensorReader(source.spans, source.read, external.read, aligned, options.max_tensor_size_bytes)
    try:
        loaded = _Loader(source.proto, tensor, options, supplied, source.path).model()
    except MemoryError as error:
        if isinstance(error, OutOfMemory):
            raise
        raise OutOfMemory(f"{source.path or 'the model'}: its tensors do not fit into memory") from error
    source.check()
    external.check()
    return loaded


class _External:
    """The files of external data, opened on demand, since most models have none."""

    def __init__(
        self, folder: str | os.PathLike[str] | None, file: str | None, options: ParseOptions, supplied: "Supplied | None"
    ) -> None:
        self._where = (folder, file, options.external_data_roots, options.no_copy, supplied)
        self._files: ExternalData | None = None

    def read(self, entries: Sequence[tuple[str, str]], nbytes: int, who: str) -> ByteSpan:
        if self._files is None:
            from ort_lite.load.external import ExternalData

            self._files = ExternalData(*self._where)
        return self._files.read(entries, nbytes, who)

    def check(self) -> None:
        if self._files is not None:
            self._files.check()

    def close(self) -> None:
        if self._files is not None:
            self._files.close()


def _options(given: ParseOptions | None, no_copy: bool | None, load_external_data: bool | None) -> ParseOptions:
    chosen = {"no_copy": no_copy, "load_external_data": load_external_data}
    changed: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
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
        self._input_dims = [
            (info.name, dims_of(info.type.tensor_type, f"input {info.name!r}")) for info in check_input_names(proto.graph.input)
        ]
        self._dims = DimReader(text(dim.dim_param) for _, dims in self._input_dims for dim in dims)
        self._versions: dict[str, int] = {}
        self._names: list[str | bytes] = []  # of values, nodes, operators and attributes; bytes if not UTF-8
        self._made: list[Node] = []  # nodes of the current graph and its bodies, a body's before its node
        self._function_domains = {domain_of(function.domain) for function in proto.functions}

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
        check_function_names(proto.functions)
        graph = self._graph(proto.graph, None)
        opset_imports = self._versions
        if self._supplied is not None:
            self._supplied.check_names(self._external_names)
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
                value = Value(info.name, self._type(info, sparse=outer is None))
                graph.inputs.append(scope.declare(value, graph_name(graph)))
                if outer is None:
                    check_input_type(value, graph)
                continue
            check_input(info, initializer, graph)
            if self._proto.ir_version >= 4:
                initializer.type = initializer_type(self._type(info), initializer)
                graph.inputs.append(initializer)
        declared = {info.name: info for info in chain(proto.value_info, proto.output)}
        self._nodes(proto.node, declared, scope)
        graph.set_outputs(self._output(info.name, declared, scope) for info in proto.output)
        if outer is None:
            self._finish(graph)
        self._depth -= 3
        return graph

    def _initializers(self, proto: pb.GraphProto, scope: Scope) -> None:
        where = graph_name(scope.graph)
        for tensor in proto.initializer:
            checkpoint()
            name = tensor.name
            who = f"initialiser {name!r}"
            if (type_ := self._type_without_array(tensor, who)) is not None:
                scope.graph.add_initializer(scope.declare(Value(name, type_), where))
                continue
            held = None if self._supplied is None else self._array_in_memory(self._supplied, tensor, who)
            array = self._tensor(tensor, who) if held is None else held
            scope.graph.add_initializer(scope.declare(Value(name, constant=array), where))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            array = self._tensor(sparse, f"sparse initialiser {name!r}")
            scope.graph.add_initializer(scope.declare(Value(name, constant=array), where))

    def _array_in_memory(self, supplied: "Supplied", tensor: pb.TensorProto, who: str) -> Array | None:
        """Return the array that the caller supplied for an initialiser with external data."""
        if tensor.data_location != pb.TensorProto.EXTERNAL:
            return None
        self._external_names.add(tensor.name)
        return supplied.array(tensor.name, *self._tensor.read_header(tensor, who)[:2])

    def _type_without_array(self, tensor: pb.TensorProto, who: str) -> TensorType | None:
        """Return the type of an initialiser that the options load without an array."""
        options = self._options
        if options.load_external_data and not options.skip_raw_data:
            return None
        external = tensor.data_location == pb.TensorProto.EXTERNAL
        dtype, shape, nbytes = self._tensor.read_header(tensor, who)
        raw = external or tensor.HasField("raw_data") or tensor.HasField("segment")
        if external and not options.load_external_data:
            return TensorType(dtype, shape)
        return TensorType(dtype, shape) if options.skip_raw_data and raw and nbytes >= options.raw_data_threshold else None

    def _nodes(self, protos: Iterable[pb.NodeProto], declared: dict[str, pb.ValueInfoProto], scope: Scope) -> None:
        reader = AttributeReader(lambda body: self._graph(body, scope), self._tensor, self._dims)
        nodes, outputs, idle = [], [], 0  # all outputs first, since nodes may come in any order
        for number, proto in enumerate(protos):
            if not number & 63:
                checkpoint()
            if not (proto.op_type and (proto.output or proto.input)):
                check_node(proto, graph_name(scope.graph))
                idle += 1
                continue
            nodes.append(proto)
            values: list[Value | None] = []
            for name in proto.output[:]:
                if not name:
                    values.append(None)
                    continue
                info = declared.get(name)
                value = Value(name, None if info is None else self._type(info))
                if scope.values.setdefault(name, value) is not value:
                    scope.declare(value, describe_node(proto))
                values.append(value)
            outputs.append(values)
        if idle:
            log.warn(-1, f"{graph_name(scope.graph)}: {idle} nodes without inputs and outputs are left out, as in onnxruntime")
        self._names.extend(scope.values)
        for proto, values in zip(nodes, outputs, strict=True):
            scope.graph.append(self._node(proto, values, scope, reader))

    def _node(self, proto: pb.NodeProto, outputs: list[Value | None], scope: Scope, reader: AttributeReader) -> Node:
        domain = domain_of(proto.domain)
        version = self._versions.get(domain)
        if version is None:
            version = self._versions[domain] = self._implicit_version(domain, proto)
        checkpoint()
        names, known = proto.input[:], scope.values
        inputs = [known.get(name) or (scope.find(name) if name else None) for name in names]
        if None in inputs:
            check_exists(proto, names, inputs)
        if len(proto.attribute) > MANY_ATTRIBUTES:
            check_attributes(proto)
        attributes: list[Attr] = [reader(attribute, lambda: describe_node(proto)) for attribute in proto.attribute]
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
            check_attributes(proto)
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
            f"{describe_node(proto)}: its domain {domain or 'ai.onnx'!r} is not imported; the model imports {imported}"
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
        self._nodes(proto.node, declared, scope)
        graph.set_outputs(self._output(name, {}, scope) for name in proto.output)
        self._finish(graph)
        reader = AttributeReader(lambda body: self._graph(body, scope), self._tensor, self._dims)
        defaults = [reader(attribute, lambda: f"function {proto.name!r}") for attribute in proto.attribute_proto]
        self._names += (attribute.name for attribute in defaults)
        return Function(
            domain=domain_of(proto.domain),
            name=text(proto.name),
            overload=text(proto.overload),
            graph=graph,
            attributes=[text(name) for name in proto.attribute],
            defaults={attribute.name: attribute for attribute in defaults},
            opset_imports=_imports(proto.opset_import),
        )

    def _finish(self, graph: Graph) -> None:
        """Make node names unique: unnamed nodes are named by operator, later duplicates get a suffix."""
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

    def _type(self, info: pb.ValueInfoProto, sparse: bool = False) -> Type | None:
        self._dims.owner = info.name
        return read_type(info.type, self._dims, f"value {info.name!r}", sparse)


def _imports(opsets: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    """Return the versions by domain. Raises InvalidGraph for a version below 1.

    If a domain is imported twice, the last version counts, as in onnxruntime: some exporters repeat domains. Logs a warning if the
    versions differ.
    """
    found: dict[str, int] = {}
    warned = set[str]()
    for opset in opsets:
        domain = domain_of(opset.domain)
        if opset.version < 1:
            raise InvalidGraph(f"the model imports opset {opset.version} of {domain or 'ai.onnx'}; the first one is 1")
        if found.get(domain, opset.version) != opset.version and domain not in warned:
            warned.add(domain)
            both = f"opsets {found[domain]} and {opset.version} of {domain or 'ai.onnx'}"
            log.warn(-1, f"the model imports {both}: the last one holds")
        found[domain] = opset.version
    return found
