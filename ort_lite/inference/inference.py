"""Shape inference with symbolic dimensions: the contract of a rule, and the driver.

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import InvalidGraph, OrtLiteError, ShapeInferenceError
from ort_lite.graph.graph import Graph
from ort_lite.graph.node import Node, TensorType, Type, Value
from ort_lite.inference.schema import Kind, check_declared, kind_of, shown
from ort_lite.inference.shape_rules import OutputType, Rule, RuleFamily, ShapeRule, ShapeRules, shape_rule
from ort_lite.record import Record
from ort_lite.shapes.broadcast import broadcast, merge
from ort_lite.shapes.dims import Shape, product, symbol, symbols
from ort_lite.shapes.expr import Dim

CONTENTS_LIMIT = 64
_CONTENT_TYPES = frozenset({"int64", "int32", "bool", "uint8", "int8", "int16", "uint16", "uint32"})


class Info(Record):
    """What is known of a value. `contents` has as many elements as the tensor, in row-major order."""

    type: Type | None = None
    contents: tuple[Dim, ...] | None = None
    constant: Array | None = None

    @property
    def dtype(self) -> DType | None:
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> Shape | None:
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


class Op:
    """A node under inference, as rules see it."""

    __slots__ = ("_inference", "inputs", "node")

    def __init__(self, node: Node, inputs: Sequence[Info | None], inference: "Inference") -> None:
        self.node, self.inputs, self._inference = node, inputs, inference

    @property
    def version(self) -> int:
        return self.node.version

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attr(name, default)

    def has(self, index: int) -> bool:
        """Whether the optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def info(self, index: int) -> Info:
        """Raises ShapeInferenceError when the input is left out."""
        info = self.inputs[index] if index < len(self.inputs) else None
        if info is None:
            raise self.error(f"input {index} is missing")
        return info

    def dtype(self, index: int) -> DType:
        info = self.info(index)
        if info.dtype is None:
            raise RankUnknown(index)
        return info.dtype

    def shape(self, index: int) -> Shape:
        """Raises RankUnknown where it is: the driver then leaves the outputs open."""
        type_ = self.info(index).type
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise RankUnknown(index)
        return type_.shape

    def rank(self, index: int) -> int:
        return len(self.shape(index))

    def contents(self, index: int) -> tuple[Dim, ...]:
        """Row-major elements of a small integer input. Raises ContentsUnknown."""
        contents = self.known(index)
        if contents is None:
            raise ContentsUnknown(index)
        return contents

    def known(self, index: int) -> tuple[Dim, ...] | None:
        """As `contents`, but None where they are not known."""
        return self.info(index).contents

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
        """An output. Contents that are too many, do not fill the shape or are of no small integer type are dropped."""
        type_ = TensorType(dtype, None if shape is None else tuple(shape))
        if contents is None or type_.shape is None or dtype not in _CONTENT_TYPES:
            return Info(type_)
        kept = tuple(contents)
        return Info(type_, kept if product(type_.shape) == len(kept) <= CONTENTS_LIMIT else None)

    def fresh(self) -> Dim:
        """A new symbol for a dimension that only running the program tells."""
        named = next((value for value in self.node.outputs if value is not None), None)
        return self._inference.fresh(self.node.op_type if named is None else named.name)

    def body(self, graph: Graph, inputs: Sequence[Info]) -> list[Info]:
        """What the outputs of a nested graph are for these inputs. Open where a node of it needs what is not known.

        Raises InvalidGraph where the graph has another number of inputs, or declares them of other types.
        """
        if len(graph.inputs) != len(inputs):
            raise InvalidGraph(f"{self.node}: inputs of its body {graph.name!r}: {len(graph.inputs)}, expected {len(inputs)}")
        for index, (value, kind) in enumerate(zip(graph.inputs, kinds(inputs), strict=True)):
            declared = kind_of(value.type)
            if kind is not None and declared not in (kind, None):
                which = f"input {index} ({value.name!r}) of its body {graph.name!r}"
                raise InvalidGraph(f"{self.node}: {which} is declared {shown(declared)}, but is given {shown(kind)}")
        return self._inference.nested(graph, inputs)

    def dead_body(self, graph: Graph) -> list[Info]:
        """The outputs of a nested graph that never runs, for their types alone: shapes need not fit there. Empty where they do
        not, and for a strict inference, which comes after one that is not.
        """
        if not self._inference.strict:
            with suppress(ShapeInferenceError):
                return self.body(graph, [])
        return []

    def scope(self) -> int:
        """A mark: symbols made from here on are `inner` to it."""
        return self._inference.count

    def is_inner(self, dim: Dim, scope: int) -> bool:
        """Whether a symbol made since `scope` occurs in `dim`: it means nothing outside of the body that it came from."""
        return self._inference.count > scope and self._inference.made_since(dim, scope)

    def error(self, message: str) -> ShapeInferenceError:
        return ShapeInferenceError(f"{self.node}: {message}; inputs are {', '.join(_name(i) for i in self.inputs)}")


def _name(info: Info | None) -> str:
    return "(left out)" if info is None else str(info.type)


