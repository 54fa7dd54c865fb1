"""A session in which every float between two nodes moves by units in the last place, as roundings move it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from ort_lite.dtypes import FLOATS, Array, from_numpy
from ort_lite.graph import Attr, Graph, Node, Value
from ort_lite.graph.inline import inline_functions
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.inference.annotate import annotate
from ort_lite.load.load import load
from ort_lite.plugins import shape_rules
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition, Rejection
from tests.generated.comparison import EPSILON
from tests.operator_traits import traits_of

DOMAIN = "tests.generated"
_SCALES = (8, 10)
"""The inputs of DynamicQuantizeLSTM that are scales of weights."""
_FACTORS = ("coefficients", "support_vectors", "class_weights", "target_weights", "base_values")
"""Attributes of ai.onnx.ml of which sums are made: moved, they move each term, whatever the type of the features is."""


class Noise:
    """Moves floats by `units` in the last place, each up or down at random."""

    def __init__(self) -> None:
        self.units = 0
        self._random = np.random.default_rng(0)

    def move(self, array: Array) -> Array:
        """Return the array with each float moved; integers and the like stay."""
        dtype = from_numpy(array.dtype)
        if not self.units or dtype not in FLOATS:
            return array
        signs = self._random.integers(0, 2, array.shape) * 2 - 1
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64 if dtype != "float64" else np.longdouble)
            moved: Array = (wide * (1 + signs.astype(wide.dtype) * (self.units * EPSILON[dtype]))).astype(array.dtype)
        return moved

    def value(self, value: Any) -> Any:
        """Return a feed with its floats moved."""
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return self.move(value) if isinstance(value, np.ndarray) and value.dtype != object else value


@shape_rule("Noise", domain=DOMAIN)
def _noise_shape(op: Op) -> list[Info]:
    return [op.tensor(op.dtype(0), op.shape(0))]


class NoiseExecutionProvider(ExecutionProvider):
    """Runs the Noise nodes of a model, which nothing else has."""

    name: ClassVar[str] = "NoiseExecutionProvider"
    default: ClassVar[bool] = False

    def __init__(self, noise: Noise | None = None) -> None:
        super().__init__()
        self.noise = noise or Noise()

    @classmethod
    def shape_rules(cls) -> Any:
        return [_noise_shape]

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            own = node.domain == DOMAIN
            yield Capability([node]) if own else Rejection(node, "operator", "only Noise is supported")

    def compile(self, partitions: Sequence[Partition]) -> list["_Moves"]:
        return [_Moves(partition, self.noise) for partition in partitions]


class _Moves:
    """A partition of Noise nodes."""

    def __init__(self, partition: Partition, noise: Noise) -> None:
        self._noise, self._inputs, self._outputs = noise, partition.inputs, partition.outputs
        self._constants = {value: value.constant for value in partition.constants}
        self._steps = [(node.inputs[0], node.output) for node in partition.nodes]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        values: dict[Any, Any] = {**self._constants, **dict(zip(self._inputs, inputs, strict=True))}
        for operand, result in self._steps:
            values[result] = self._noise.move(values[operand])
        return [values[value] for value in self._outputs]


class NoisySession:
    """Runs a model without optimizations, with Noise behind nodes, bodies included, whose results are rounded floats."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.noise = Noise()
        self._contents = model.SerializeToString()
        self._fixed: set[str] = set()
        self._has_factors = False
        self._session = self._open()

    def run(self, feeds: Mapping[str, Any], units: int) -> list[Any]:
        """Run with feeds and all results moved by `units` in the last place; 0 moves nothing."""
        self.noise.units = units
        if self._has_factors:
            self._session = self._open()
        moved = {name: value if name in self._fixed else self.noise.value(value) for name, value in feeds.items()}
        return self._session.run(None, moved)

    def _open(self) -> InferenceSession:
        """A session with Noise nodes. Factors of attributes move by the units of the next run."""
        changed = load(self._contents)
        graph = changed.graph
        inline_functions(graph, changed)
        annotate(graph, shape_rules())
        fixed = _fixed_values(graph)
        self._fixed = {value.name for value in graph.inputs if value in fixed}
        self._move_factors(graph)
        _insert(graph, fixed)
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # a model without floats has no Noise
        provider = NoiseExecutionProvider(self.noise)
        return InferenceSession(changed, options, providers=[provider, "CPUExecutionProvider"])

    def _move_factors(self, graph: Graph) -> None:
        for node in graph.all_nodes():
            for name in _FACTORS:
                if name in node.attributes:
                    self._has_factors = True
                    moved = self.noise.move(np.array(node.attributes[name].value, np.float32))
                    node.attributes[name] = Attr(name, "FLOATS", moved.tolist())


def _insert(graph: Graph, fixed: Collection[Value]) -> None:
    nodes = list(graph.all_nodes())
    for body in dict.fromkeys(node.graph for node in nodes):
        if body is not None:
            for value in _floats(body.initializers.values(), fixed):
                _move_constant(body, value)
    for node in filter(_rounds, nodes):
        for value in _floats(node.outputs, fixed):
            assert node.graph is not None
            moved = Value(f"{value.name}/moved", value.type)
            noise = node.graph.insert_after(node, Node("Noise", [value], [moved], domain=DOMAIN, version=1))
            value.replace_all_uses_with(moved)
            noise.replace_input(0, value)


def _rounds(node: Node) -> bool:
    return not traits_of(node.op_type, node.domain).exact


def _move_constant(body: Graph, value: Value) -> None:
    """A constant that is a graph output or an overridable input stays as it is."""
    if value.is_graph_output() or value in body.inputs or value.constant is None or not value.uses:
        return
    moved = Value(f"{value.name}/moved", value.type)
    value.replace_all_uses_with(moved)
    node = Node("Noise", [value], [moved], domain=DOMAIN, version=1)
    first = next(iter(body), None)
    if first is None:
        body.append(node)
    else:
        body.insert_before(first, node)


def _floats(values: Iterable[Value | None], fixed: Collection[Value]) -> list[Value]:
    """The floats that may move."""
    return [value for value in values if value is not None and value.dtype in FLOATS and value not in fixed]


def _fixed_values(graph: Graph) -> set[Value]:
    """The values that say how many elements there are, and what they were copied from; and scales that are constants alone."""
    nodes = list(graph.all_nodes())
    found = {node.inputs[index] for node in nodes for index in _fixed_inputs(node) if index < len(node.inputs)}
    wanted = [value for value in found if value is not None]
    while wanted:
        producer = wanted.pop().producer
        if producer is not None and not _rounds(producer):
            wanted += [value for value in producer.inputs if value is not None and value not in found]
            found.update(producer.inputs)
    return {value for value in found if value is not None}


def _fixed_inputs(node: Node) -> tuple[int, ...]:
    """The inputs of a node that do not move: a count of 1 - 2**-24 is one of 0."""
    return _SCALES if node.op_type == "DynamicQuantizeLSTM" else traits_of(node.op_type, node.domain).host
