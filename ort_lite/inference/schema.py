"""Operator schemas, and checks of a node against them: form (operands, attributes) and types.

Distributions bring schemas by the hook `ort_lite_schemas`, providers those of operators of their own by
`ExecutionProvider.schemas`; `ort_lite.inference.schema_text` is how they are written. `Schemas` finds the one for a node. The form of
all nodes is checked when a model enters the pipeline, types whenever they become known: shape inference does it, at load and
in a provider that lowers during a run. All errors are InvalidGraph.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ort_lite import log
from ort_lite.dtypes import is_dtype, ort_name
from ort_lite.errors import InvalidGraph
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from ort_lite.inference.limits import check_limit
from ort_lite.inference.schema_text import UNLIMITED, FormalParameter, Operands, OpSchema
from ort_lite.inference.shape_templates import OperandTemplate, parse_templates
from ort_lite.inference.traits import Traits, parse_traits

Kind = str
"""A type without its shape: "float32", "seq(float32)", "optional(int8)", "map(string,float32)"."""

_MARKED = frozenset({("", "Constant")})
"""Operators that may have other attributes beside the one that they need, as in onnxruntime: onnxsim marks constants that way."""

NHWC_DOMAIN = "com.ms.internal.nhwc"
"""Where operators are whose image, first input and first output, is channels-last: (N, H, W, C) in place of (N, C, H, W)."""


def kind_of(type_: Type | None) -> Kind | None:
    """Return the kind of a type as schemas write it; None if it is not known."""
    match type_:
        case SparseTensorType(dtype, _):
            return f"sparse_tensor({dtype})"
        case TensorType(dtype, _):
            return dtype
        case SequenceType(element):
            return f"seq({kind_of(element)})"
        case OptionalType(element):
            return f"optional({kind_of(element)})"
        case MapType(key, value):
            return f"map({key},{kind_of(value)})"
    return None


class SchemaSource(Protocol):
    """Schemas by operator; `complete` has the domains of which it has all operators, and up to which opset."""

    def operators(self) -> Iterable[tuple[str, str]]:
        """Return the operators, as (domain, name)."""

    def versions(self, domain: str, op_type: str) -> Iterable[int]:
        """Return the opset versions at which an operator changed."""

    def schema(self, domain: str, op_type: str, since: int) -> OpSchema:
        """Return the schema of an operator since a version."""

    def complete(self) -> Mapping[str, int]:
        """Return the domains whose operators are all known, with the latest version of each."""


class _Single:
    """One schema as a source."""

    def __init__(self, schema: OpSchema) -> None:
        self._schema = schema

    def operators(self) -> Iterable[tuple[str, str]]:
        return ((self._schema.domain, self._schema.op_type),)

    def versions(self, domain: str, op_type: str) -> Iterable[int]:
        return (self._schema.since,) if (self._schema.domain, self._schema.op_type) == (domain, op_type) else ()

    def schema(self, domain: str, op_type: str, since: int) -> OpSchema:
        return self._schema

    def complete(self) -> Mapping[str, int]:
        return {}


_REMEMBERED = 1 << 14  # a model has some hundred combinations of operator, version and types


class Schemas:
    """All schemas of a process; of two for one version that of the earlier source counts.

    What was found and what was checked is remembered, of operators that have a schema alone: each thread would do it alike, and
    forgetting it costs time.
    """

    def __init__(self, given: Iterable[OpSchema | SchemaSource] = ()) -> None:
        self._sources = [_Single(one) if isinstance(one, OpSchema) else one for one in given]
        self._found: dict[tuple[str, str, int], OpSchema] = {}
        self._good: set[tuple[object, ...]] = set()
        self._templates: dict[OpSchema, tuple[OperandTemplate | None, ...]] = {}

    def prepend(self, more: Iterable[OpSchema | SchemaSource]) -> "Schemas":
        """These schemas, and before them `more`."""
        return Schemas([*more, *self._sources])

    def find(self, node: Node) -> OpSchema | None:
        """The newest not newer than the node's opset; None: nobody has one."""
        key = (node.domain, node.op_type, node.version)
        found = self._found.get(key)
        if found is None:
            found = self._newest(_domain(node), node.op_type, node.version)
            if found is not None:
                if len(self._found) >= _REMEMBERED:
                    self._found.clear()
                self._found[key] = found
        return found

    def traits(self, node: Node) -> Traits:
        """The traits of the node's operator; none for one without a schema."""
        schema = self.find(node)
        return parse_traits("" if schema is None else schema.traits)

    def templates(self, node: Node) -> tuple[OperandTemplate | None, ...]:
        """The shapes of the inputs, one for each that the schema has, None for any shape; nothing if all may have any."""
        schema = self.find(node)
        if schema is None or not schema.shapes or node.domain == NHWC_DOMAIN:
            return ()
        found = self._templates.get(schema)
        if found is None:
            stated = parse_templates(schema.shapes)
            each = [stated.get(operand.name) for operand in schema.inputs.formal]
            bound = [None if one is None or one.is_free else one for one in each]
            found = self._templates[schema] = tuple(bound) if any(bound) else ()
        return found

    def operators(self) -> list[tuple[str, str]]:
        """All operators that have a schema, by domain and name, sorted. Reads all of them."""
        return sorted({operator for source in self._sources for operator in source.operators()})

    def versions(self, node: Node) -> list[int]:
        """All versions of the node's operator that there are schemas of, older first."""
        key = _domain(node), node.op_type
        return sorted({since for source in self._sources for since in source.versions(*key)})

    def knows(self, domain: str, op_type: str) -> bool:
        """Return True if there is a schema of the operator, of whatever version."""
        return any(True for source in self._sources for _ in source.versions(domain, op_type))

    def complete(self, domain: str) -> int | None:
        """Up to which opset all operators of a domain are known; None: others may have more of them."""
        return max((found for one in self._sources if (found := one.complete().get(domain)) is not None), default=None)

    def _newest(self, domain: str, op_type: str, version: int) -> OpSchema | None:
        best, origin = 0, None
        for source in self._sources:
            since = max((since for since in source.versions(domain, op_type) if since <= version), default=0)
            if since > best:
                best, origin = since, source
        return None if origin is None else origin.schema(domain, op_type, best)

    # Form

    def check_form(self, node: Node) -> None:
        """Raises InvalidGraph for a number of operands or an attribute that the node's schema rules out, or where there is none
        although all operators of the domain are known.
        """
        schema = self.find(node)
        if schema is None:
            self._check_domain(node)
        else:
            self.check_against(node, schema)

    @staticmethod
    def check_against(node: Node, schema: OpSchema) -> None:
        """Check a node as `check_form` does, against the schema that `find` returned."""
        if schema.deprecated:
            raise InvalidGraph(f"{node}: {schema} is deprecated; a model of opset {node.version} must not use it").about(node)
        inputs, outputs = node.inputs, node.outputs
        if None in inputs or not schema.inputs.least <= len(inputs) <= schema.inputs.most:
            _check_operands(node, schema, "input", inputs, schema.inputs)
        if None in outputs or not schema.outputs.least <= len(outputs) <= schema.outputs.most:
            _check_operands(node, schema, "output", outputs, schema.outputs)
        if node.attributes or schema.required:
            _check_attributes(node, schema)

    def _check_domain(self, node: Node) -> None:
        limit = self.complete(_domain(node))
        if limit is None:
            return
        domain, versions = node.domain or "ai.onnx", self.versions(node)
        if versions:
            raise InvalidGraph(
                f"{node}: {domain} has {node.op_type} from opset {versions[0]} on; the model imports {node.version}: export it anew"
            ).about(node, expected=f"opset {versions[0]} or later", got=str(node.version))
        raise InvalidGraph(
            f"{node}: {domain} has no operator {node.op_type} (opset 1 to {limit}); one of your own needs a domain of its own, a "
            "schema, a shape rule or a function in the model"
        ).about(node)

    # Types

    def check_types(self, node: Node, inputs: tuple[Kind | None, ...], outputs: tuple[Kind | None, ...] = ()) -> None:
        """Raises InvalidGraph for types that the schema of the node rules out; None among them: not known, or left out.

        What was found good once costs a look-up.
        """
        key = (node.op_type, inputs, outputs, node.version, node.domain)
        if key not in self._good:
            schema = self.find(node)
            if schema is not None:
                _bind(node, schema, inputs, outputs)
                if len(self._good) >= _REMEMBERED:
                    self._good.clear()
                self._good.add(key)