class Inference:
    """Runs rules over graphs and keeps what they find. `infos` holds every value seen so far, outer ones included.

    `strict`: a rule that needs contents or ranks that are not known raises ContentsUnknown, NumbersUnknown or RankUnknown
    instead of leaving its outputs open; providers that lower node by node want that. `inferred`: types that values have were
    inferred before, and are believed.
    """

    def __init__(
        self, rules: ShapeRules, infos: Mapping[Value, Info] | None = None, strict: bool = False, inferred: bool = False
    ) -> None:
        self.rules, self.strict, self.inferred = rules, strict, inferred
        self.infos: dict[Value, Info] = dict(infos or {})
        self._made: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Symbols made so far."""
        return len(self._made)

    def fresh(self, hint: str) -> Dim:
        """A new symbol. `hint` is a value's name, so that two inferences over one model do not make the same."""
        name = f"{hint}#{len(self._made) + 1}"
        self._made[name] = len(self._made)
        return symbol(name)

    def made_since(self, dim: Dim, count: int) -> bool:
        """Whether `dim` depends on a symbol made when there were `count` already."""
        return any(self._made.get(found.name, -1) >= count for found in symbols([dim]))

    def run(self, graph: Graph, inputs: Sequence[Info]) -> list[Info]:
        """Infers all nodes of the graph; returns the Infos of its outputs. O(nodes)."""
        for value, info in zip(graph.inputs, inputs, strict=True):
            self.infos[value] = info
        for node in graph:
            self.node(node)
        return [self.of(value) for value in graph.outputs]

    def nested(self, graph: Graph, inputs: Sequence[Info]) -> list[Info]:
        """As `run`, never strict: a body's own provider finds out what is open when it lowers the body."""
        strict, self.strict = self.strict, False
        try:
            return self.run(graph, inputs)
        finally:
            self.strict = strict

    def of(self, value: Value) -> Info:
        """What is known of the value; constants are read on first sight."""
        info = self.infos.get(value)
        if info is None:
            if value.constant is not None:
                info = constant_info(value.constant)
            else:
                info = Info(value.type) if self.inferred else declared_info(value, self.fresh)
            self.infos[value] = info
        return info

    def node(self, node: Node) -> list[Info]:
        """Infers one node and records its outputs. Raises InvalidGraph naming the node where types are not those of its schema, or
        not those that the model declares, ShapeInferenceError where shapes do not fit.
        """
        infos = self.infos
        inputs = [None if value is None else infos.get(value) or self.of(value) for value in node.inputs]
        found = self._found(Op(node, inputs, self))
        results = []
        for index, value in enumerate(node.outputs):
            info = found[index] if index < len(found) else UNKNOWN
            if value is None:
                info = UNKNOWN
            elif info.type is None:
                info = infos[value] = declared_info(value, self.fresh)
            else:
                if value.type is not None and info.constant is None:
                    check_declared(node, value, info.type, index)
                infos[value] = info
            results.append(info)
        self.rules.schemas.check_types(node, kinds(inputs), kinds(results))
        return results

    def _found(self, op: Op) -> list[Info]:
        """What the node's rule finds. Where it fails, types that the schema rules out are the better reason."""
        rule = self.rules.find(op.node)
        try:
            return [] if rule is None else rule.function(op)
        except Exception as error:
            self.rules.schemas.check_types(op.node, kinds(op.inputs))
            if isinstance(error, RankUnknown | ContentsUnknown) and not self.strict:
                assert rule is not None
                return [_open(op, rule, index) for index in range(len(op.node.outputs))]
            if isinstance(error, RankUnknown | ContentsUnknown | OrtLiteError):
                raise
            raise ShapeInferenceError(f"{op.error(str(error))} ({type(error).__name__})") from error


def kinds(infos: Iterable[Info | None]) -> tuple[Kind | None, ...]:
    """What schemas know of types; None where nothing is known."""
    return tuple(
        [None if info is None else info.type.dtype if type(info.type) is TensorType else kind_of(info.type) for info in infos]
    )


def _open(op: Op, rule: ShapeRule, index: int) -> Info:
    """An output of which no more is known than the element type: ranks that a model declares may be wrong."""
    if not rule.types:
        return UNKNOWN
    wanted = rule.types[min(index, len(rule.types) - 1)]
    try:
        dtype = op.dtype(wanted) if isinstance(wanted, int) else wanted(op) if callable(wanted) else wanted
    except (RankUnknown, ShapeInferenceError):
        return UNKNOWN  # nor is the input's, or it is left out
    return Info(TensorType(dtype))


def constant_info(array: Array) -> Info:
    """The Info of an array; small integer arrays have contents."""
    dtype = from_numpy(array.dtype)
    small = array.size <= CONTENTS_LIMIT and dtype in _CONTENT_TYPES
    contents = tuple([int(x) for x in np.ravel(array).tolist()]) if small else None
    return Info(TensorType(dtype, array.shape), contents, array)


def declared_info(value: Value, fresh: Callable[[str], Dim]) -> Info:
    """What a model declares of a value that no rule covers. Dims are not believed, only element type and rank."""
    if isinstance(value.type, TensorType) and value.type.shape is not None:
        return Info(TensorType(value.type.dtype, tuple(fresh(value.name) for _ in value.type.shape)))
    return Info(value.type)


__all__ = [
    "CONTENTS_LIMIT", "UNKNOWN", "ContentsUnknown", "Inference", "Info", "NumbersUnknown", "Op", "OutputType", "RankUnknown",
    "Rule", "RuleFamily", "ShapeRule", "ShapeRules", "broadcast", "constant_info", "declared_info", "merge", "shape_rule",
]  # fmt: skip
