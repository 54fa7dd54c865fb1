"""Memory shared by sessions that ask for it (`session.use_env_allocators`): one scratch pool, from one allocator."""

from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory import locks
from ort_lite.memory.arenas import Growth, MemorySource
from ort_lite.memory.pool import A, Budget, ScratchPool

LIMIT_NAME = "max_mem of the environment's allocator"


class Environment:
    """Pools by the kind of arena, and the allocator that they take memory from. Thread-safe."""

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._registered = False
        self._forget()

    def pool(self, kind: type[A]) -> ScratchPool[A]:
        """One for all sessions that are made from now on, until the allocator changes."""
        with self._lock:
            if kind not in self._pools:
                growth, source = self._growth, self._source
                self._pools[kind] = ScratchPool(lambda: kind(growth=growth, source=source), self._budget)
            found: ScratchPool[A] = self._pools[kind]
            return found

    def register(self, source: MemorySource | None, limit: int | None = None, growth: Growth = Growth.half) -> None:
        """Sessions that are made later share scratch memory of `source` (None: the system's), `limit` bytes at most.

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
        """Sessions that are made later share the system's memory; those that there are keep what they have."""
        with self._lock:
            self._forget()

    def _forget(self, source: MemorySource | None = None, limit: int | None = None, growth: Growth = Growth.half) -> None:
        self._registered = False
        self._source, self._growth, self._budget = source, growth, Budget(limit, LIMIT_NAME)
        self._pools: dict[type[Any], ScratchPool[Any]] = {}


ENVIRONMENT = Environment()
"""Of this process."""
