"""The onnxruntime session of each partition, and the tensors that it accepts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ort_lite.graph import Graph, MapType, Node, OptionalType, TensorType, Type
from ort_lite.provider import Partition
from ort_lite.provider.empty_outputs import EmptyOutputs, empty_outputs
from ort_lite.provider.export import PartitionModel, partition_model
from ort_lite_onnxruntime.limits import Why, limit
from ort_lite_onnxruntime.recurrent import guard
from ort_lite_onnxruntime.reshape import settle
from ort_lite_onnxruntime.targets import OrtProvider

_TYPES = frozenset(
    {
        "bool",
        "float16",
        "float32",
        "float64",
        "int16",
        "int32",
        "int64",
        "int8",
        "string",
        "uint16",
        "uint32",
        "uint64",
        "uint8",
    }
)
"""The element types that onnxruntime accepts as NumPy arrays."""


def misfit(node: Node, target: OrtProvider) -> Why | None:
    """Return the reason why the target is not asked about a node, or None."""
    for value in (*node.inputs, *node.outputs, *node.captures()):
        if value is not None and (wrong := _untransportable(value.type)) is not None:
            return "type", f"{value.name!r} is {wrong}"
    for inner in (node, *(n for body in node.subgraphs() for n in body.all_nodes())):
        if (wrong_use := limit(inner, target.name) or (_open_rank(inner) if target.is_library else None)) is not None:
            return wrong_use if inner is node else ("body", f"{inner} inside: {wrong_use[1]}")
    return None


def _open_rank(node: Node) -> Why | None:
    """Return the reason against tensors of unknown rank, which onnxruntime's interface for libraries describes as scalars."""
    for value in (*node.inputs, *node.outputs):
        if value is not None and isinstance(value.type, TensorType) and value.shape is None:
            return "shape", f"{value.name!r} has an unknown rank, which the library would take for that of a scalar"
    return None


def compile_partition(partition: Partition, target: OrtProvider, threads: int) -> "CompiledSession":
    """Create the session of a partition. Raises onnxruntime's errors."""
    import onnxruntime

    exported = partition_model(partition, make_safe)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return CompiledSession(target.session(exported.data, options), exported, empty_outputs(partition))


def make_safe(graph: Graph) -> None:
    """Rewrite nodes that onnxruntime computes wrongly on empty tensors."""
    settle(graph)
    guard(graph)


class CompiledSession:
    """A compiled partition, which runs an onnxruntime session without copying inputs or outputs. Thread-safe."""

    def __init__(self, session: Any, exported: PartitionModel, empty: EmptyOutputs) -> None:
        self._session, self._outputs, self._empty_outputs = session, list(exported.outputs), empty
        known = {value.name for value in session.get_inputs()}
        self._inputs = [(k, name) for k, name in enumerate(exported.inputs) if name in known]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if (empty := self._empty_outputs(inputs)) is not None:
            return empty
        results: list[Any] = self._session.run(self._outputs, {name: inputs[k] for k, name in self._inputs})
        return results

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`: onnxruntime's providers, and its nodes that each of them runs after optimization."""
        counts: Counter[str] = Counter()
        for part in self._session.get_provider_graph_assignment_info():
            counts[part.ep_name] += len(part.get_nodes())
        nodes = ", ".join(f"{count} on {name}" for name, count in counts.items())
        return {"providers": ", ".join(self._session.get_providers()), "nodes": nodes, "python_steps": 0}


def _untransportable(type_: Type | None) -> str | None:
    """Describe a type that cannot be passed to onnxruntime; None if it can be."""
    match type_:
        case None:
            return "of unknown type"
        case TensorType(dtype, _):
            return None if dtype in _TYPES else dtype
        case OptionalType() | MapType():
            return str(type_)
    return _untransportable(type_.element)
