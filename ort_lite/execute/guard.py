"""Guards around a compiled partition: its state, and the threads that may be inside.

Stateless partitions of a concurrent provider are called directly, apart from a check of their results (`ort_lite.execute.results`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from threading import RLock
from typing import Any

from ort_lite.errors import ProviderError, RuntimeException, format_error
from ort_lite.execute.results import Checked, HostChecked, Wrapper
from ort_lite.graph.graph import Value
from ort_lite.provider.abilities import computes_into_memory, has_state, lends, releases_state
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CPU, CompiledPartition, ExecutionProvider, Partition

CONCURRENCIES = ("concurrent", "serial", "per-thread")


def guard_partition(
    partition: Partition, compiled: CompiledPartition, outer: Sequence[Value] = (), others: Iterable[ExecutionProvider] = ()
) -> CompiledPartition:
    """Return a function that the executor may call from any thread, with the inputs followed by the `witnesses_of` it.

    `outer` are the inputs of the partition's graph, captures included; `others` are the session's other providers, which the
    partition's bodies may call. Raises ProviderError for an unknown `concurrency`, and for "per-thread" without a state.
    """
    provider = partition.provider
    memory = None
    if provider.device != CPU and computes_into_memory(compiled):
        from ort_lite.execute.device_memory import Allotted, memory_of

        memory = memory_of(provider)
    function = compiled if memory is None else _into_memory(compiled)
    lending = provider.device != CPU and lends(compiled)
    if lending:
        from ort_lite.execute.donation import with_members

        function = with_members(function)
    if provider.concurrency not in CONCURRENCIES:
        raise ProviderError(f"{provider.name}: concurrency is {provider.concurrency!r}; expected one of {CONCURRENCIES}").about(
            provider=provider.name
        )
    if has_state(compiled):
        function = Stateful(partition.name, compiled, provider.concurrency == "per-thread", function, provider.outlives_fork)
    elif provider.concurrency == "per-thread":
        raise ProviderError(
            f"{provider.name} says per-thread, and {partition.name} has no create_state() that makes one"
        ).about(provider=provider.name)
    if provider.device == CPU and not provider.exact:
        function = Checked(function, partition, outer)
    if memory is not None:
        function = Allotted(function, partition, outer, memory)
    if partition.host_values:
        function = HostChecked(function, partition, outer)
    if provider.concurrency == "serial":
        function = _serial(function, partition, others)
    if not lending:
        return function
    from ort_lite.execute.donation import Lending

    return Lending(function, partition, compiled)


def _serial(function: CompiledPartition, partition: Partition, others: Iterable[ExecutionProvider]) -> CompiledPartition:
    inside = [other for other in others if other.concurrency == "serial"] if partition.bodies else []
    return Serial(function, partition.name, [lock_of(each) for each in (partition.provider, *inside)])


def _into_memory(compiled: Any) -> CompiledPartition:
    def call(given: Any, *state: Any) -> Sequence[Any]:
        results: Sequence[Any] = compiled.into_memory(*given, *state)
        return results

    return call


class ProviderLock:
    """The lock of a serial provider. A thread that needs several acquires them by ascending `number`, which is their age."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = RLock()

    def take(self, waiting: str) -> None:
        """Acquire the lock. Raises RunTerminated if the run is cancelled while it waits."""
        options = CURRENT.options
        if options is None:
            self.lock.acquire()
            return
        while not self.lock.acquire(timeout=_LOOK_EVERY):
            if options.terminate:
                raise options.termination(f"while {waiting} waited for its turn")


class _Locks:
    """The locks of live serial providers, by id, and the objects to reset after a fork."""

    def __init__(self) -> None:
        self.known: dict[int, ProviderLock] = {}
        self.stateful: weakref.WeakSet[Stateful] = weakref.WeakSet()
        self._numbers = count()
        self._making = RLock()

    def of(self, provider: ExecutionProvider) -> ProviderLock:
        lock = self.known.get(id(provider))
        if lock is None:
            with self._making:
                lock = self.known.get(id(provider))
                if lock is None:
                    lock = self.known[id(provider)] = ProviderLock(next(self._numbers))
                    weakref.finalize(provider, self.known.pop, id(provider), None).atexit = False
        return lock

    def forget_parent(self) -> None:
        """Reset the state in a forked child: locks that were held belong to threads of the parent."""
        self._making = RLock()
        for lock in self.known.values():
            lock.lock = RLock()
        for stateful in list(self.stateful):
            stateful.forget_parent()


_LOOK_EVERY = 0.02
_LOCKS = _Locks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LOCKS.forget_parent)


def lock_of(provider: ExecutionProvider) -> ProviderLock:
    """Return the lock of a provider instance, which all sessions share. It is reentrant, because bodies run inside partitions."""
    return _LOCKS.of(provider)


