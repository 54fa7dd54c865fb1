"""Providers with device memory inside onnxruntime: the two cards of ort-lite-accelerator, and a vault whose values have no address."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import onnxruntime
import ort_lite_ep

import ort_lite
from ort_lite.provider import CPU, Capability, Device, ExecutionProvider, GraphView, Partition, Rejection, run_options
from tests.inside_onnxruntime import register

CARD = "AcceleratorExecutionProvider"
DEFAULT = onnxruntime.OrtDeviceMemoryType.DEFAULT
X = np.array([[1, -1, 2, 0], [3, 0, -0.5, 1]], np.float32)
CHAIN = "(float[N, 4] x) => (float[N, 4] y) { a = Relu(x)  b = Add(a, x)  c = Abs(b)  d = Mul(c, b)  y = Relu(d) }"
"""Two partitions of a card around a node that the card does not run."""
EXPECTED = (2 * np.maximum(X, 0)) ** 2
BODIES = """(float[N, 4] x, bool c) => (float[N, 4] y) { a = Add(x, x)  b = If(c) <
    then_branch = then () => (float[N, 4] u) { u = Relu(a) }, else_branch = other () => (float[N, 4] v) { v = Add(a, x) }
>  y = Mul(b, a) }"""

FUNCTIONS: dict[str, Any] = {"Identity": np.array, "Add": np.add, "Neg": np.negative}


class Handle:
    """A value in the vault: nothing can be read from it."""

    def __init__(self, array: Any) -> None:
        self._array = np.array(array)
        self.shape = self._array.shape


class VaultTransfer:
    copies: ClassVar[Counter[str]] = Counter()

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, VaultExecutionProvider.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.copies["in" if source == CPU else "out"] += 1
        return Handle(value) if source == CPU else value._array.copy()


class VaultExecutionProvider(ExecutionProvider):
    """Runs three operators on numbers in a vault."""

    name: ClassVar[str] = "VaultExecutionProvider"
    device = Device("vault", 0)
    seen: ClassVar[list[Any]] = []
    synced: ClassVar[list[str]] = []
    config_keys = ("vault.level",)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            known = node.op_type in FUNCTIONS
            yield Capability(node) if known else Rejection(node, "operator", f"{node.op_type} is not in the vault")

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        return [lambda inputs, partition=partition: self.run(partition, inputs) for partition in partitions]

    def run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values = {value: Handle(value.constant) for value in partition.constants}
        values |= dict(zip(partition.inputs, inputs, strict=True))
        self.seen.extend(type(x) for x in inputs)
        if (options := run_options()) is not None:
            self.synced.append(f"in run {options.logid} {options.config('vault.level', '')}")
        for node in partition.nodes:
            given = [values[value]._array for value in node.inputs if value is not None]
            values[node.output] = Handle(FUNCTIONS[node.op_type](*given))
        return [values[value] for value in partition.outputs]

    def data_transfer(self) -> VaultTransfer:
        return VaultTransfer()

    def on_session_initialization_end(self) -> None:
        self.synced.append("created")

    def on_run_start(self, options: Any) -> None:
        self.synced.append(f"run {options.logid} {options.config('vault.level', '')}")

    def sync(self) -> None:
        self.synced.append("sync")


def register_both() -> None:
    """Register both providers for the rest of the process."""
    ort_lite.register_provider(VaultExecutionProvider.name, VaultExecutionProvider)
    register(CARD)
    register(VaultExecutionProvider.name)


def devices(name: str = CARD) -> list[Any]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]


def options(*chosen: Any, **entries: str) -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level, made.intra_op_num_threads = 3, 1
    for device in chosen or devices()[:1]:
        made.add_provider_for_devices([device], {})
    for key, value in entries.items():
        made.add_session_config_entry(f"ep.{key}", value)
    return made


def model(text: str, opset: int = 17) -> bytes:
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> main {text}')
    return bytes(parsed.SerializeToString())


def chain(*chosen: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model(CHAIN), options(*chosen))


def place(device: Any) -> tuple[str, int]:
    """Return how onnxruntime names the memory of a device."""
    return "gpu", device.memory_info(DEFAULT).device_id


def taken() -> list[str]:
    return [node.operator for node in ort_lite_ep.reports()[-1].nodes if node.partition]
