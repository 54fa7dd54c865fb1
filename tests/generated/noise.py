"""A session in which every float between two nodes moves by units in the last place, as roundings move it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession, SessionOptions
from ort_lite.dtypes import FLOATS, Array, from_numpy
from ort_lite.graph import Graph, Node, Value
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

    def feeds(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the feeds with their floats moved."""
        return {name: self._value(value) for name, value in feeds.items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
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
        changed = load(model.SerializeToString())
        inline_functions(changed.graph, changed)
        annotate(changed.graph, shape_rules())
        _insert(changed.graph)
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # a model without floats has no Noise
        provider = NoiseExecutionProvider(self.noise)
        self._session = InferenceSession(changed, options, providers=[provider, "CPUExecutionProvider"])

    def run(self, feeds: Mapping[str, Any], units: int) -> list[Any]:
        """Run with feeds and all results moved by `units` in the last place; 0 moves nothing."""
        self.noise.units = units
        return self._session.run(None, self.noise.feeds(feeds))


def _insert(graph: Graph) -> None:
    nodes = list(graph.all_nodes())
    for body in dict.fromkeys(node.graph for node in nodes):
        if body is not None:
            for value in _floats(body.initializers.values()):
                _move_constant(body, value)
    for node in filter(_rounds, nodes):
        for value in _floats(node.outputs):
            assert node.graph is not None
            moved = Value(f"{value.name}/moved", value.type)
            noise = node.graph.insert_after(node, Node("Noise", [value], [moved], domain=DOMAIN, version=1))
            value.replace_all_uses_with(moved)
            noise.replace_input(0, value)


def _rounds(node: Node) -> bool:
    return not traits_of(node.op_type, node.domain).exact


def _move_constant(graph: Graph, value: Value) -> None:
    """A constant that is a graph output or an overridable input stays as it is."""
    if value.is_graph_output() or value in graph.inputs or value.constant is None or not value.uses:
        return
    moved = Value(f"{value.name}/moved", value.type)
    value.replace_all_uses_with(moved)
    node = Node("Noise", [value], [moved], domain=DOMAIN, version=1)
    first = next(iter(graph), None)
    if first is None:
        graph.append(node)
    else:
        graph.insert_before(first, node)


def _floats(values: Iterable[Value | None]) -> list[Value]:
    """The floats that may move."""
    return [value for value in values if value is not None and value.dtype in FLOATS and not _is_scale(value)]


def _is_scale(value: Value) -> bool:
    """Return True for a scale of weights that the kernel takes as a constant alone."""
    return any(node.op_type == "DynamicQuantizeLSTM" and index in _SCALES for node, index in value.uses)
