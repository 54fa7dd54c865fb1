"""XLAExecutionProvider: its options, the nodes it runs, its devices, and the compilation of partitions to XLA programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ort_lite.errors import ProviderError
from ort_lite.graph import Node, Value
from ort_lite.provider import (
    Capability,
    CompiledPartition,
    Device,
    ExecutionProvider,
    GraphView,
    Partition,
    ProfileEvent,
    Rejection,
    SessionOptions,
)
from ort_lite_xla.devices import KINDS, device_kind, devices, find_device

if TYPE_CHECKING:
    from ort_lite_xla.profiler import DeviceRecording
    from ort_lite_xla.transfer import XlaTransfer

PRECISIONS = ("float32", "tf32", "bf16")
ATTENTION = ("xla", "cudnn")


class XLAExecutionProvider(ExecutionProvider):
    """An execution provider that runs partitions as XLA executables, through JAX. Its values are JAX arrays on the device.

    Options:

    device: "cpu" (default), "gpu" or "tpu".
    device_id: the number among the devices of that kind; 0 by default.
    precision: "float32" (default), "tf32" or "bf16", in which products of float32 are computed.
    buckets: "1" (default) pads open dimensions so that few sizes are compiled; "0" does not.
    cached_shapes: the most executables that a partition keeps; 64 by default.
    minimum: the smallest number of nodes in a partition; 1 by default.
    attention: "xla" (default), or "cudnn": NVIDIA's kernels compute attention of 16-bit floats where they fit.
    preallocate: "1" lets JAX allocate three quarters of a GPU's memory when it starts; "0" (default) does not.
    """

    name: ClassVar[str] = "XLAExecutionProvider"
    default: ClassVar[bool] = True
    writes_no_input: ClassVar[bool] = True
    outlives_fork: ClassVar[bool] = False

    def __init__(
        self,
        device: str = "cpu",
        device_id: int | str = 0,
        precision: str = "float32",
        buckets: bool | int | str = True,
        cached_shapes: int | str = 64,
        minimum: int | str = 1,
        attention: str = "xla",
        preallocate: bool | int | str = False,
        **unknown: Any,
    ) -> None:
        super().__init__(**unknown)
        self._check("device", device, KINDS)
        self._check("precision", precision, PRECISIONS)
        if attention not in ATTENTION or (attention == "cudnn" and device != "gpu"):
            raise self._wrong("attention", attention, "xla, or cudnn if device is gpu")
        self._options: dict[str, Any] = {
            "device": device,
            "device_id": self._number("device_id", device_id, 0),
            "precision": precision,
            "buckets": self._switch("buckets", buckets),
            "cached_shapes": self._number("cached_shapes", cached_shapes, 1),
            "minimum": self._number("minimum", minimum, 1),
            "attention": attention,
            "preallocate": self._switch("preallocate", preallocate),
        }
        self.device = Device(device_kind(device), self._options["device_id"])
        self._jax_device = find_device(self.name, device, self._options["device_id"], self._options["preallocate"])
        self._deterministic = False
        self._profiler: DeviceRecording | None = None
        # Imported here because JAX takes half a second to import, and programs list providers that they do not use.
        import ort_lite_xla.operators  # noqa: F401  # fills the registry
        from ort_lite_xla.completion import InFlight

        self._in_flight = InFlight()

    def configure(self, options: SessionOptions) -> None:
        """Take the session's choice of deterministic computation."""
        self._deterministic = options.use_deterministic_compute

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that have a lowering, and a reason for each node that has none."""
        from ort_lite_xla.capability import answer

        seen: dict[Value, Value | None] = {}
        for node in graph:
            yield answer(node, self._options["minimum"], seen)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        """Copy the weights to the device. Programs are compiled at the first run of each shape, when it is known."""
        from ort_lite_xla.executables import ExecutableStore, XlaSettings
        from ort_lite_xla.program import XlaProgram

        chosen = self._options
        settings = XlaSettings(
            self._jax_device,
            chosen["precision"],
            chosen["buckets"],
            chosen["cached_shapes"],
            chosen["attention"] == "cudnn",
            self._deterministic,
        )
        store = ExecutableStore(self.name, settings)
        return [XlaProgram(partition, settings, store, self._in_flight) for partition in partitions]

    def host_values(self, partition: Partition) -> list[Value]:
        """Return the inputs and outputs whose contents are known while a program is traced, such as shapes."""
        from ort_lite_xla.contents import host_values

        return host_values(partition)

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if the node's lowering computes in an element type."""
        from ort_lite_xla.capability import takes_type

        return takes_type(node, dtype)

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return dict(self._options)

    # The device

    @classmethod
    def supported_devices(cls) -> Mapping[Device, Mapping[str, Any]]:
        """Return the devices that JAX finds, each with the options that select it. Starts JAX on all of them."""
        return {
            Device(device_kind(kind), k): {"device": kind, "device_id": k} for kind in KINDS for k in range(len(devices(kind)))
        }

    def data_transfer(self) -> "XlaTransfer":
        """Return the object that copies to and from the device."""
        from ort_lite_xla.transfer import AcceleratorTransfer, XlaTransfer

        kind = XlaTransfer if self._options["device"] == "cpu" else AcceleratorTransfer
        return kind(self.device, self._jax_device)

    def sync(self) -> None:
        """Wait until the device has computed the results of all calls."""
        self._in_flight.wait()

    def wait_on_device(self, notification: Any) -> bool:
        """Return True for the completion of a call: JAX runs a program once its operands are there."""
        from ort_lite_xla.completion import Completion

        return isinstance(notification, Completion)

    def start_profiling(self) -> None:
        """Start JAX's profiler."""
        from ort_lite_xla.profiler import DeviceRecording

        self._profiler = DeviceRecording()

    def end_profiling(self) -> Iterable[ProfileEvent]:
        """Return the operations that the device ran since `start_profiling`, at the times of its own clock."""
        profiler, self._profiler = self._profiler, None
        return () if profiler is None else profiler.events()

    # Options

    def _check(self, option: str, given: str, expected: Sequence[str]) -> None:
        if given not in expected:
            raise self._wrong(option, given, f"one of {', '.join(expected)}")

    def _number(self, option: str, given: int | str, least: int) -> int:
        if not str(given).isdecimal() or int(given) < least:
            raise self._wrong(option, given, f"{least} or more")
        return int(given)

    def _switch(self, option: str, given: bool | int | str) -> bool:
        if str(given).lower() not in ("0", "1", "false", "true"):
            raise self._wrong(option, given, "0 or 1")
        return str(given).lower() in ("1", "true")

    def _wrong(self, option: str, given: object, expected: str) -> ProviderError:
        return ProviderError(f"{self.name}: {option} is {given!r}; expected {expected}")
