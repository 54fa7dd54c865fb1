"""The driver of shape inference: it runs rules over graphs and keeps what they find."""

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

from ort_lite.errors import Fail, InvalidGraph, OrtLiteError, ShapeInferenceError
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.inference.schema import check_declaration
from ort_lite.inference.shape_agreement import check_operands
from ort_lite.inference.shape_rules import (
    UNKNOWN,
    ContentsUnknown,
    Info,
    Op,
    RankUnknown,
    Seen,
    ShapeRule,
    ShapeRules,
    constant_info,
    kinds,
)
from ort_lite.native.checkpoint import checkpoint
from ort_lite.shapes.dims import symbol, symbols
from ort_lite.shapes.expr import Dim

_INFO = {Info}
_MOST_BODIES = 2**17  # each loop that changes its state late infers its body twice, so does each around it


class Inference:
    """Runs rules over graphs and keeps what they find. `infos` holds every value seen so far, outer ones included.

    `strict`: a rule that needs contents or ranks that are not known raises ContentsUnknown, NumbersUnknown or RankUnknown
    instead of leaving its outputs open; providers that lower node by node want that. `inferred`: types that values have were
    inferred before, and are believed. `checks_all`: rules refuse all that they know to make no sense, not only what they need.
    `certain`: the nodes run whenever the model does. Where they may not, shapes that do not fit are no error: outputs stay open.
    `like_onnx`: rules find no more than ONNX's own inference does, as `Op.like_onnx` says.
    """

    def __init__(
        self,
        rules: ShapeRules,
        infos: Mapping[Value, Info] | None = None,
        strict: bool = False,
        inferred: bool = False,
        checks_all: bool = False,
        certain: bool = True,
        like_onnx: bool = False,
    ) -> None:
        self.rules, self.strict, self.inferred, self.checks_all, self.certain = rules, strict, inferred, checks_all, certain
        self.like_onnx = like_onnx
        self.infos: dict[Value, Info] = dict(infos or {})
        self._made: dict[str, int] = {}
        self._bodies = 0

    @property
    def count(self) -> int:
        """Symbols made so far."""
        return len(self._made)

    def fresh(self, hint: str) -> Dim:
        """A new symbol. `hint` is a value's name, so that two inferences over one model do not make the same."""
        name = f"{hint}#{len(self._made) + 1}"
        self._made[name] = len(self._made)
        return symbol(name)

    def is_newer(self, dim: Dim, count: int) -> bool:
        """Return True if `dim` depends on a symbol created after the first `count`."""
        return any(self._made.get(found.name, -1) >= count for found in symbols([dim]))

    def run(self, graph: Graph, inputs: Sequence[Info], seen: Seen | None = None) -> list[Info]:
        """Infers all nodes of the graph; returns the Infos of its outputs. O(nodes). Every 16th is a checkpoint.

        `seen` receives what nodes were given; one that is in there, and is given the same, is not inferred again.
        """
        for value, info in zip(graph.inputs, inputs, strict=True):
            self.infos[value] = info
        for number, node in enumerate(graph):
            if not number & 15:
                checkpoint()
            if seen is None:
                self.node(node)
            else:
                self._node_once(node, seen)
        return [self.of(value) for value in graph.outputs]

    def _node_once(self, node: Node, seen: Seen) -> None:
        """Infer a node unless the result would be the same. A node with bodies reads more than its inputs say."""
        given = [None if value is None else self.of(value) for value in node.inputs]
        before = seen.get(node)
        if before is not None and all(map(is_, given, before)):
            return
        made = self.count
        self.node(node)
        if self.count == made and not node.subgraphs():  # or a further pass would miss the symbols that it makes anew
            seen[node] = given

    def infer_body(self, graph: Graph, inputs: Sequence[Info], seen: Seen | None = None, certain: bool = True) -> list[Info]:
        """Infer a body, never strictly: its provider finds out what is open when it lowers the body.

        `certain`: the body runs whenever the node around it does.
        """
        self._bodies += 1
        if self._bodies > _MOST_BODIES:
            raise InvalidGraph(
                f"graph {graph.name!r}: bodies within bodies were inferred {_MOST_BODIES} times; nest fewer loops"
            )
        outer = self.strict, self.certain
        self.strict, self.certain = False, self.certain and certain
        try:
            return self.run(graph, inputs, seen)
        finally:
            self.strict, self.certain = outer

    def of(self, value: Value) -> Info:
        """Return what is known of the value; constants are read on first use."""
        info = self.infos.get(value)
        if info is None:
            if value.constant is not None:
                info = constant_info(value.constant)
            else:
                info = Info(value.type) if self.inferred else info_from_declaration(value, self.fresh)
            self.infos[value] = info
        return info

    def node(self, node: Node) -> list[Info]:
        """Infers one node and records its outputs. Raises InvalidGraph naming the node where types are not those of its schema, or
        not those that the model declares, ShapeInferenceError where shapes do not fit and the node is certain to run.
        """
        infos = self.infos
        inputs = [None if value is None else infos.get(value) or self.of(value) for value in node.inputs]
        found = self._apply_rule(Op(node, inputs, self))
        results = []
        for index, value in enumerate(node.outputs):
            info = found[index] if index < len(found) else UNKNOWN
            if value is None:
                info = UNKNOWN
            elif info.type is None:
                info = infos[value] = info_from_declaration(value, self.fresh)
            else:
                if value.type is not None and info.constant is None:
                    check_declaration(node, value, info.type, index)
                infos[value] = info
            results.append(info)
        self.rules.schemas.check_types(node, kinds(inputs), kinds(results))
        return results

    def inner_node(self, node: Node) -> list[Info]:
        """Infer a node of a body, which may never run."""
        outer, self.certain = self.certain, False
        try:
            return self.node(node)
        finally:
            self.certain = outer

    def _apply_rule(self, op: Op) -> list[Info]:
        """Apply the node's rule. If it fails, types that the schema rules out are the better reason."""
        rule = self.rules.find(op.node)
        try:
            if self.checks_all:
                check_operands(op.node, self.rules.schemas.templates(op.node), op.inputs, op.error)
            if rule is None:
                return []
            found: Any = rule.function(op)
        except Exception as error:
            self.rules.schemas.check_types(op.node, kinds(op.inputs))
            unknown = isinstance(error, RankUnknown | ContentsUnknown)
            misfit = isinstance(error, ShapeInferenceError) or not isinstance(error, OrtLiteError)
            if not self.strict if unknown else misfit and not self.certain:
                return [_open(op, rule, index) for index in range(len(op.node.outputs))]
            if unknown or rule is None or isinstance(error, OrtLiteError):
                raise
            kind = "" if type(error) is ValueError else f" ({type(error).__name__})"  # broadcasting says what is wrong
            misfit_error = ShapeInferenceError(f"{op.error(str(error))}{kind}").about(op.node)
            misfit_error.add_note(f"in the shape rule {_name_of(rule)}")
            raise misfit_error from error
        if not isinstance(found, (list, tuple)) or not {*map(type, found)} <= _INFO:
            raise Fail(f"{op.node}: the shape rule {_name_of(rule)} returned {found!r}; expected a list of Info").about(op.node)
        return found if isinstance(found, list) else list(found)


def _name_of(rule: ShapeRule) -> str:
    """Return the full name of a rule's function, which tells whether it is a plugin's."""
    return f"{getattr(rule.function, '__module__', '?')}.{getattr(rule.function, '__qualname__', repr(rule.function))}"


def _open(op: Op, rule: ShapeRule | None, index: int) -> Info:
    """An output of which no more is known than the element type: ranks that a model declares may be wrong."""
    if rule is None or not rule.types:
        return UNKNOWN
    wanted = rule.types[min(index, len(rule.types) - 1)]
    try:
        dtype = op.dtype(wanted) if isinstance(wanted, int) else wanted(op) if callable(wanted) else wanted
    except (RankUnknown, ShapeInferenceError):
        return UNKNOWN  # nor is the input's, or it is left out
    return Info(TensorType(dtype))


def info_from_declaration(value: Value, fresh: Callable[[str], Dim]) -> Info:
    """Return what a model declares of a value that no rule covers: element type and rank; its dimensions are not trusted."""
    if isinstance(value.type, TensorType) and value.type.shape is not None:
        return Info(value.type.replace(shape=tuple(fresh(value.name) for _ in value.type.shape)))
    return Info(value.type)


declared_info = info_from_declaration
"""The name in earlier releases."""
