"""The scratch memory of one session: its source, its limit and its planner.

The session makes it; its providers find it in `SessionOptions.account`, when they are configured.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory.arenas import Arena, Growth
from ort_lite.memory.planning.planner import DEFAULT_PLANNER, MemoryPlanner
from ort_lite.memory.pool import A, Budget, ReturningPool, ScratchPool
from ort_lite.options import config_keys

if TYPE_CHECKING:
    from ort_lite.memory.environment import Environment
    from ort_lite.options.options import SessionOptions

LIMIT_KEY = "session.memory_limit_bytes"
"""A session's config entry: bytes that its constants, packed weights, scratch memory and the strings of its runs may have together."""


class Account:
    """One session's. With an `environment`, it leases from the pools of the whole process."""

    def __init__(self, limit: int | None = None, keep: bool = True, environment: "Environment | None" = None) -> None:
        """Without `keep`, scratch memory goes back after each run."""
        self.budget = Budget(limit, LIMIT_KEY)
        self._keep, self._environment = keep, environment
        self.pools: dict[type[Arena], ScratchPool[Any]] = {}
        self.planner: MemoryPlanner = DEFAULT_PLANNER
        """What `ort_lite.memory_planner` names, set before providers are configured."""

    @property
    def shared(self) -> bool:
        return self._environment is not None

    def pool(self, kind: type[A], growth: Growth = Growth.half, keep: bool = True) -> ScratchPool[A]:
        """The pool of arenas of one kind (`kind(growth=..., source=...)` makes one); made when first asked for.

        Who asks first says how it grows; an environment's grows as its allocator was registered to.
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

    def trim(self) -> None:
        """Gives the memory that no run has back; of an environment's pools that is everybody's."""
        for pool in self.pools.values():
            pool.trim()

    def close(self) -> None:
        """Gives up the session's own pools; those of an environment stay as they are."""
        if not self.shared:
            self.trim()
        self.pools = {}

    def figures(self) -> dict[str, int | bool]:
        """Bytes of scratch memory held, in use now, held at most; leases given and arenas made. Of an environment's: all sessions'."""
        every = [pool.statistics() for pool in self.pools.values()]
        names = {"held": "bytes", "in_use": "in_use", "peak": "peak", "leases": "leases", "arenas": "arenas"}
        return {"shared": self.shared, **{name: sum(getattr(s, own) for s in every) for name, own in names.items()}}


def account_of(options: "SessionOptions") -> Account:
    """The account of a session with these options. Raises InvalidArgument for config entries that make no sense."""
    text, shared = options.config(LIMIT_KEY, ""), options.config(config_keys.ENVIRONMENT, "0") == "1"
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{LIMIT_KEY} is {text!r}: expected a number of bytes")
    if text and shared:
        raise InvalidArgument(
            f"{LIMIT_KEY} and {config_keys.ENVIRONMENT} exclude each other: limit what sessions share by `max_mem` of the allocator"
        )
    keep = options.enable_cpu_mem_arena and options.config(config_keys.CPU_ARENA, "1") != "0"
    return Account(int(text) if text else None, keep, _environment() if shared else None)


def _environment() -> "Environment":
    from ort_lite.memory.environment import ENVIRONMENT

    return ENVIRONMENT
