"""The Rewriter: how transforms change a graph, so that types, names and dead code stay in order."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph.graph import Attr, Graph, Node, Value, clone_node
from ort_lite.graph.model import Names
from ort_lite.graph.types import TensorType, Type
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import CONTENTS_LIMIT, Info, constant_info
from ort_lite.record import Record
from ort_lite.shapes.dims import differ
from ort_lite.transform.budget import Budget, OverBudget, bytes_in_memory
from ort_lite.transform.patterns import Match

FOLD_LIMIT = 16 << 20
"""Bytes that the result of a folded node may have, unless it is no larger than what it is computed from."""
_LARGE = 4096
"""Bytes from which on a new constant counts towards the budget."""


class Done:
    """The graph was changed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Done)

    def __hash__(self) -> int:
        return hash(Done)


class Skip(Record):
    """The pattern was there, the rewrite was not possible."""

    reason: str


class Rewriter:
    """Changes a graph on behalf of transforms, and keeps types, names and dead code in order while it does.

    New nodes are inserted before the root of the match (for a pass: before `anchor`), with inferred types; nodes that a
    replacement leaves without readers are removed at once.
    """

    def __init__(
        self,
        graph: Graph,
        inference: Inference,
        opset_imports: dict[str, int],
        fold_limit: int = FOLD_LIMIT,
        names: Names | None = None,
    ) -> None:
        self.graph, self.inference, self.opset_imports, self.fold_limit = graph, inference, opset_imports, fold_limit
        self.names = Names(graph) if names is None else names
        self.match: tuple[Node, ...] = ()
        self.anchor: Node | None = None
        self.touched: dict[Node, None] = {}
        """Nodes to look at again; the driver takes them out."""
        self.stale: set[Node] = set()
        """Touched nodes whose inputs are now known better."""
        self.skips: dict[tuple[str, str], None] = {}
        self.added: list[Node] = []
        self.removed: list[str] = []
        self._titles: dict[Node, str] = {}
        """The titles of added nodes that got no name from their rule (see `_title`)."""
        self._successors: list[Node] = []
        """The nodes that compute what replaced nodes did."""
        self._fed = {value for value in graph.inputs if value.constant is not None}
        self._new_constants: list[tuple[Graph, Value]] = []
        self._budget: Budget | None = None

    @property
    def budget(self) -> Budget:
        """The remaining bytes for constants that transforms compute. It depends on the weights that the nodes read at first."""
        if self._budget is None:
            values = (value for node in self.graph.all_nodes() for value in node.inputs if value is not None)
            weights = {id(value.constant): value.constant for value in values if value.constant is not None}
            self._budget = Budget(sum(map(bytes_in_memory, weights.values())))
        return self._budget

    # What is known

    def array(self, value: Value | None) -> Array | None:
        """The value's array if it is constant and no feed can override it. Not to be written to; may be a broadcast view."""
        return None if value is None or value.constant is None or value in self._fed else value.constant

    def number(self, value: Value | None) -> Any:
        """The only element of a constant, as a Python number or string; None for everything else."""
        array = self.array(value)
        return array.item() if array is not None and array.size == 1 else None

    def info(self, value: Value) -> Info:
        """Type, contents and constant, as inferred."""
        return self.inference.of(value)

    def is_private(self, node: Node) -> bool:
        """Return True if only the match reads the node's results: no other node, no nested graph, no graph output."""
        return self._foreign_reader(node) is None

    def _foreign_reader(self, node: Node) -> Value | None:
        for value in node.outputs:
            if value is not None and (value.is_graph_output() or any(n not in self.match for n, _ in value.uses)):
                return value
        return None

    # What can be made

    def op(self, op_type: str, *inputs: Value | None, **options: Any) -> Value:
        """Inserts a node and returns its first output. Options: those of `node`, and attributes."""
        return self.node(op_type, inputs, **options).output

    def node(
        self,
        op_type: str,
        inputs: Iterable[Value | None],
        *,
        outputs: int = 1,
        domain: str = "",
        version: int | None = None,
        name: str = "",
        like: Node | None = None,
        **attributes: Any,
    ) -> Node:
        """Inserts a node before the anchor; attributes that are None are left out, those of `like` are taken over.

        `version` defaults to that of `like`, or to the model's opset, so that a saved model says what is meant.
        """
        anchor = self.anchor
        if anchor is None or anchor.graph is None:
            raise ValueError(f"{op_type}: there is no node to insert it before; set rewriter.anchor")
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        if version is None and like is not None and like.domain == domain:
            version = like.version
        version = version or self.opset_imports.get(domain, 1)
        self.opset_imports.setdefault(domain, version)
        copied = {} if like is None else dict(like.attributes)
        copied |= {key: Attr.of(key, value) for key, value in attributes.items() if value is not None}
        base = anchor.outputs[0].name if anchor.outputs and anchor.outputs[0] is not None else op_type
        results = [Value(self.names(base)) for _ in range(outputs)]
        made = Node(op_type, given, results, copied.values(), domain=domain, version=version, name=name and self.names(name))
        if not name:
            title = self._titles[made] = self._title(op_type)
            made.name = self.names(f"{title}/{op_type}" if self.names.has(title) else title)
        return self.insert(made, anchor)

    def insert(self, node: Node, anchor: Node) -> Node:
        """Puts a node that was made elsewhere before `anchor` and infers what it computes."""
        assert anchor.graph is not None
        for value in node.inputs:
            self._check_in_graph(value, f"{node.op_type} would read")
        anchor.graph.insert_before(anchor, node)
        self.infer(node)
        self.added.append(node)
        self.touched[node] = None
        return node

    def insert_copy(self, node: Node, anchor: Node, mapping: dict[Value, Value]) -> Node:
        """Puts a copy before `anchor`, with names of its own; inputs go through `mapping`, which receives the outputs."""
        copy = clone_node(node, mapping)
        for value in copy.outputs:
            if value is not None:
                value.name = self.names(value.name)
        copy.name = self.names(copy.name)
        return self.insert(copy, anchor)

    def _check_in_graph(self, value: Value | None, what: str) -> None:
        """Raises ValueError for a value that nothing in a graph computes: transforms that keep such values are named then."""
        if value is None or value.constant is not None:
            return
        maker = value.producer
        if maker.graph is None if maker is not None else not self._is_input(value):
            raise ValueError(f"{what} {value.name!r}, which no node of the graph computes")

    def _is_input(self, value: Value) -> bool:
        """Return True for an input of this graph or of one around or inside it: nodes that are there read it, or it is listed."""
        return any(reader.graph is not None for reader, _ in value.uses) or value in self.graph.inputs

    def _title(self, op_type: str) -> str:
        """Return what a new node stands for: "conv1+relu1", or the operator with the root's name where many are fused.

        The node that replaces the root has this name in the end, and others have theirs behind it: "conv1+relu1/Transpose".
        """
        names = [node.name for node in reversed(self.match) if node.name]
        return "+".join(names) if 0 < len(names) <= 3 else "_".join([op_type, *names[-1:]])

    def constant(self, array: Array, name: str = "") -> Value:
        """Adds an initialiser to the anchor's graph. Raises OverBudget, which makes a rule Skip, for one that is too large."""
        graph = self.graph if self.anchor is None or self.anchor.graph is None else self.anchor.graph
        value = Value(self.names(name or "constant"), constant=array)
        if array.nbytes >= _LARGE:
            self.budget.spend(array.nbytes)
        graph.add_initializer(value)
        self._new_constants.append((graph, value))
        return value

    def replace(self, node: Node, *values: Value) -> Done | Skip:
        """Readers of the node's outputs take `values` instead; the node goes, and with it what only it read.

        Outputs beyond the last value must be unused. Nothing happens, and Skip says why, where they are not, where a graph
        output would lose its name, or where a value would change its type.
        """
        pairs: list[tuple[Value, Value]] = []
        for index, old in enumerate(node.outputs):
            if old is None or (index >= len(values) and not old.uses and not old.is_graph_output()):
                continue
            if index >= len(values):
                return Skip(f"{old.name}, output {index} of {node}, is used")
            self._check_in_graph(values[index], f"in the place of {old.name!r} would stand")
            if reads_one_of(values[index].producer, node):
                raise ValueError(f"{values[index].name!r} would be computed from itself: what computes it reads {old.name!r}")
            if reason := _why_not(old, values[index], node):
                return Skip(reason)
            if old.is_graph_output() and any(values[index] is new and out.is_graph_output() for out, new in pairs):
                return Skip(f"{values[index].name} cannot be two graph outputs")
            pairs.append((old, values[index]))
        for old, new in pairs:
            self._substitute(old, new)
        if pairs and (maker := pairs[0][1].producer) in self._titles:
            self._successors.append(maker)
        self.discard(node)
        return Done()

    def fold(self, node: Node, *arrays: Array) -> Done | Skip:
        """The node's outputs become initialisers, the same Values, and the node goes. Nothing happens, and Skip says why, where an
        output without an array is used, one is a graph output, or its type would change.
        """
        graph = node.graph
        assert graph is not None
        for index, old in enumerate(node.outputs):
            if old is not None and (reason := _why_not_foldable(old, index, node, arrays)):
                return Skip(reason)
        for index, (value, array) in enumerate(zip(node.outputs, arrays, strict=False)):
            if value is not None:
                node.replace_output(index, Value(value.name))
                self._fix(value, array)
                graph.add_initializer(value)
        self.discard(node)
        return Done()

    def _fix(self, value: Value, array: Array) -> None:
        """A value that no node computes any more is the array from now on."""
        before, after = self.info(value), constant_info(array)
        value.type, value.constant, self.inference.infos[value] = after.type, array, after
        readers = value.readers
        self.touched.update(dict.fromkeys(readers))
        if not same_info(before, after):
            self.stale.update(readers)

    def _substitute(self, old: Value, new: Value) -> None:
        before, after = self.info(old), self.info(new)
        if after.type is None:
            self.inference.infos[new] = after = Info(before.type, before.contents)
            new.type = before.type
        readers = old.readers
        self.touched.update((reader, None) for reader in readers)
        if not same_info(before, after):
            self.stale.update(readers)
        old.replace_all_uses_with(new)

    def discard(self, *nodes: Node) -> int:
        """Removes those of the nodes that nobody reads, and then what they alone read. Returns how many. O(removed)."""
        pending, count = list(nodes), 0
        while pending:
            node = pending.pop()
            if node.graph is None or any(v is not None and (v.uses or v.is_graph_output()) for v in node.outputs):
                continue
            inputs = dict.fromkeys(v for v in node.inputs if v is not None)
            for body in node.subgraphs():
                inputs.update(dict.fromkeys(body.captures()))
                for inner in body.all_nodes():
                    self._forget(inner)
            node.graph.remove(node)
            self._forget(node)
            count += 1
            for value in inputs:
                if value.producer is not None:
                    pending.append(value.producer)
                    self.touched[value.producer] = None
                    if len(value.uses) == 1:  # what kept it from a match may be gone
                        self.touched[next(iter(value.uses))[0]] = None
        return count

    def _forget(self, node: Node) -> None:
        self.removed.append(node.name or str(node))
        self.touched.pop(node, None)
        self.stale.discard(node)

    def infer(self, node: Node) -> bool:
        """Infers a node anew and writes the types down. Returns whether an output is known better or otherwise than before."""
        before = [None if value is None else self.inference.infos.get(value) for value in node.outputs]
        if node.graph is self.graph:
            self.inference.node(node)
        else:
            self.inference.inner_node(node)
        changed = False
        for value, old in zip(node.outputs, before, strict=True):
            if value is not None:
                new = self.inference.of(value)
                if new.type is not None:
                    value.type = new.type
                changed |= old is None or not same_info(old, new)
        return changed

    def refresh(self, node: Node) -> None:
        """Infers a stale node anew; where that tells more, its readers become stale."""
        self.stale.discard(node)
        if self.infer(node):
            for value in node.outputs:
                for reader in value.readers if value is not None else ():
                    self.stale.add(reader)
                    self.touched[reader] = None

    def skip(self, node: Node | Value, reason: str) -> None:
        """Note why a pass left something as it is."""
        self.skips[node.name or str(node), reason] = None

    # What the driver does around a rule

    def apply(self, function: Callable[..., Done | Skip], match: Match, private: bool = False) -> Done | Skip:
        """Runs a rule's function on a match; after Skip the graph is as it was, and nothing is looked at again for it.

        Raises RuntimeError for a function that changed what was there and then returns Skip.
        """
        self.begin(match.nodes)
        known, imports = len(self.touched), dict(self.opset_imports)
        for node in match.nodes[1:] if private else ():
            value = self._foreign_reader(node)
            if value is not None:
                return Skip(f"{value.name} has other readers")
        try:
            result = function(self, **match.captured)
        except OverBudget as error:
            result = Skip(str(error))
        if isinstance(result, Skip):
            self._take_back()
            while len(self.touched) > known:  # nothing was removed, or it would not be taken back
                self.touched.popitem()
            self.opset_imports.clear()
            self.opset_imports.update(imports)
        else:
            self._name_successors()
        return result

    def _name_successors(self) -> None:
        """Give the nodes that replace others the names that say so, by which profiles find the nodes of a model."""
        for node in self._successors:
            title = self._titles.get(node, node.name)
            for helper in self.added:
                if helper is not node and helper.name == title:
                    helper.name = self.names(f"{title}/{helper.op_type}")
                    node.name = title
            if title in self.removed and node.graph is not None:
                node.name = title

    def _take_back(self) -> None:
        if self.removed or any(
            reader not in self.added for node in self.added for v in node.outputs if v for reader, _ in v.uses
        ):
            raise RuntimeError("it changed the graph and then returned Skip")
        for node in reversed(self.added):
            assert node.graph is not None
            node.graph.remove(node)
            self.stale.discard(node)
            self.names.free(node.name)
        for graph, value in self._new_constants:
            if not value.uses:
                graph.initializers.pop(value.name, None)

    def begin(self, match: tuple[Node, ...] = ()) -> None:
        """Starts a new entry of what was added and removed."""
        self.match, self.anchor = match, match[0] if match else None
        self.added.clear()
        self.removed.clear()
        self._titles.clear()
        self._successors.clear()
        self._new_constants.clear()


