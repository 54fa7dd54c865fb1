"""Scratch memory shared by sessions that request it (`session.use_env_allocators`): one pool, from one allocator."""

from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory import locks
from ort_lite.memory.arenas import Growth, MemorySource
from ort_lite.memory.pool import A, MemoryBudget, ScratchPool

LIMIT_NAME = "max_mem of the environment's allocator"


class Environment:
    """The pools by kind of arena, and the allocator that they use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._registered = False
        self._forget()

    def pool(self, kind: type[A]) -> ScratchPool[A]:
        """Return the pool that all sessions created from now on share, until the allocator changes."""
        with self._lock:
            if kind not in self._pools:
                growth, source = self._growth, self._source
                self._pools[kind] = ScratchPool(lambda: kind(growth=growth, source=source), self._budget)
            found: ScratchPool[A] = self._pools[kind]
            return found

    def register(self, source: MemorySource | None, limit: int | None = None, growth: Growth = Growth.half) -> None:
        """Make later sessions share at most `limit` bytes of scratch memory from `source` (None: system memory).

        Raises InvalidArgument while another allocator is registered.
        """
        with self._lock:
            if self._registered:
                raise InvalidArgument(
                    "an allocator is registered for the CPU already: call ort_lite.unregister_allocator() before another one"
                )
            self._forget(source, limit, growth)
            self._registered = True

    def unregister(self) -> None:
        """Make later sessions share system memory again; existing sessions keep theirs."""
        with self._lock:
            self._forget()

    def _forget(self, source: MemorySource | None = None, limit: int | None = None, growth: Growth = Growth.half) -> None:
        self._registered = False
        self._source, self._growth, self._budget = source, growth, MemoryBudget(limit, LIMIT_NAME)
        self._pools: dict[type[Any], ScratchPool[Any]] = {}


ENVIRONMENT = Environment()
"""The environment of this process."""
