"""OpenVINOExecutionProvider, which runs nodes that OpenVINO computes as ONNX specifies. Each partition becomes one OpenVINO model."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.graph import Node
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection, SessionOptions
from ort_lite_openvino.bounds import Bounds
from ort_lite_openvino.operators import OPERATORS, misfit

_VIRTUAL = ("AUTO", "BATCH", "HETERO", "MULTI")  # devices that distribute work to others
_KINDS = ("CPU", "GPU", "NPU", *_VIRTUAL)
_PRECISIONS = ("f32", "f16", "bf16")


class OpenVINOExecutionProvider(ExecutionProvider):
    """An execution provider for the devices of OpenVINO.

    Options:

    device_type: an OpenVINO device: "CPU" (default), "GPU", "GPU.1", "NPU", "AUTO", "HETERO:GPU,CPU", ...
    precision: the element type in which OpenVINO computes float32 models: "f32" (default), "f16" or "bf16".
    num_threads: threads of the CPU device; 0 (default): the session's intra_op_num_threads, or OpenVINO's choice.
    num_streams: concurrent runs on the device; 0 (default): OpenVINO's choice.
    cache_dir: the folder in which OpenVINO caches compiled models; "" (default): none.
    """

    name: ClassVar[str] = "OpenVINOExecutionProvider"
    default: ClassVar[bool] = True
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self,
        device_type: str = "CPU",
        precision: str = "f32",
        num_threads: int | str = 0,
        num_streams: int | str = 0,
        cache_dir: str = "",
        **unknown: Any,
    ) -> None:
        super().__init__(**unknown)
        if precision not in _PRECISIONS:
            raise ProviderError(f"{self.name}: precision is {precision!r}; expected one of {', '.join(_PRECISIONS)}")
        self.device_type, self.precision, self.cache_dir = device_type, precision, str(cache_dir)
        self.num_threads, self.num_streams = _count("num_threads", num_threads), _count("num_streams", num_streams)
        self._session_threads = 0
        self._check_device()

    def configure(self, options: SessionOptions) -> None:
        """Take the number of threads from the session options."""
        self._session_threads = options.intra_op_num_threads

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that OpenVINO runs, and a reason for each node that it does not run."""
        bounds = Bounds()
        for node in graph.graph:
            bounds.visit(node)
            if node not in graph.claimed:
                wrong = misfit(node, bounds)
                yield Capability([node]) if wrong is None else Rejection(node, *wrong)

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition | Exception]:
        """Compile each partition to an OpenVINO model. A partition that fails becomes the exception."""
        from ort_lite_openvino.compiled import compile_partition

        compiled: list[CompiledPartition | Exception] = []
        for partition in partitions:
            try:
                compiled.append(compile_partition(self._core, partition, self.device_type, self._config()))
            except Exception as error:  # noqa: BLE001  # loses this partition alone
                compiled.append(error)
        return compiled

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if OpenVINO computes the node's operator in an element type."""
        operator = OPERATORS.get((node.domain, node.op_type))
        return operator is not None and dtype in operator.types

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {
            "device_type": self.device_type,
            "precision": self.precision,
            "num_threads": self.num_threads or self._session_threads,
            "num_streams": self.num_streams,
            "cache_dir": self.cache_dir,
        }

    @cached_property
    def _core(self) -> Any:
        """OpenVINO's core, imported on first use because the import takes half a second."""
        import openvino

        return openvino.Core()

    def _check_device(self) -> None:
        kind, _, listed = self.device_type.partition(":")
        wanted = [name.split("(")[0].strip(" -") for name in listed.split(",") if name] if kind in _VIRTUAL else [kind]
        available: list[str] = self._core.available_devices
        there = {name for device in available for name in (device, device.partition(".")[0])}
        missing = [name for name in wanted if name not in there]
        if missing:
            known = all(name.partition(".")[0] in _KINDS for name in missing)
            raise (NoDevice if known else ProviderError)(
                f"{self.name}: device_type is {self.device_type!r}, but there is no {', '.join(missing)} here; "
                f"available: {', '.join(available)}, and AUTO, which chooses among them"
            )

    def _config(self) -> dict[str, Any]:
        """Return the properties for `compile_model`. OpenVINO chooses those that are not set."""
        options = self.get_options()
        config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": self.precision}
        if self.device_type == "CPU" and options["num_threads"]:
            config["INFERENCE_NUM_THREADS"] = options["num_threads"]
        if self.num_streams:
            config["NUM_STREAMS"] = str(self.num_streams)
        if self.cache_dir:
            config["CACHE_DIR"] = self.cache_dir
        return config


def _count(option: str, value: int | str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ProviderError(f"{OpenVINOExecutionProvider.name}: {option} is {value!r}; expected a number, 0 or more")
    return number
