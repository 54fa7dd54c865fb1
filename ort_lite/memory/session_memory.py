"""The scratch memory of one session: its source, its limit and its planner.

The session creates a SessionMemory; its providers find it in `SessionOptions.session_memory` when they are configured.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory.arenas import Arena, Growth
from ort_lite.memory.planning.planner import DEFAULT_PLANNER, MemoryPlanner
from ort_lite.memory.pool import A, MemoryBudget, ReturningPool, ScratchPool
from ort_lite.options import config_keys

if TYPE_CHECKING:
    from ort_lite.memory.environment import Environment
    from ort_lite.memory.planning.memories import Memories
    from ort_lite.memory.planning.requests import Memory
    from ort_lite.options.options import SessionOptions

LIMIT_KEY = "session.memory_limit_bytes"
"""A session's config entry: the most bytes for its constants, packed weights, scratch memory and strings together."""


class SessionMemory:
    """The memory of one session. With an `environment`, it uses the pools shared by the whole process."""

    def __init__(self, limit: int | None = None, keep: bool = True, environment: "Environment | None" = None) -> None:
        """Without `keep`, scratch memory is freed after each run."""
        self.budget = MemoryBudget(limit, LIMIT_KEY)
        self._keep, self._environment = keep, environment
        self.pools: dict[type[Arena], ScratchPool[Any]] = {}
        self.planner: MemoryPlanner = DEFAULT_PLANNER
        """The planner named by `ort_lite.memory_planner`, set before providers are configured."""
        self.stated_memories: tuple[Memory, ...] = ()
        """The memories that `ort_lite.memories` states, set before providers are configured."""
        self.plans_for_devices = False
        """True once a provider asked for `device_memories`."""

    @property
    def is_shared(self) -> bool:
        """True if scratch memory comes from the pools of the process."""
        return self._environment is not None

    def pool(self, kind: type[A], growth: Growth = Growth.half, keep: bool = True) -> ScratchPool[A]:
        """Return the pool of one kind of arena, created by `kind(growth=..., source=...)` on the first request.

        The first request also sets the growth; the pools of an environment grow as its registered allocator says.
        """
        found: ScratchPool[A] | None = self.pools.get(kind)
        if found is None:
            if self._environment is not None:
                found = self._environment.pool(kind)
            else:
                pool = ScratchPool if keep and self._keep else ReturningPool
                found = pool(partial(kind, growth=growth), self.budget)
            self.pools[kind] = found
        return found

    def device_memories(self, declared: "Sequence[Memory]") -> "Memories | None":
        """Return the memories of a device: those that the session states, else those that the provider declares, if any."""
        from ort_lite.memory.planning.memories import Memories

        self.plans_for_devices = True
        memories = self.stated_memories or declared
        return Memories.of(memories) if memories else None

    def trim(self) -> None:
        """Free the memory that no run uses. With an environment, this affects all its sessions."""
        for pool in self.pools.values():
            pool.trim()

    def close(self) -> None:
        """Free the session's own pools; those of an environment are unaffected."""
        if not self.is_shared:
            self.trim()
        self.pools = {}

    def figures(self) -> dict[str, int | bool]:
        """Return bytes of scratch memory (held, in use, peak), and counts of leases and arenas.

        With an environment, the figures cover all its sessions.
        """
        every = [pool.statistics() for pool in self.pools.values()]
        names = {"held": "bytes", "in_use": "in_use", "peak": "peak", "leases": "leases", "arenas": "arenas"}
        return {"shared": self.is_shared, **{name: sum(getattr(s, own) for s in every) for name, own in names.items()}}


def session_memory_of(options: "SessionOptions") -> SessionMemory:
    """Return the memory for a session with these options. Raises InvalidArgument for invalid or conflicting config entries."""
    text, is_shared = options.config(LIMIT_KEY, ""), options.config(config_keys.ENVIRONMENT, "0") == "1"
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{LIMIT_KEY} is {text!r}: expected a number of bytes")
    if text and is_shared:
        raise InvalidArgument(
            f"{LIMIT_KEY} and {config_keys.ENVIRONMENT} exclude each other: limit what sessions share by `max_mem` of the allocator"
        )
    keep = options.enable_cpu_mem_arena and options.config(config_keys.CPU_ARENA, "1") != "0"
    return SessionMemory(int(text) if text else None, keep, _environment() if is_shared else None)


def _environment() -> "Environment":
    from ort_lite.memory.environment import ENVIRONMENT

    return ENVIRONMENT