def reads_one_of(reader: Node | None, node: Node) -> bool:
    """Return True if `reader` reads an output of another node."""
    return reader is not None and reader is not node and any(v is not None and v.producer is node for v in reader.inputs)


def _why_not(old: Value, new: Value, node: Node) -> str:
    """Why `new` cannot stand for the node's output `old`; empty when it can."""
    if old.is_graph_output() and (new.producer is None or new.producer.graph is not node.graph):
        return f"{old.name} is a graph output, and {new.name} comes from no node of that graph"
    if not old.can_be_replaced_by(new):
        return f"{old.name} and {new.name} are both graph outputs"
    if clash(old.type, new.type):
        return f"{old.name} would change its type from {old.type} to {new.type}"
    return ""


def _why_not_foldable(old: Value, index: int, node: Node, arrays: Sequence[Array]) -> str:
    """Why an output cannot become an initialiser; empty when it can."""
    if index >= len(arrays):
        return f"{old.name}, output {index} of {node}, is used" if old.uses or old.is_graph_output() else ""
    if old.is_graph_output():
        return f"{old.name} is a graph output, and a constant comes from no node of that graph"
    array = arrays[index]
    found = TensorType(from_numpy(array.dtype), array.shape)
    return f"{old.name} would change its type from {old.type} to {found}" if clash(old.type, found) else ""


def same_info(a: Info, b: Info) -> bool:
    """Return True if rules cannot tell the two apart; no rule reads large constants."""
    if a is b:
        return True
    if a.type != b.type or a.contents != b.contents:
        return False
    return a.contents is not None or all(x is None or x.size > CONTENTS_LIMIT for x in (a.constant, b.constant))


def clash(a: Type | None, b: Type | None) -> bool:
    """Return True if two types cannot be those of one value, as far as they are known."""
    if a is None or b is None:
        return False
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return type(a) is not type(b)
    if a.dtype != b.dtype:
        return True
    if a.shape is None or b.shape is None:
        return False
    return len(a.shape) != len(b.shape) or any(differ(x, y) for x, y in zip(a.shape, b.shape, strict=True))
