"""XLAExecutionProvider: its options, the nodes it runs, and the compilation of partitions to XLA programs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.graph import Node, Value
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition, Rejection, SessionOptions

if TYPE_CHECKING:
    from ort_lite_xla.program import XlaProgram

KINDS = ("cpu", "gpu", "tpu")
PRECISIONS = ("highest", "high", "default")
ATTENTION = ("xla", "cudnn")
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""JAX's environment variable for allocating three quarters of a GPU's memory at the start, which is the default."""


class XLAExecutionProvider(ExecutionProvider):
    """An execution provider that runs partitions as XLA executables, through JAX. Its inputs and outputs are NumPy arrays.

    Options:

    device: "cpu" (default), "gpu" or "tpu", with ":1" for the second device of that kind.
    matmul_precision: "highest" (default), "high" or "default".
    buckets: "1" (default) pads open dimensions so that few sizes are compiled; "0" does not.
    cached_shapes: the most executables that a partition keeps; 64 by default.
    minimum: the smallest number of nodes in a partition; 1 by default.
    attention: "xla" (default), or "cudnn": NVIDIA's kernels compute attention of 16-bit floats where they fit.
    """

    name: ClassVar[str] = "XLAExecutionProvider"
    default: ClassVar[bool] = True
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self,
        device: str = "cpu",
        matmul_precision: str = "highest",
        buckets: bool | int | str = True,
        cached_shapes: int | str = 64,
        minimum: int | str = 1,
        attention: str = "xla",
        **unknown: Any,
    ) -> None:
        super().__init__(**unknown)
        if matmul_precision not in PRECISIONS:
            raise self._wrong("matmul_precision", matmul_precision, f"one of {', '.join(PRECISIONS)}")
        if attention not in ATTENTION or (attention == "cudnn" and not device.startswith("gpu")):
            raise self._wrong("attention", attention, "xla, or cudnn if device is gpu")
        if str(buckets).lower() not in ("0", "1", "false", "true"):
            raise self._wrong("buckets", buckets, "0 or 1")
        for option, given in (("cached_shapes", cached_shapes), ("minimum", minimum)):
            if not str(given).isdecimal() or int(given) < 1:
                raise self._wrong(option, given, "1 or more")
        # Imported here because JAX takes half a second to import, and programs list providers that they do not use.
        import ort_lite_xla.operators  # noqa: F401  # fills the registry
        from ort_lite_xla.program import XlaSettings

        on = str(buckets).lower() in ("1", "true")
        self._settings = XlaSettings(_device(self.name, device), matmul_precision, on, int(cached_shapes), attention == "cudnn")
        self._minimum = int(minimum)
        self._options = {
            "device": device,
            "matmul_precision": matmul_precision,
            "buckets": on,
            "cached_shapes": int(cached_shapes),
            "minimum": self._minimum,
            "attention": attention,
        }

    def configure(self, options: SessionOptions) -> None:
        """Take the session's choice of deterministic computation."""
        self._settings = self._settings.replace(deterministic=options.use_deterministic_compute)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that have a lowering, and a reason for each node that has none."""
        from ort_lite_xla.capability import misfit

        seen: dict[Value, Value | None] = {}
        for node in graph:
            yield misfit(node, seen) or Capability([node], minimum=self._minimum)

    def compile(self, partitions: Sequence[Partition]) -> "list[XlaProgram]":
        """Copy the weights to the device. Programs are compiled at the first run of each shape, when it is known."""
        from ort_lite_xla.program import XlaProgram

        return [XlaProgram(partition, self._settings) for partition in partitions]

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if the node's lowering computes in an element type."""
        from ort_lite_xla.capability import takes_type

        return takes_type(node, dtype)

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return dict(self._options)

    def _wrong(self, option: str, given: object, expected: str) -> ProviderError:
        return ProviderError(f"{self.name}: {option} is {given!r}; expected {expected}")


def _device(who: str, wanted: str) -> Any:
    """Return the JAX device for "kind" or "kind:number".

    Raises NoDevice, listing the existing devices, and ProviderError for a malformed name.
    """
    import jax

    kind, _, number = wanted.partition(":")
    if kind not in KINDS or not (number or "0").isdecimal():
        raise ProviderError(f"{who}: device is {wanted!r}; expected {', '.join(KINDS)}, with :1 for the second one")
    try:
        with _no_preallocation():
            found = jax.devices(kind)
    except RuntimeError as error:  # JAX has no such platform, or it does not start
        raise NoDevice(f"{who}: no device {wanted!r}; there are {_existing()}") from error
    if int(number or 0) >= len(found):
        raise NoDevice(f"{who}: no device {wanted!r}; there are {_existing()}")
    return found[int(number or 0)]


@contextmanager
def _no_preallocation() -> Iterator[None]:
    """Let JAX allocate memory as needed when it starts its devices, which it does all at once, unless the user chose otherwise."""
    if PREALLOCATE in os.environ:
        yield
        return
    os.environ[PREALLOCATE] = "false"
    try:
        yield
    finally:
        del os.environ[PREALLOCATE]


def _existing() -> str:
    """Return the names of all JAX devices, as the option spells them."""
    import jax

    kinds = dict.fromkeys(device.platform for device in (*jax.devices(), *jax.devices("cpu")))
    return ", ".join(f"{kind}:{k}" for kind in kinds for k in range(len(jax.devices(kind))))