def check_declaration(node: Node, value: Value, found: Type, index: int) -> None:
    """Raises InvalidGraph where the model declares another type for output `index` than inference found."""
    declared = value.type
    if declared is found or (type(declared) is TensorType is type(found) and declared.dtype == found.dtype):
        return
    if kind_of(declared) != kind_of(found):
        came, said = format_kind(kind_of(found) or ""), format_kind(kind_of(declared) or "")
        raise InvalidGraph(f"{node}: output {index} ({value.name!r}) is {came}, but the model declares {said}").about(
            node, expected=said, got=came
        )


def _domain(node: Node) -> str:
    return "" if node.domain == NHWC_DOMAIN else node.domain


def _check_operands(node: Node, schema: OpSchema, what: str, values: Sequence[Value | None], formal: Operands) -> None:
    count = len(values)
    if not formal.least <= count <= formal.most:
        names = ", ".join(operand.name for operand in formal.formal)
        came = f"{node} has {count} {what}{'s' * (count != 1)}"
        wanted = f"{_range(formal)}{f': {names}' if names else ''}"
        raise InvalidGraph(f"{came}; {schema} has {wanted}").about(node, expected=wanted, got=str(count))
    for index, value in enumerate(values):
        if value is None and formal.at(index).option == "single":
            raise InvalidGraph(f"{node}: {what} {index} ({formal.at(index).name}) is left out; {schema} requires it").about(
                node, input=formal.at(index).name if what == "input" else ""
            )


