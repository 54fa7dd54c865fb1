"""Casts around nodes that nobody runs in their element type."""

from collections.abc import Collection, Mapping

import numpy as np

from ort_lite.dtypes import FLOATS, Array, DType, to_numpy, to_onnx
from ort_lite.graph import Graph, Names, Node, TensorType, Value
from ort_lite.memory.recipes import derive
from ort_lite_transforms.halves import widen
from ort_lite_transforms.schemas import traits


def insert_casts(graph: Graph, wants: Mapping[Node, DType], rounded: Collection[DType] = ()) -> list[Node]:
    """Makes each node compute in the floating-point type it is mapped to, by Casts before and behind it; returns the Casts.

    A value that several of the nodes read is cast once; constants are converted now. Results are rounded to their own type where
    others read them; those of the types `rounded` also where they go from one of the nodes to the next. A Cast of the model between
    such a node and that floating-point type is passed by, as in onnxruntime. Nodes of nested graphs may be among them, and what
    they read of the graph around them is rounded. O(graph).
    """
    casts = _Casts(graph, rounded)
    for node in list(graph.all_nodes()):
        if node in wants:
            casts.surround(node, wants[node])
    casts.pass_by()
    return casts.drop_unread()


class _Casts:
    def __init__(self, graph: Graph, rounded: Collection[DType]) -> None:
        self.made: list[Node] = []
        self._backs: set[Node] = set()
        """The Casts behind nodes, which round their results."""
        self._passed: list[Node] = []
        """Casts of the model that a node passes by."""
        self._rounded = rounded
        self._names = Names(graph)
        self._fed = frozenset(graph.inputs)
        self._known: dict[tuple[Value, DType, Graph], Value] = {}

    def surround(self, node: Node, dtype: DType) -> None:
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype in FLOATS and value.dtype != dtype:
                node.replace_input(index, self._before_cast(value, dtype) or self._cast(value, dtype, node))
        typed = traits(node).typed
        if typed is None or (typed and typed not in node.attributes):
            for index, value in enumerate(node.outputs):
                if value is not None and value.dtype in FLOATS and value.dtype != dtype:
                    self._cast_back(node, index, value, dtype)

    def pass_by(self) -> None:
        """Let what reads a Cast of the model to the type of the computation read the result before it was rounded."""
        for (value, dtype, graph), wide in self._known.items():
            if value.dtype in self._rounded or value.constant is not None or value.producer not in self._backs:
                continue
            for cast in value.readers:
                if not (_is_cast(cast) and cast.graph is graph and cast.output.dtype == dtype):
                    continue
                if cast.output.is_graph_output():  # stays under its name, and changes nothing
                    cast.replace_input(0, wide)
                else:
                    cast.output.replace_all_uses_with(wide)
                    self._passed.append(cast)

    def _before_cast(self, value: Value, dtype: DType) -> Value | None:
        """Return what a Cast of the model made `value` of, if it is of the type `dtype`; else None."""
        cast = value.producer
        if cast is None or not _is_cast(cast) or cast in self._backs or value.dtype in self._rounded:
            return None
        source = cast.inputs[0]
        if source is None or source.dtype != dtype:
            return None
        self._passed.append(cast)
        return source

    def drop_unread(self) -> list[Node]:
        """The Casts that somebody reads; the others go, those of the model that are passed by included."""
        for cast in (*self.made, *dict.fromkeys(self._passed)):
            if cast.graph is not None and not cast.output.uses and not cast.output.is_graph_output():
                cast.graph.remove(cast)
        return [cast for cast in self.made if cast.graph is not None]

    def _cast(self, value: Value, dtype: DType, node: Node) -> Value:
        """The value in another type, for `node` and those after it in its graph."""
        graph = node.graph
        assert graph is not None
        key = (value, dtype, graph)
        if key not in self._known:
            new = Value(self._names(f"{value.name}_{dtype}"), _with(value, dtype))
            if value.constant is not None and value not in self._fed:
                new.constant = derive(_convert, value.constant, dtype)
                graph.add_initializer(new)
            else:
                graph.insert_before(node, self._node(value, new, dtype, node))
            self._known[key] = new
        return self._known[key]

    def _cast_back(self, node: Node, index: int, value: Value, dtype: DType) -> None:
        """The node computes a new value; `value`, its name and its readers stay, behind a Cast."""
        graph = node.graph
        assert graph is not None and value.dtype is not None
        new = Value(self._names(f"{value.name}_{dtype}"), _with(value, dtype))
        node.replace_output(index, new)
        self._backs.add(graph.insert_after(node, self._node(new, value, value.dtype, node)))
        if value.dtype not in self._rounded:
            self._known[value, dtype, graph] = new

    def _node(self, source: Value, target: Value, dtype: DType, beside: Node) -> Node:
        name = self._names(f"{beside.name}_to_{dtype}")
        newer = beside.domain or "bfloat16" in (source.dtype, dtype)  # which Cast takes from opset 13 on
        version = max(13, beside.version) if newer else beside.version
        cast = Node("Cast", [source], [target], {"to": to_onnx(dtype)}, version=version, name=name)
        self.made.append(cast)
        return cast


def _with(value: Value, dtype: DType) -> TensorType:
    return TensorType(dtype, value.shape)


def _convert(array: Array, dtype: DType) -> Array:
    return widen(array) if array.dtype == np.float16 and dtype == "float32" else array.astype(to_numpy(dtype))


def _is_cast(node: Node) -> bool:
    return node.op_type == "Cast" and not node.domain
