"""Sessions of onnxruntime whose nodes providers of ort-lite run.

The tests of plugins share this; they run from the repository's root.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import onnxruntime
import ort_lite_ep
from onnxruntime.capi import onnxruntime_pybind11_state as errors

import ort_lite
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition, Rejection

OWN = "OrtLiteExecutionProvider"
"""ort-lite's CPU provider, by its name in onnxruntime."""
ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)),
)
"""The classes of errors that come through onnxruntime."""
RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
FUNCTIONS: dict[str, Any] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Add": np.add,
    "Mul": np.multiply,
    "Sum": lambda *x: sum(x),
    "Identity": np.array,
}


class PlainExecutionProvider(ExecutionProvider):
    """Runs a few elementwise operators with NumPy."""

    name: ClassVar[str] = "PlainExecutionProvider"

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            known = node.op_type in FUNCTIONS
            yield Capability(node) if known else Rejection(node, "operator", f"{node.op_type} is not plain")

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        return [partial(self.run, partition) for partition in partitions]

    def run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {value: value.constant for value in partition.constants}
        values.update(zip(partition.inputs, inputs, strict=True))
        for node in partition.nodes:
            values[node.outputs[0]] = FUNCTIONS[node.op_type](*(values[value] for value in node.inputs))
        return [values[value] for value in partition.outputs]


def register(name: str) -> str:
    """Register a provider that is installed with onnxruntime, for the rest of the process, and return its name."""
    if all(device.ep_name != name for device in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(name, ort_lite_ep.get_library_path())
    return name


@contextmanager
def registered(*classes: type[ExecutionProvider]) -> Iterator[None]:
    """Register classes with ort-lite and onnxruntime under their names, until the end of the block."""
    for cls in classes:
        ort_lite.register_provider(cls.name, cls)
        onnxruntime.register_execution_provider_library(cls.name, ort_lite_ep.get_library_path())
    try:
        yield
    finally:
        gc.collect()
        for cls in classes:
            onnxruntime.unregister_execution_provider_library(cls.name)
            ort_lite.unregister_provider(cls.name)


def model(text: str, opset: int = 21) -> bytes:
    """Return the model of a graph in ONNX's text format, `main` without its name."""
    head = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
    return bytes(onnx.parser.parse_model(f"{head} main {text}").SerializeToString())


def session(
    source: Any, *providers: str | tuple[str, dict[str, Any]], entries: Mapping[str, str] | None = None, optimise: bool = False
) -> onnxruntime.InferenceSession:
    """Create a session with one thread in which the providers come before onnxruntime's own, by default with the graph as it is."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    if set(names := [provider if isinstance(provider, str) else provider[0] for provider in providers]) <= set(
        onnxruntime.get_available_providers()
    ):
        return onnxruntime.InferenceSession(source, options, providers=[*providers, "CPUExecutionProvider"], enable_fallback=0)
    for name, provider in zip(names, providers, strict=True):  # onnxruntime 1.24 takes a device alone
        device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == name)
        options.add_provider_for_devices([device], {} if isinstance(provider, str) else provider[1])
    return onnxruntime.InferenceSession(source, options, enable_fallback=0)


def report(name: str) -> ort_lite_ep.GraphReport:
    """Return what the provider said about the session that was created last."""
    return ort_lite_ep.reports(name)[-1]


def taken(name: str) -> list[str]:
    """Return the operators of the nodes that the provider runs in the session that was created last."""
    return [node.operator for node in report(name).nodes if node.partition]
