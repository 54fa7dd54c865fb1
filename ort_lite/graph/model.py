"""What a file holds beside its graph: Model, Function; and Names, which makes up new ones. `ort_lite.graph` has these names."""

from typing import TYPE_CHECKING, Any

from ort_lite.graph.node import Attr
from ort_lite.record import Record, field

if TYPE_CHECKING:
    from ort_lite.graph.graph import Graph


class Function(Record, frozen=False):
    """A model-local function. The body's inputs stand for the node's; attributes without a default are `attributes`."""

    domain: str
    name: str
    overload: str
    graph: "Graph"
    attributes: list[str]
    defaults: dict[str, Attr]
    opset_imports: dict[str, int]


class Model(Record, frozen=False):
    """A graph with what belongs to the file: versions, functions, metadata. Functions are keyed (domain, name, overload)."""

    graph: "Graph"
    opset_imports: dict[str, int]
    ir_version: int = 10
    functions: dict[tuple[str, str, str], Function] = field(default_factory=dict)
    metadata_props: dict[str, str] = field(default_factory=dict)
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    unnamed_dims: dict[str, str] = field(default_factory=dict)  # symbols made up for open dimensions -> what the file says
    denotations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the dimensions of each input that has some ("DATA_BATCH"); "" for none."""

    def clone(self) -> "Model":
        """A copy with a graph of its own; functions and constants are shared."""
        return self.replace(
            graph=self.graph.clone(),
            opset_imports=dict(self.opset_imports),
            metadata_props=dict(self.metadata_props),
            unnamed_dims=dict(self.unnamed_dims),
            denotations=dict(self.denotations),
        )

    def __copy__(self) -> "Model":
        """A clone over the same tensors: what is owned stays owned, what is borrowed stays borrowed."""
        from ort_lite.serialization.tensors import cloned

        return cloned(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Model":
        """A clone that owns all its tensors' bytes."""
        from ort_lite.serialization.tensors import owned_copy

        return owned_copy(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a serialised ModelProto; the copy owns its tensors' bytes. Raises InvalidProtobuf above 2 GiB."""
        from ort_lite.serialization.load import load
        from ort_lite.serialization.proto import serialize
        from ort_lite.serialization.save import to_proto

        return load, (serialize(to_proto(self)),)


class Names:
    """Fresh names for the values and nodes of a graph and the graphs nested in it: `base`, `base_1`, `base_2`, ..."""

    def __init__(self, graph: "Graph") -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._collect(graph)

    def _collect(self, graph: "Graph") -> None:
        self._taken.update(value.name for value in graph.inputs)
        self._taken.update(graph.initializers)
        for node in graph:
            self._taken.add(node.name)
            self._taken.update(value.name for value in (*node.inputs, *node.outputs) if value is not None)
            for body in node.subgraphs():
                self._collect(body)

    def __call__(self, base: str) -> str:
        name = base
        while name in self._taken or not name:
            self._next[base] = number = self._next.get(base, 0) + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


__all__ = ["Function", "Model", "Names"]