def _range(formal: Operands) -> str:
    if formal.most == UNLIMITED:
        return f"{formal.least} or more"
    return str(formal.least) if formal.least == formal.most else f"{formal.least} to {formal.most}"


def _check_attributes(node: Node, schema: OpSchema) -> None:
    known = schema.attributes
    marked = (node.domain, node.op_type) in _MARKED and not known.keys().isdisjoint(node.attributes)
    strangers = [name for name in node.attributes if name not in known and not name.startswith("__")]
    if strangers and parse_traits(schema.traits).unchecked:
        has = f"{schema} has {', '.join(known)}"
        log.warn(-1, f"{node}: attribute {', '.join(map(repr, strangers))} is ignored, as in onnxruntime; {has}")
        marked = True
    for name, attribute in node.attributes.items():
        kind = known.get(name)
        if kind == attribute.type:
            if limit := schema.limits.get(name):
                check_limit(node, attribute, limit, schema)
            continue
        if kind is None and not name.startswith("__") and not marked:  # onnx keeps these for marks of tools
            there = f"only {', '.join(known)}" if known else "none"
            raise InvalidGraph(f"{node}: attribute {name!r} is not known; {schema} has {there}").about(node)
        if kind is not None and not (attribute.ref and attribute.type == "UNDEFINED"):
            raise InvalidGraph(f"{node}: attribute {name!r} is {attribute.type}; in {schema} it is {kind}").about(
                node, expected=kind, got=attribute.type
            )
    for name in schema.required:
        if name not in node.attributes:
            raise InvalidGraph(f"{node}: attribute {name!r} ({known[name]}) is missing; {schema} requires it").about(node)


def _bind(node: Node, schema: OpSchema, inputs: Sequence[Kind | None], outputs: Sequence[Kind | None]) -> None:
    """Gives each type variable the type of the first operand of it; raises InvalidGraph for what does not fit."""
    bound: dict[str, tuple[Kind, str]] = {}
    for what, kinds, formal, values in (
        ("input", inputs, schema.inputs, node.inputs),
        ("output", outputs, schema.outputs, node.outputs),
    ):
        for index, kind in enumerate(kinds):
            value = values[index]
            if kind is None or value is None:
                continue
            operand = formal.at(index)
            who = f"{what} {index} ({operand.name}, {value.name!r})"
            first, origin = bound.get(operand.type, (kind, ""))
            if kind != first and operand.homogeneous:
                raise InvalidGraph(
                    f"{node}: {who} is {format_kind(kind)}, but {operand.type} is {format_kind(first)} by {origin}; {schema} "
                    f"takes one type for both, of {_list_types(schema, operand)}"
                ).about(node, input=value.name if what == "input" else "", expected=format_kind(first), got=format_kind(kind))
            if kind not in schema.types_of(operand):
                listed, got = _list_types(schema, operand), format_kind(kind)
                named = f"Type {got!r} of {what} parameter ({value.name}) of operator ({node.op_type}) in node ({node.name})"
                raise InvalidGraph(f"{node}: {who} is {got}; {schema} {_TAKES[what]} {listed} there").about(
                    node,
                    input=value.name if what == "input" else "",
                    expected=listed,
                    got=got,
                    words=f"Type Error: {named} is invalid.",
                )
            if operand.homogeneous:
                bound.setdefault(operand.type, (kind, who))


_TAKES = {"input": "takes", "output": "gives"}


def _list_types(schema: OpSchema, operand: FormalParameter) -> str:
    return ", ".join(map(format_kind, sorted(schema.types_of(operand))))


def format_kind(kind: Kind) -> str:
    """onnxruntime's spelling: "tensor(float)", "seq(tensor(int8))", "map(string,tensor(float))", "sparse_tensor(float)"."""
    head, bracket, inside = kind.partition("(")
    if not bracket:
        return ort_name(kind) if is_dtype(kind) else kind
    if head == "sparse_tensor":
        return f"sparse_{ort_name(inside[:-1])}"
    if head == "map":
        key, _, value = inside[:-1].partition(",")
        return f"map({key},{format_kind(value)})"
    return f"{head}({format_kind(inside[:-1])})"