def holds_a_lock() -> bool:
    """Return True if this thread is inside a serial provider. It must then not wait for threads that may need the same lock."""
    return any(each.lock._is_owned() for each in list(_LOCKS.known.values()))  # type: ignore[attr-defined]  # as Condition does


class Serial(Wrapper):
    """Allows one call at a time.

    A partition whose bodies may call other serial providers acquires their locks too. All threads use the same order; two threads
    that enter each other's providers would otherwise deadlock.
    """

    def __init__(self, function: CompiledPartition, name: str, locks: Iterable[ProviderLock]) -> None:
        self.function, self._name = function, name
        self._locks = sorted(set(locks), key=lambda lock: lock.number)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        held: list[RLock] = []
        try:
            for each in self._locks:
                each.take(self._name)
                held.append(each.lock)
            return self.function(inputs)
        finally:
            for lock in reversed(held):
                lock.release()


class _StateHandle:
    """A state that is released exactly once: explicitly, or when nothing refers to it any more because its thread ended."""

    def __init__(self, state: Any, release: Callable[[Any], None]) -> None:
        self.state = state
        self.release = weakref.finalize(self, release, state)


class _Home:
    """The holder of the one state that all threads share."""

    held: _StateHandle | None = None


class Stateful:
    """Calls a partition with its state, one for all threads or one per thread. A state is created before its first use."""

    def __init__(
        self,
        name: str,
        compiled: Any,
        per_thread: bool,
        function: CompiledPartition,
        outlives_fork: bool,
    ) -> None:
        """`function` is called with (inputs, state)."""
        self._name, self._compiled, self._function = name, compiled, function
        self._per_thread, self._outlives_fork = per_thread, outlives_fork
        self._home: Any = threading.local() if per_thread else _Home()
        self._all: weakref.WeakSet[_StateHandle] = weakref.WeakSet()
        self._closed = False
        self._nobody_inside()
        _LOCKS.stateful.add(self)

    def _nobody_inside(self) -> None:
        self._making = threading.Lock()
        self._changed = threading.Condition()
        self._inside: list[int] = []
        """The ids of the threads inside, one entry per call."""

    def forget_parent(self) -> None:
        """Reset the state in a forked child: states of the parent's threads or of a lost device are neither used nor released."""
        self._nobody_inside()
        if self._per_thread or not self._outlives_fork:
            for held in self._all:
                held.release.detach()
            self._all, self._home = weakref.WeakSet(), threading.local() if self._per_thread else _Home()

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        me = threading.get_ident()
        with self._changed:
            if self._closed:
                raise RuntimeException(f"{self._name}: the session is closed")
            self._inside.append(me)
        try:
            results: Sequence[Any] = self._function(inputs, self._current().state)
        finally:
            with self._changed:
                self._inside.remove(me)
                self._changed.notify_all()
        return results

    def record(self) -> Any:
        """Return the notification of this thread's last call (see `HasEvents`)."""
        return self._compiled.record(self._current().state)

    def _current(self) -> _StateHandle:
        """Return this thread's state, creating it if needed. Only threads that need the same state wait for it."""
        held: _StateHandle | None = getattr(self._home, "held", None)
        if held is not None:
            return held
        if self._per_thread:
            return self._create_state()
        with self._making:
            return self._home.held or self._create_state()

    def _create_state(self) -> _StateHandle:
        try:
            state = self._compiled.create_state()
        except Exception as error:
            raise RuntimeException(f"{self._name}: create_state failed: {format_error(error)}") from error
        held: _StateHandle = _StateHandle(
            state, self._compiled.release_state if releases_state(self._compiled) else _release_nothing
        )
        with self._changed:
            self._all.add(held)
        self._home.held = held
        return held

    def close(self) -> None:
        """Wait for calls in flight and release every state; later calls raise. Closing twice does nothing.

        Raises RuntimeException if this thread is inside a call, which would deadlock, and, once all states are released, if a
        release failed.
        """
        with self._changed:
            if threading.get_ident() in self._inside:
                raise RuntimeException(
                    f"{self._name}: the session cannot be closed by a run of its own, while that uses its state"
                )
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
            held = list(self._all)
        failures = [error for each in held if (error := _release(each)) is not None]
        if failures:
            error = failures[0]
            raise RuntimeException(f"{self._name}: release_state failed: {format_error(error)}") from error


def _release(held: _StateHandle) -> Exception | None:
    try:
        held.release()
    except Exception as error:  # noqa: BLE001  raised when all are released
        return error
    return None


def _release_nothing(state: Any) -> None:
    """A partition without `release_state`."""


def close(function: CompiledPartition) -> None:
    """Close the function that `guard_partition` returned, if it has a state."""
    while isinstance(function, Wrapper):
        function = function.function
    if isinstance(function, Stateful):
        function.close()
