"""Names during loading: the values that a graph can see, and symbols for unnamed dimensions."""

from collections.abc import Iterable

from ort_lite.errors import InvalidGraph
from ort_lite.graph.graph import Graph, Value
from ort_lite.load.proto import pb, text
from ort_lite.shapes.dims import symbol
from ort_lite.shapes.expr import Dim

_NO_NAME = frozenset({"", "?", "-1", "None"})  # what exporters write for unknown sizes, the same for different dims


class DimReader:
    """Reads the dimensions of declared types. `unnamed` collects the symbols created here, with the text that each replaces."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self.unnamed: dict[str, str] = {}
        self.owner = ""

    def __call__(self, proto: pb.TensorShapeProto.Dimension, axis: int) -> Dim:
        """Return the dimension. Sizes of 0 and less mean unknown, because some exporters write them for that."""
        if (size := proto.dim_value) > 0:
            return size
        given = text(proto.dim_param)
        if given.strip() not in _NO_NAME:
            return symbol(given)
        base, count = f"{self.owner}_{axis}", 1
        name = base
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self.unnamed[name] = given
        return symbol(name)


class Scope:
    """The values of a graph by name, and the enclosing scope."""

    def __init__(self, graph: Graph, outer: "Scope | None") -> None:
        self.graph, self.outer = graph, outer
        self.values: dict[str, Value] = {}

    def declare(self, value: Value, who: str) -> Value:
        """Add a value. Raises InvalidGraph if the graph already has the name; names of outer graphs may be shadowed."""
        if self.values.setdefault(value.name, value) is not value or not value.name:
            raise InvalidGraph(f"{who}: {value.name!r} is {self._origin(value.name)}; every value needs a name of its own")
        return value

    def _origin(self, name: str) -> str:
        if not name:
            return "no name"
        if name in self.graph.initializers:
            return "already an initialiser"
        inputs = any(value.name == name for value in self.graph.inputs)
        return f"already an input of {graph_name(self.graph)}" if inputs else "already an output of another node"

    def find(self, name: str) -> Value | None:
        """Return the value of this graph or of the innermost enclosing one; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if (value := scope.values.get(name)) is not None:
                return value
            scope = scope.outer
        return None


def graph_name(graph: Graph) -> str:
    """Return a graph's name for messages."""
    return f"graph {graph.name!r}"
