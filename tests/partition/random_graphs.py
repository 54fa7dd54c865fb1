"""Random graphs over the operators of `numpy_provider`: shared constants, nested Ifs with captures, several outputs."""

import random

import numpy as np

from ort_lite.graph import Attr, Graph, Node, TensorType, Value

UNARY = ("Abs", "Identity", "Neg", "Relu", "Tanh")
BINARY = ("Add", "Mul", "Sub")
EXACT = ("Abs", "Identity", "Neg", "Relu")
"""Of UNARY those that integers have. Sums and products of integers wrap around: all orders give the same bits."""


def random_graph(seed: int, size: int, depth: int = 1, locality: int = 8, dtype: str = "float32") -> Graph:
    """A graph of `size` nodes at its own level; about one node in ten is an If with bodies, `depth` levels deep.

    Nodes read values that are near, mostly; `locality` says how near. Values are `dtype`[3], float32 or int32.
    """
    make = _Maker(seed, locality, TensorType(dtype, (3,)))
    inputs = [Value(f"x{k}", make.type) for k in range(2)]
    flag = Value("flag", TensorType("bool", ()))
    graph = Graph("main", [*inputs, flag])
    make.constants(graph)
    make.fill(graph, [*inputs, *graph.initializers.values()], flag, size, depth)
    return graph


def feeds(seed: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = 1 if dtype == "float32" else 1000
    return [*((scale * rng.standard_normal(3)).astype(dtype) for _ in range(2)), np.array(bool(seed % 2))]


class _Maker:
    def __init__(self, seed: int, locality: int, type: TensorType) -> None:
        self.random = random.Random(seed)
        self.locality = locality
        self.type = type
        self.unary = UNARY if type.dtype == "float32" else EXACT
        self.count = 0

    def constants(self, graph: Graph) -> None:
        for k in range(2):
            graph.add_initializer(Value(f"w{k}", constant=np.array([0.5, -1, 2 + k], self.type.dtype)))

    def fill(self, graph: Graph, known: list[Value], flag: Value, size: int, depth: int) -> None:
        for _ in range(size):
            known.append(self._node(graph, known, flag, depth))
        own = [node.output for node in graph]
        unread = [value for value in own if not value.uses]
        some = [value for value in own if value.uses and self.random.random() < 0.1]
        graph.set_outputs([*unread, *some] if graph.name == "main" else [self.random.choice(own)])

    def _node(self, graph: Graph, known: list[Value], flag: Value, depth: int) -> Value:
        self.count += 1
        name = f"n{self.count}"
        out = Value(f"{name}_out", self.type)
        kind = self.random.random()
        if depth and kind < 0.1:
            bodies = [self._body(f"{name}.{which}", known, flag, depth - 1) for which in ("then", "else")]
            branches = [Attr("then_branch", "GRAPH", bodies[0]), Attr("else_branch", "GRAPH", bodies[1])]
            graph.append(Node("If", [flag], [out], branches, version=17, name=name))
        elif kind < 0.5:
            graph.append(Node(self.random.choice(self.unary), [self._pick(known)], [out], version=17, name=name))
        else:
            inputs = [self._pick(known), self._pick(known)]
            graph.append(Node(self.random.choice(BINARY), inputs, [out], version=17, name=name))
        return out

    def _body(self, name: str, known: list[Value], flag: Value, depth: int) -> Graph:
        body = Graph(name)
        self.fill(body, list(known), flag, self.random.randint(1, 4), depth)
        return body

    def _pick(self, known: list[Value]) -> Value:
        if self.random.random() < 0.15:
            return self.random.choice(known)
        return known[-min(len(known), 1 + int(self.random.expovariate(1 / self.locality)))]
