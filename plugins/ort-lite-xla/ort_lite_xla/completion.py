"""The completion of calls: JAX returns arrays before the device has computed them."""

import threading
import weakref
from collections.abc import Iterable
from typing import Any

import jax

from ort_lite.errors import OrtLiteError, OutOfMemory, RuntimeException

FORGET = 64
"""The number of calls in flight from which on those that are done are looked for."""


def device_error(name: str, device: jax.Device, error: BaseException) -> OrtLiteError:
    """Return the error of a partition for one of JAX: OutOfMemory with the memory in use, or RuntimeException."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return RuntimeException(f"{name} on {device}: {error}")
    counted = device.memory_stats() or {}
    figures = [f"{counted[key]} bytes {text}" for key, text in _FIGURES.items() if key in counted]
    return OutOfMemory(f"{name}: {device} has no memory left ({', '.join(figures) or 'it does not count its bytes'}): {error}")


_FIGURES = {"bytes_in_use": "in use", "peak_bytes_in_use": "at most so far", "bytes_limit": "allowed"}


class Completion:
    """The completion of one call. It keeps no results alive: if nobody has one any more, nobody waits for it."""

    __slots__ = ("_device", "_name", "_results")

    def __init__(self, name: str, device: jax.Device, results: Iterable[jax.Array]) -> None:
        self._name, self._device = name, device
        self._results = [weakref.ref(result) for result in results]

    def wait_on_host(self) -> None:
        """Block until the results are there. Raises the error of the call, with the name of its partition.

        Each copy of a result waits, so a wait that was long enough is the last one that looks at them.
        """
        for result in self._there():
            try:
                result.block_until_ready()
            except jax.errors.JaxRuntimeError as error:
                if not result.is_deleted():
                    raise device_error(self._name, self._device, error) from error
        self._results = []

    def is_done(self) -> bool:
        """Return True if the device has computed the results."""
        return all(result.is_ready() for result in self._there())

    def _there(self) -> list[Any]:
        """Return the results that are still there: neither collected nor donated."""
        results = [found() for found in self._results]
        return [result for result in results if result is not None and not result.is_deleted()]


class InFlight:
    """The calls of a provider's partitions that may not be done. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Completion] = []

    def add(self, call: Completion) -> None:
        """Add a call, and forget those that are done if there are many."""
        with self._lock:
            self._calls.append(call)
            if len(self._calls) >= FORGET:
                self._calls = [call for call in self._calls if not call.is_done()]

    def wait(self) -> None:
        """Block until all calls are done. Raises the error of the first that failed."""
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            call.wait_on_host()
