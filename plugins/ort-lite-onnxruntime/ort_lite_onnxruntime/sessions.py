"""onnxruntime sessions: one for a single node, to find out if onnxruntime supports it, and one for each partition."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, MapType, Node, OptionalType, TensorType, Type
from ort_lite.provider import Partition
from ort_lite.provider.empty_outputs import EmptyOutputs, empty_outputs
from ort_lite.provider.export import PartitionModel, node_model, partition_model
from ort_lite_onnxruntime.limits import limit
from ort_lite_onnxruntime.recurrent import guard
from ort_lite_onnxruntime.reshape import settle

CPU = "CPUExecutionProvider"
Why = tuple[str, str]
"""The code and the detail of a Rejection."""

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

_CODES = {
    "is not a registered function/op": "operator",
    "Could not find an implementation": "type",
    "Type Error": "type",
    "TypeInferenceError": "type",
    "ShapeInferenceError": "shape",
    "opset": "opset",
}


class Sessions:
    """A factory of sessions of one of onnxruntime's execution providers."""

    def __init__(self, provider: str, options: Mapping[str, Any]) -> None:
        self.provider, self.options = provider, dict(options)
        self._answers: dict[bytes, Why | None] = {}

    def misfit(self, node: Node) -> Why | None:
        """Return the reason why onnxruntime does not run a node, or None.

        Creates a session for the node; nodes that differ only in names and sizes share the answer.
        """
        for value in (*node.inputs, *node.outputs, *node.captures()):
            if value is not None and (wrong := _untransportable(value.type)) is not None:
                return "type", f"{value.name!r} is {wrong}"
        for inner in (node, *(n for body in node.subgraphs() for n in body.all_nodes())):
            if (wrong_use := limit(inner)) is not None:
                return wrong_use if inner is node else ("body", f"{inner} inside: {wrong_use[1]}")
        try:
            model = node_model(node)
        except InvalidGraph as error:
            return "graph", str(error)
        if model not in self._answers:
            self._answers[model] = self._try(model)
        return self._answers[model]

    def compile(self, partition: Partition, threads: int) -> "CompiledSession":
        """Create the session of a partition."""
        exported = partition_model(partition, _safe_when_empty)
        return CompiledSession(self._session(exported.data, threads), exported, empty_outputs(partition))

    def _try(self, model: bytes) -> Why | None:
        try:
            self._session(model, 1, alone=True)
        except Exception as error:  # noqa: BLE001  # onnxruntime's classes have no base of their own
            text = " ".join(str(error).split())
            code = next((code for part, code in _CODES.items() if part in text), "invalid")
            return code, text[:300]
        return None

    def _session(self, model: bytes, threads: int, alone: bool = False) -> Any:
        """Create a session. `alone`: to test a single node, without falling back to onnxruntime's CPU provider."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4 if alone else 3
        if alone:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        providers: list[Any] = [(self.provider, self.options)]
        if self.provider != CPU and alone:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        elif self.provider != CPU:
            providers.append(CPU)
        return onnxruntime.InferenceSession(model, options, providers=providers)


def _safe_when_empty(graph: Graph) -> None:
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
        """Return facts for `explain()`."""
        return {"providers": ", ".join(self._session.get_providers()), "python_steps": 0}


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
