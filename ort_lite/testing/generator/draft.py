"""A model under construction: feeds, constants, nodes, and the types that shape rules infer for each value."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, is_dtype, to_numpy
from ort_lite.errors import InvalidGraph, OrtLiteError
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.types import SequenceType, TensorType, Type
from ort_lite.inference import UNKNOWN, Inference, Info, ShapeRules
from ort_lite.inference.schema import kind_of
from ort_lite.record import Record, field
from ort_lite.testing.generator.arrays import Contents

SMALL = 64
"""The most elements of a feed that shape rules may read."""


class Rejected(Exception):
    """A proposed node that schemas or shape rules reject, or whose shapes are not known."""


class Known(Record, eq=False):
    """A value of the draft. `shape` is None if the value is not a tensor, or its sizes depend on contents."""

    name: str
    type: Type
    shape: tuple[int, ...] | None
    array: Array | None = None
    """Contents that are known: those of a constant, of a small feed, of what shape rules compute. Other shapes follow from them."""

    @property
    def kind(self) -> str:
        """Return the type without its shape, such as "float32" or "seq(float32)"."""
        return str(kind_of(self.type))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the shape. Raises Rejected if it is not known."""
        if self.shape is None:
            raise Rejected(f"the shape of {self.name} is not known")
        return self.shape

    @property
    def rank(self) -> int:
        """Return the number of axes. Raises Rejected if the shape is not known."""
        return len(self.sizes)


class NodeDraft(Record, eq=False):
    """A node. Inputs and outputs are names, "" for omitted ones; a body among the attributes is a Draft."""

    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Draft:
    """A graph under construction. A body has an `outer` draft, whose values it may read, and formal `inputs` instead of feeds.

    Names are unique within a draft and its bodies.
    """

    def __init__(self, opsets: Mapping[str, int], rng: Random, rules: ShapeRules, outer: "Draft | None" = None) -> None:
        self.opsets, self.rng, self.rules, self.outer = dict(opsets), rng, rules, outer
        self.values: dict[str, Known] = {}
        self.feeds: dict[str, Any] = {}
        self.constants: dict[str, Array] = {}
        self.inputs: list[str] = []
        self.nodes: list[NodeDraft] = []
        self.outputs: list[str] = []
        self.special: bool = outer is not None and outer.special
        """Fresh operands may hold NaN, infinities and the like."""
        self.contents: Contents | None = None
        """The contents of all fresh operands of floats, instead of those that recipes draw."""
        self.plain: bool = False
        """Operands are feeds and initializers alone: no earlier values, and no nodes that make them fit."""
        self.constant_share: float = 0.35
        """How many of the fresh operands are constants, if it is left open. A model feeds at least one."""
        self.constants_only: bool = False
        """All fresh operands but the first one are constants, whatever recipes say."""
        self._names: list[int] = [0] if outer is None else outer._names

    @property
    def depth(self) -> int:
        """Return how deeply the draft is nested: 0 for a model, 1 for its bodies."""
        return 0 if self.outer is None else 1 + self.outer.depth

    @property
    def outermost(self) -> "Draft":
        """Return the draft of the model."""
        return self if self.outer is None else self.outer.outermost

    # --- values
    def name(self, prefix: str) -> str:
        """Return a name that no other value has."""
        self._names[0] += 1
        return f"{prefix}{self._names[0]}"

    def feed(self, contents: Any, type_: Type | None = None) -> Known:
        """Add a graph input that is fed with `contents`. The type must be given unless the contents are an array."""
        small = type_ is None and contents.size <= SMALL
        known = self._add("x", _type_of_array(contents) if type_ is None else type_, contents if small else None)
        self.inputs.append(known.name)
        self.feeds[known.name] = contents
        return known

    def formal(self, type_: Type) -> Known:
        """Add an input of a body. A tensor type must have a concrete shape."""
        known = self._add("b", type_)
        self.inputs.append(known.name)
        return known

    def constant(self, array: Array) -> Known:
        """Add an initializer."""
        known = self._add("c", _type_of_array(array), array)
        self.constants[known.name] = array
        return known

    def _add(self, prefix: str, type_: Type, array: Array | None = None) -> Known:
        known = Known(self.name(prefix), type_, sizes_of(type_), array)
        self.values[known.name] = known
        return known

    def lookup(self, name: str) -> Known:
        """Return a value by name, including those of outer drafts. Raises KeyError if there is none."""
        draft: Draft | None = self
        while draft is not None:
            if name in draft.values:
                return draft.values[name]
            draft = draft.outer
        raise KeyError(name)

    # --- nodes
    def append(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        outputs: int | Sequence[bool] = 1,
        domain: str = "",
        types: Sequence[Type | None] | None = None,
    ) -> list[Known]:
        """Append a node and return its outputs. Their types come from the shape rules, and from `types` if a recipe knows more.

        `outputs` is their number, or says for each whether the node names it. Raises Rejected, also if the two sources of types
        disagree.
        """
        named = (True,) * outputs if isinstance(outputs, int) else tuple(outputs)
        names = tuple(self.name("v") if one else "" for one in named)
        node = NodeDraft(op_type, domain, tuple(inputs), names, {k: v for k, v in (attributes or {}).items() if v is not None})
        infos = [Info(type_) for type_ in types] if types is not None and self._has_bodies(node) else self._infer(node)
        found = _merge([info.type for info in infos], types)
        results = []
        for name, type_, info in zip(names, found, infos, strict=True):
            if name:
                if type_ is None:
                    raise Rejected(f"{op_type}: the type of an output is not known")
                results.append(Known(name, type_, sizes_of(type_), _contents(info)))
        self.values.update((known.name, known) for known in results)
        self.nodes.append(node)
        return results

    def _infer(self, node: NodeDraft) -> list[Info]:
        operands = [self._value(name) if name else None for name in node.inputs]
        outputs = [Value(name) if name else None for name in node.outputs]
        attributes = [_attribute(name, value) for name, value in node.attributes.items()]
        version = self.opsets.get(node.domain, 1)
        try:
            question = Node(node.op_type, operands, outputs, attributes, domain=node.domain, version=version, name="node")
            graph = Graph("question")
            graph.append(question)
            self.rules.schemas.check_form(question)
            found = Inference(self.rules, inferred=True, checks_all=True).node(question)
        except OrtLiteError as error:
            raise Rejected(str(error)) from error
        return [*found, *[UNKNOWN] * (len(outputs) - len(found))]

    def _has_bodies(self, node: NodeDraft) -> bool:
        version = self.opsets.get(node.domain, 1)
        schema = self.rules.schemas.find(Node(node.op_type, [], [], domain=node.domain, version=version))
        return schema is not None and any(schema.attributes.get(name) == "GRAPH" for name in node.attributes)

    def _value(self, name: str) -> Value:
        known = self.lookup(name)
        return Value(name, known.type, known.array)

    # --- taking back
    def mark(self) -> tuple[int, int]:
        """Return a mark for `reset`."""
        return len(self.nodes), len(self.values)

    def reset(self, mark: tuple[int, int]) -> None:
        """Drop the nodes and values that were added after the mark."""
        del self.nodes[mark[0] :]
        for name in list(self.values)[mark[1] :]:
            del self.values[name]
            self.constants.pop(name, None)
            if name in self.inputs:
                self.inputs.remove(name)
                self.feeds.pop(name, None)

    # --- results
    def leaves(self) -> list[str]:
        """Return the results that no node reads, in order."""
        read = {name for node in self.nodes for name in (*node.inputs, *captures(node))}
        return [name for node in self.nodes for name in node.outputs if name and name not in read]


