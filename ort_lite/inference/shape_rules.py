"""The contract of shape inference: what is known of a value, a node as rules see it, rules by operator and version.

A rule maps what is known of a node's inputs to what is known of its outputs. Known is an `Info`: the type, and for small
integer tensors (at most `CONTENTS_LIMIT` elements) their contents as symbolic integers, so that
Shape -> Gather -> Concat -> Reshape resolves without running anything. Rules are registered by transform distributions
(hook `ort_lite_shape_rules`); the same rules annotate a graph before partitioning and serve providers while they lower.

    @shape_rule("Transpose", since=1)
    def transpose(op: Op) -> list[Info]:
        shape = op.shape(0)
        perm = op.attr("perm", range(len(shape))[::-1])
        return [op.tensor(op.dtype(0), [shape[axis] for axis in perm])]
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod
from typing import Any, Protocol

from ort_lite.dtypes import Array, DType, from_numpy, itemsize
from ort_lite.errors import InvalidGraph, ShapeInferenceError
from ort_lite.graph.graph import Graph, Node
from ort_lite.graph.types import TensorType, Type
from ort_lite.inference.schema import Kind, Schemas, SchemaSource, format_kind, kind_of
from ort_lite.inference.schema_text import OpSchema
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape, product
from ort_lite.shapes.expr import Dim

CONTENTS_LIMIT = 64
_LARGE_DIM = 2**24  # from here on a shape may be of more bytes than an address has
CONTENT_TYPES = frozenset({"int64", "int32", "bool", "uint8", "int8", "int16", "uint16", "uint32"})


class Info(Record):
    """The known facts about a value. `contents` has as many elements as the tensor, in row-major order."""

    type: Type | None = None
    contents: tuple[Dim, ...] | None = None
    constant: Array | None = None

    @property
    def dtype(self) -> DType | None:
        """The element type of a tensor; None for other types."""
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> Shape | None:
        """The shape of a tensor; None for other types, and if not even the rank is known."""
        return self.type.shape if isinstance(self.type, TensorType) else None


UNKNOWN = Info()


class RankUnknown(Exception):
    """A rule needs the rank of input `index`, which is open."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class ContentsUnknown(Exception):
    """A rule needs the contents of input `index`, which only running the program tells."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class NumbersUnknown(ContentsUnknown):
    """A rule needs the elements of input `index` as numbers: expressions will not do, as they decide a rank, are floats, ..."""


Seen = dict[Node, Sequence[Info | None]]
"""What the nodes of a body were given in an earlier pass."""


class InferenceContext(Protocol):
    """The inference that an Op is part of, as the Op sees it."""

    @property
    def strict(self) -> bool:
        """True if a shape that cannot be inferred is an error."""

    @property
    def checks_all(self) -> bool:
        """True if nodes are checked against their schemas."""

    @property
    def like_onnx(self) -> bool:
        """True if rules are to find no more than ONNX's own inference."""

    @property
    def count(self) -> int:
        """The number of symbols created so far."""

    def fresh(self, hint: str) -> Dim:
        """Create a symbol with a name that resembles `hint`."""

    def is_newer(self, dim: Dim, count: int) -> bool:
        """Return True if `dim` depends on a symbol created after the first `count`."""

    def infer_body(self, graph: Graph, inputs: Sequence[Info], seen: Seen | None = None, certain: bool = True) -> list[Info]:
        """Infer the outputs of a nested graph for these inputs."""


