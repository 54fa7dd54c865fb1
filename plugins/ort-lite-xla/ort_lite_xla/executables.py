"""XLA executables: compiled from a partition for one set of shapes, or loaded from those that earlier processes compiled."""

import logging
import pickle
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import jaxlib
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import SingleDeviceSharding

from ort_lite.native.cpu import host
from ort_lite.native.digest import digest
from ort_lite.provider.kernel_store import KernelStore
from ort_lite.record import Record

_LOGGER = logging.getLogger("ort_lite")
OPTIONS = {"xla_allow_excess_precision": False}
"""Round 16-bit results after every operator, not where it suits XLA."""
DETERMINISTIC = {"xla_gpu_exclude_nondeterministic_ops": True}
"""Without this, GPUs add values scattered to one position in the order in which they arrive."""
MATMULS = {"float32": "float32", "tf32": "tensorfloat32", "bf16": "bfloat16"}
"""JAX's names of the provider's precisions."""


class XlaSettings(Record):
    """The provider options that programs depend on."""

    device: jax.Device
    precision: str
    buckets: bool
    cached_shapes: int
    vendor: bool = False
    deterministic: bool = False


class Counts:
    """The numbers of executables that were compiled, and loaded from the store. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.compilations = self.loaded = 0

    def add(self, compiled: bool) -> None:
        """Count one executable."""
        with self._lock:
            self.compilations += compiled
            self.loaded += not compiled


class ExecutableStore:
    """The executables that processes with this version of everything compiled for a device."""

    def __init__(self, provider: str, settings: XlaSettings) -> None:
        self._settings = settings
        self._store = KernelStore(provider, repr((_code(), *_versions(settings.device))))

    def get(self, counts: Counts, key: Hashable, make: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return an executable with what `make` returns besides; `make` lowers a function, the store compiles it.

        The key says what the function depends on besides the settings.
        """
        settings = self._settings
        text = repr((settings.precision, settings.vendor, settings.deterministic, key)).encode()
        loaded = self._load(text)
        if loaded is not None:
            counts.add(compiled=False)
            return loaded
        lowered, besides = make()
        compiled = lowered.compile(OPTIONS | DETERMINISTIC if settings.deterministic else OPTIONS)
        counts.add(compiled=True)
        self._save(text, compiled, besides)
        return compiled, besides

    def _load(self, key: bytes) -> tuple[Any, Any] | None:
        """Return a saved executable; None if there is none, or the device does not take it any more."""
        saved = self._store.read(key)
        if saved is None:
            return None
        data, trees, besides = pickle.loads(saved)
        try:
            return deserialize_and_load(data, *trees, execution_devices=[self._settings.device]), besides
        except jax.errors.JaxRuntimeError as error:
            _LOGGER.info("XLA does not load a saved executable, which is compiled anew: %s", error)
            return None

    def _save(self, key: bytes, compiled: Any, besides: Any) -> None:
        try:
            data, *trees = serialize(compiled)
        except (ValueError, jax.errors.JaxRuntimeError) as error:  # a platform or a program that cannot be saved
            _LOGGER.info("XLA does not save an executable: %s", error)
            return
        self._store.write(key, pickle.dumps((data, trees, besides)))


def lower(function: Callable[..., Any], operands: Any, settings: XlaSettings, donated: Sequence[int] = ()) -> Any:
    """Lower a function of arrays with the shapes and types of `operands`, in nested lists, for the device."""
    place = SingleDeviceSharding(settings.device)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), operands)
    with jax.enable_x64(True), jax.default_matmul_precision(MATMULS[settings.precision]):
        return jax.jit(function, keep_unused=True, donate_argnums=tuple(donated)).lower(*shapes)


def _versions(device: jax.Device) -> tuple[str, ...]:
    cpu = str(host()) if device.platform == "cpu" else ""
    return jax.__version__, jaxlib.__version__, device.client.platform_version, device.device_kind, str(device), cpu


@cache
def _code() -> bytes:
    """Return a digest of this package's source code."""
    return digest(*(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py"))))