def bodies(node: NodeDraft) -> list[Draft]:
    """Return the bodies among the attributes of a node."""
    return [value for value in node.attributes.values() if isinstance(value, Draft)]


def captures(node: NodeDraft) -> Iterable[str]:
    """Return the names that bodies of a node read from outside."""
    for body in bodies(node):
        for inner in body.nodes:
            for name in (*inner.inputs, *captures(inner)):
                if name and name not in body.values:
                    yield name
        yield from (name for name in body.outputs if name not in body.values)


def _type_of_array(array: Array) -> Type:
    return TensorType(from_numpy(array.dtype), array.shape)


def _merge(found: list[Type | None], types: Sequence[Type | None] | None) -> list[Type | None]:
    """Replace the inferred types by those that a recipe knows. Raises Rejected if they disagree."""
    if types is None:
        return found
    for first, second in zip(found, types, strict=True):
        sizes = None if first is None or second is None else (sizes_of(first), sizes_of(second))
        if sizes is not None and (kind_of(first) != kind_of(second) or (None not in sizes and sizes[0] != sizes[1])):
            raise Rejected(f"the recipe foretells {second}, the shape rules {first}")
    return [first if second is None else second for first, second in zip(found, types, strict=True)]


def _contents(info: Info) -> Array | None:
    if info.constant is not None:
        return info.constant
    shape = None if info.type is None else sizes_of(info.type)
    if info.contents is None or info.dtype is None or shape is None or not all(isinstance(n, int) for n in info.contents):
        return None
    return np.array(info.contents, to_numpy(info.dtype)).reshape(shape)


def sizes_of(type_: Type) -> tuple[int, ...] | None:
    """Return the shape of a tensor type, or None if a size is not known."""
    if not isinstance(type_, TensorType) or type_.shape is None or not all(isinstance(dim, int) for dim in type_.shape):
        return None
    return tuple(int(dim) for dim in type_.shape if isinstance(dim, int))


def _attribute(name: str, value: Any) -> Attr:
    if isinstance(value, Draft):
        raise InvalidGraph(f"a recipe with a body must say what types its node gives ({name})")
    if isinstance(value, Attr) and value.type == "SPARSE_TENSOR":
        return Attr("value", "TENSOR", value.value)  # as a model that is loaded has it
    if isinstance(value, list) and not value:
        return Attr(name, "INTS", [])
    return Attr.of(name, value)


def element_of(kind: str) -> str:
    """Return the kind inside a sequence or optional, or the kinds inside a map: "float32", "string,int64"."""
    return kind.partition("(")[2][:-1]


def type_of(kind: str, shape: Sequence[int] | None = None) -> Type:
    """Return the type that a kind names, such as "float32", "seq(float32)" or "optional(seq(int64))"."""
    from ort_lite.graph.types import MapType, OptionalType, SparseTensorType

    if is_dtype(kind):
        return TensorType(kind, None if shape is None else tuple(shape))
    head, _, inside = kind.partition("(")
    if head == "map":
        key, _, value = inside[:-1].partition(",")
        return MapType(key, type_of(value))
    if head == "sparse_tensor":
        return SparseTensorType(inside[:-1])
    return (SequenceType if head == "seq" else OptionalType)(type_of(inside[:-1]))