class Op:
    """A node under inference, as rules see it."""

    __slots__ = ("_inference", "inputs", "node")

    def __init__(self, node: Node, inputs: Sequence[Info | None], inference: InferenceContext) -> None:
        self.node, self.inputs, self._inference = node, inputs, inference

    @property
    def version(self) -> int:
        """The opset version of the node."""
        return self.node.version

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default`."""
        return self.node.attr(name, default)

    def has(self, index: int) -> bool:
        """Return True if the optional input is present."""
        return index < len(self.inputs) and self.inputs[index] is not None

    @property
    def at_load(self) -> bool:
        """Return True if a whole model is inferred, each node of which is checked for what its schema does not say. A
        provider lowers nodes that were, and rejects by itself what only the run shows.
        """
        return self._inference.checks_all

    @property
    def like_onnx(self) -> bool:
        """Return True if the rule is to find no more than ONNX's own inference, because names of dimensions depend on it."""
        return self._inference.like_onnx

    def info(self, index: int) -> Info:
        """Raises ShapeInferenceError when the input is left out."""
        info = self.inputs[index] if index < len(self.inputs) else None
        if info is None:
            raise self.error(f"input {index} is missing")
        return info

    def dtype(self, index: int) -> DType:
        """Return the element type of an input. Raises ShapeInferenceError if it is not known."""
        type_ = self.info(index).type
        if not isinstance(type_, TensorType):
            raise RankUnknown(index)
        return type_.dtype

    def shape(self, index: int) -> Shape:
        """Raises RankUnknown where it is: the driver then leaves the outputs open."""
        type_ = self.info(index).type
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise RankUnknown(index)
        return type_.shape

    def rank(self, index: int) -> int:
        """Return the rank of an input. Raises ShapeInferenceError if it is not known."""
        return len(self.shape(index))

    def contents(self, index: int) -> tuple[Dim, ...]:
        """Row-major elements of a small integer input. Raises ContentsUnknown."""
        contents = self.contents_or_none(index)
        if contents is None:
            raise ContentsUnknown(index)
        return contents

    def scalar(self, index: int) -> Dim:
        """The element of a small integer input that should have one. Raises ContentsUnknown, ShapeInferenceError for more or none."""
        contents = self.contents(index)
        if len(contents) != 1:
            raise self.error(f"input {index} has {len(contents)} elements, expected one")
        return contents[0]

    def contents_or_none(self, index: int) -> tuple[Dim, ...] | None:
        """Return the contents; None if they are not known."""
        return self.info(index).contents

    known = contents_or_none
    """The name in earlier releases."""

    def needs(self, unknown: RankUnknown | ContentsUnknown) -> None:
        """Says that the outputs depend on what is not known: a strict inference ends with this exception.

        Otherwise returns: the rule then gives what is certain, with fresh dims.
        """
        if self._inference.strict:
            raise unknown

    def constant(self, index: int) -> Array | None:
        """The array of a constant input of any type and size."""
        info = self.inputs[index] if index < len(self.inputs) else None
        return None if info is None else info.constant

    def axis(self, value: int, rank: int) -> int:
        """`value` counted from the front. Raises ShapeInferenceError out of [-rank, rank)."""
        if not -rank <= value < max(rank, 1):
            raise self.error(f"axis {value} is out of range [{-rank}, {rank})")
        return value + rank if value < 0 else value

    def tensor(self, dtype: DType, shape: Iterable[Dim] | None, contents: Iterable[Dim] | None = None) -> Info:
        """An output. Contents that are too many, do not fill the shape or are of no small integer type are dropped, and those of
        no elements where a dimension is open: they tell no more, and cannot take the shape.
        """
        type_ = TensorType(dtype, None if shape is None else tuple(shape))
        if type_.shape and self._inference.checks_all:
            self._check_size(type_)
        if contents is None or type_.shape is None or dtype not in CONTENT_TYPES:
            return Info(type_)
        kept = tuple(contents)
        fits = product(type_.shape) == len(kept) <= CONTENTS_LIMIT
        return Info(type_, kept if fits and (kept or all(isinstance(dim, int) for dim in type_.shape)) else None)

    def _check_size(self, type_: TensorType) -> None:
        """Raises ShapeInferenceError for dims below 0, and for more bytes than an address has."""
        numbers = [dim for dim in type_.shape or () if isinstance(dim, int)]
        if not numbers or (min(numbers) >= 0 and max(numbers) < _LARGE_DIM):
            return
        dims = ", ".join(map(str, type_.shape or ()))
        if min(numbers) < 0:
            raise self.error(f"the result would have the shape [{dims}], which is negative")
        if prod(number for number in numbers if number) * itemsize(type_.dtype) >= 2**63:
            raise self.error(f"the result would have the shape [{dims}]: 2**63 bytes or more")

    def fresh(self) -> Dim:
        """A new symbol for a dimension that only running the program tells."""
        named = next((value for value in self.node.outputs if value is not None), None)
        return self._inference.fresh(self.node.op_type if named is None else named.name)

    def body(self, graph: Graph, inputs: Sequence[Info], seen: Seen | None = None, certain: bool = True) -> list[Info]:
        """Infer the outputs of a nested graph for these inputs. Open if a node of it needs what is not known.

        Several passes over one body share `seen`, at first empty: in later ones only nodes that are given something else are
        inferred. Raises InvalidGraph where the graph has another number of inputs, or declares them of other types, and
        ShapeInferenceError where shapes do not fit. `certain`: the body runs whenever the node does. Where it may not, shapes
        that do not fit leave outputs open, as whether they matter only the run tells.
        """
        if len(graph.inputs) != len(inputs):
            raise InvalidGraph(
                f"{self.node}: inputs of its body {graph.name!r}: {len(graph.inputs)}, expected {len(inputs)}"
            ).about(self.node)
        for index, (value, kind) in enumerate(zip(graph.inputs, kinds(inputs), strict=True)):
            declared = kind_of(value.type)
            if kind is not None and declared not in (kind, None):
                which = f"input {index} ({value.name!r}) of its body {graph.name!r}"
                raise InvalidGraph(
                    f"{self.node}: {which} is declared {format_kind(declared)}, but is given {format_kind(kind)}"
                ).about(self.node)
        try:
            return self._inference.infer_body(graph, inputs, seen, certain)
        except ShapeInferenceError as error:
            error.inside(f"{graph.name!r} of {self.node}")
            raise

    def dead_body(self, graph: Graph) -> list[Info]:
        """The outputs of a nested graph that never runs, for their types alone. Empty for a strict inference, which comes after
        one that is not.
        """
        return [] if self._inference.strict else self.body(graph, [], certain=False)

    def scope(self) -> int:
        """A mark: symbols made from here on are `inner` to it."""
        return self._inference.count

    def is_inner(self, dim: Dim, scope: int) -> bool:
        """Return True if a symbol created since `scope` occurs in `dim`: it has no meaning outside of its body."""
        return self._inference.count > scope and self._inference.is_newer(dim, scope)

    def error(self, message: str) -> ShapeInferenceError:
        """Return the error that names the node, with the types of its inputs."""
        return ShapeInferenceError(f"{self.node}: {message}; inputs are {', '.join(_name(i) for i in self.inputs)}").about(
            self.node
        )


def _name(info: Info | None) -> str:
    return "(left out)" if info is None else str(info.type)


def kinds(infos: Iterable[Info | None]) -> tuple[Kind | None, ...]:
    """Return the type letters of schemas for a type; None if nothing is known."""
    return tuple(
        [None if info is None else info.type.dtype if type(info.type) is TensorType else kind_of(info.type) for info in infos]
    )


def constant_info(array: Array) -> Info:
    """The Info of an array; small integer arrays have contents."""
    dtype = from_numpy(array.dtype)
    contents = None
    if dtype in CONTENT_TYPES and array.size <= CONTENTS_LIMIT:
        elements = array.ravel().tolist()
        contents = tuple(map(int, elements)) if dtype == "bool" else tuple(elements)
    return Info(TensorType(dtype, array.shape), contents, array)


Rule = Callable[[Op], list[Info]]
OutputType = int | DType | Callable[[Op], DType]


class ShapeRule(Record):
    """A rule and what it is for: the operator from opset `since` on, until a later rule takes over."""

    op_type: str
    since: int
    domain: str
    function: Rule
    types: tuple[OutputType, ...] = ()
    beyond_onnx: bool = False
    """True if the rule finds sizes that ONNX's own inference does not, unless `Op.like_onnx`."""


def shape_rule(
    *op_types: str, since: int = 1, domain: str = "", types: tuple[OutputType, ...] = (0,), beyond_onnx: bool = False
) -> Callable[[Rule], list[ShapeRule]]:
    """Makes the decorated function the rule of the operators; the result is what `ort_lite_shape_rules` lists.

    `types` are the element types that the outputs have even where the rule finds a rank or contents missing: that of an
    input, by number, or a name, or a function of the Op. The last one stands for all outputs that follow.
    """

    def decorate(function: Rule) -> list[ShapeRule]:
        return [ShapeRule(op_type, since, domain, function, types, beyond_onnx) for op_type in op_types]

    return decorate


class RuleFamily(Record):
    """Rules that are loaded when a model first has one of their operators: (domain, op_type) of all that `load` gives."""

    keys: Collection[tuple[str, str]]
    load: Callable[[], Iterable[ShapeRule]]


class ShapeRules:
    """All rules of a process, by (domain, op_type); the newest one not newer than the node's version applies.

    `schemas` are the operators' schemas: whoever infers checks types by them.
    """

    def __init__(self, rules: Iterable[ShapeRule | RuleFamily], schemas: Schemas | None = None) -> None:
        self.schemas = Schemas() if schemas is None else schemas
        self._rules: dict[tuple[str, str], list[ShapeRule | RuleFamily]] = {}
        self._ready: dict[tuple[str, str], list[ShapeRule]] = {}
        for rule in rules:
            for key in rule.keys if isinstance(rule, RuleFamily) else [(rule.domain, rule.op_type)]:
                self._rules.setdefault(key, []).append(rule)

    def prepend(
        self, more: Iterable[ShapeRule | list[ShapeRule] | RuleFamily], schemas: Iterable[OpSchema | SchemaSource] = ()
    ) -> "ShapeRules":
        """These rules and schemas, and before them `more`."""
        given = list(schemas)
        joined = self.schemas.prepend(given) if given else self.schemas
        made = ShapeRules((rule for one in more for rule in (one if isinstance(one, list) else [one])), joined)
        for key, rules in self._rules.items():
            made._rules[key] = [*made._rules.get(key, ()), *rules]
        return made

    def knows(self, domain: str, op_type: str) -> bool:
        """Return True if the operator has a rule or a schema, of whatever version."""
        return (domain, op_type) in self._rules or self.schemas.knows(domain, op_type)

    def find(self, node: Node) -> ShapeRule | None:
        """Return the rule for the node's operator and version, or None."""
        key = (node.domain, node.op_type)
        found = self._ready.get(key)
        if found is None:
            if key not in self._rules:  # names of models that come and go are not kept
                return None
            found = self._ready[key] = self._load(key)
        for rule in found:
            if rule.since <= node.version:
                return rule
        return None

    def _load(self, key: tuple[str, str]) -> list[ShapeRule]:
        """The rules of an operator, newest first; of two for one version the one that was given first."""
        given = self._rules.get(key, ())
        rules = [rule for one in given for rule in (one.load() if isinstance(one, RuleFamily) else [one])]
        return sorted((rule for rule in rules if (rule.domain, rule.op_type) == key), key=lambda rule: -rule.since)
