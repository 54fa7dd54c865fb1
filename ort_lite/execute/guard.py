"""What stands between the executor and a compiled partition: its state, and who may be in it at once.

Partitions of a concurrent provider that have no state are called as they are, but for a look at their results
(`ort_lite.execute.results`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from ort_lite.errors import ProviderError, RuntimeException
from ort_lite.execute.results import Checked
from ort_lite.provider.abilities import has_state, releases_state
from ort_lite.provider.provider import CPU, CompiledPartition, ExecutionProvider, Partition

CONCURRENCIES = ("concurrent", "serial", "per-thread")


def guarded(partition: Partition, compiled: CompiledPartition) -> CompiledPartition:
    """The partition as the executor calls it: with its inputs alone, from any thread.

    Raises ProviderError for a `concurrency` that is none, and for "per-thread" without a state.
    """
    provider, function = partition.provider, compiled
    if provider.concurrency not in CONCURRENCIES:
        raise ProviderError(f"{provider.name}: concurrency is {provider.concurrency!r}; expected one of {CONCURRENCIES}")
    if has_state(compiled):
        function = Stateful(partition.name, compiled, provider.concurrency == "per-thread")
    elif provider.concurrency == "per-thread":
        raise ProviderError(f"{provider.name} says per-thread, and {partition.name} has no create_state() that makes one")
    if provider.device == CPU and not provider.exact:
        function = Checked(function, partition.name, provider.name, partition.outputs)
    return Serial(function, lock_of(provider)) if provider.concurrency == "serial" else function


def lock_of(provider: ExecutionProvider) -> RLock:
    """One for each instance, whatever sessions share it. The thread that holds it may enter again: bodies are inside."""
    lock: RLock | None = _locks.get(id(provider))
    if lock is None:
        with _making:
            lock = _locks.setdefault(id(provider), RLock())
            weakref.finalize(provider, _locks.pop, id(provider), None).atexit = False
    return lock


_locks: dict[int, RLock] = {}
"""Of serial providers, by id, as long as they live."""
_making = RLock()


class Serial:
    """One call at a time."""

    def __init__(self, function: CompiledPartition, lock: RLock) -> None:
        self.function, self._lock = function, lock

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        with self._lock:
            return self.function(inputs)


class _Held:
    """A state, released once: when told, or when nobody refers to it any more (the thread that it belongs to ended)."""

    def __init__(self, state: Any, release: Callable[[Any], None]) -> None:
        self.state = state
        self.release = weakref.finalize(self, release, state)


class Stateful:
    """Calls a partition with its state: one, or one a thread. A state is made before the first call that needs it."""

    def __init__(self, name: str, compiled: Any, per_thread: bool) -> None:
        self._name, self._compiled = name, compiled
        self._home: Any = threading.local() if per_thread else type("Home", (), {})()
        self._changed = threading.Condition()
        self._all: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._running = 0
        self._closed = False

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        held = self._enter()
        try:
            results: Sequence[Any] = self._compiled(inputs, held.state)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
        return results

    def _enter(self) -> _Held:
        with self._changed:
            if self._closed:
                raise RuntimeException(f"{self._name}: the session is closed")
            held: _Held | None = getattr(self._home, "held", None)
            if held is None:
                release = self._compiled.release_state if releases_state(self._compiled) else _keep
                held = self._home.held = _Held(self._compiled.create_state(), release)
                self._all.add(held)
            self._running += 1
            return held

    def close(self) -> None:
        """Waits for calls in flight and releases every state; later calls raise. A second time does nothing."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._running)
            for held in list(self._all):
                held.release()


def _keep(state: Any) -> None:
    """A partition without `release_state`."""


def close(function: CompiledPartition) -> None:
    """Closes what `guarded` made, if there is something to close."""
    while not isinstance(function, Stateful) and hasattr(function, "function"):  # Serial, or a fallback
        function = function.function
    if isinstance(function, Stateful):
        function.close()
