"""The contents of a model file besides its graph: Model, Function; and Names, which generates unused names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ort_lite.graph.graph import Attr, Graph
from ort_lite.record import Record, asdict, field

if TYPE_CHECKING:
    from ort_lite.graph.flat import GraphTables


class Function(Record, frozen=False):
    """A model-local function. The body's inputs stand for the node's; attributes without a default are `attributes`."""

    domain: str
    name: str
    overload: str
    graph: Graph
    attributes: list[str]
    defaults: dict[str, Attr]
    opset_imports: dict[str, int]

    def clone(self) -> "Function":
        """A copy with a graph of its own; graphs among the defaults are shared, since calls copy them."""
        return self.replace(graph=self.graph.clone(), defaults=dict(self.defaults))


class Model(Record, frozen=False):
    """A graph with what belongs to the file: versions, functions, metadata. Functions are keyed (domain, name, overload)."""

    graph: Graph
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
        """A copy with graphs of its own, those of functions too; constants are shared."""
        return self.replace(
            graph=self.graph.clone(),
            opset_imports=dict(self.opset_imports),
            functions={key: function.clone() for key, function in self.functions.items()},
            metadata_props=dict(self.metadata_props),
            unnamed_dims=dict(self.unnamed_dims),
            denotations=dict(self.denotations),
        )

    def __copy__(self) -> "Model":
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as tables, with the fields that hold no graph. Deep copies use this as well."""
        from ort_lite.graph.flat import flatten

        functions = self.functions.values()
        tables = flatten([(self.graph, ()), *((function.graph, function.defaults.values()) for function in functions)])
        described = {key: asdict(function, "graph", "defaults") for key, function in self.functions.items()}
        return restore_model, (tables, described, asdict(self, "graph", "functions"))


def restore_model(
    tables: "GraphTables", described: Mapping[tuple[str, str, str], Mapping[str, Any]], fields: Mapping[str, Any]
) -> Model:
    """The Model that `Model.__reduce__` took apart."""
    from ort_lite.graph.flat import restore

    (graph, _), *bodies = restore(tables)
    functions = {
        key: Function(graph=body, defaults={attribute.name: attribute for attribute in defaults}, **own)
        for (key, own), (body, defaults) in zip(described.items(), bodies, strict=True)
    }
    return Model(graph, functions=functions, **fields)


restored = restore_model
"""The name in pickles of earlier releases."""


class Names:
    """Fresh names for the values and nodes of a graph and the graphs nested in it: `base`, `base_1`, `base_2`, ..."""

    def __init__(self, graph: Graph) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._collect(graph)

    def _collect(self, graph: Graph) -> None:
        self._taken.update(value.name for value in graph.inputs)
        self._taken.update(graph.initializers)
        for node in graph:
            self._taken.add(node.name)
            self._taken.update([value.name for value in (*node.inputs, *node.outputs) if value is not None])
            for body in node.subgraphs():
                self._collect(body)

    def has(self, name: str) -> bool:
        """Return True if a node or value has the name."""
        return name in self._taken

    def free(self, name: str) -> None:
        """Let another node or value have a name."""
        self._taken.discard(name)

    def __call__(self, base: str) -> str:
        name = base
        while name in self._taken or not name:
            self._next[base] = number = self._next.get(base, 0) + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
