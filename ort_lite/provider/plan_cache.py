"""A cache of compiled plans by shape, for providers that compile during a run. Threads that need one plan compile it once."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ort_lite.errors import ProviderError
from ort_lite.memory import locks
from ort_lite.provider.current import run_options

if TYPE_CHECKING:
    from ort_lite.provider.compiled import Holdings

P = TypeVar("P")
_POLL = 0.05
"""Seconds between two looks of a waiting thread at `RunOptions.terminate`."""


class _Compilation:
    """A plan that a thread of this process is compiling."""

    __slots__ = ("done", "owner", "process")

    def __init__(self) -> None:
        self.done, self.owner, self.process = threading.Event(), threading.get_ident(), os.getpid()

    def wait(self, key: Hashable) -> None:
        """Wait until the compilation has ended, well or not. Raises Cancelled if the waiting run must end."""
        if self.owner == threading.get_ident():
            raise ProviderError(f"PlanCache: compiling the plan for {key!r} asked for that plan")
        options = run_options()
        while not self.done.wait(None if options is None else _POLL):
            if options is not None and options.terminate:
                raise options.termination("while it waited for a plan that another thread compiles")


class PlanCache(Generic[P]):
    """The `limit` most recently used plans of a partition. Thread-safe.

    A plan is what a provider compiles for the shapes of a run, and a key says what it depends on. `plan_bytes(plan)` is the size of
    a plan, for the figures of `memory`. A partition passes both hooks on: `self.trim, self.memory = plans.trim, plans.memory`.
    A plan that a run has stays whole, even if the cache forgets it meanwhile.
    """

    def __init__(self, limit: int, plan_bytes: Callable[[P], int] | None = None) -> None:
        self._limit, self._plan_bytes = limit, plan_bytes
        self._lock = locks.lock()
        self._plans: OrderedDict[Hashable, P] = OrderedDict()
        self._compiling: dict[Hashable, _Compilation] = {}
        self.compilations = 0
        """The number of plans compiled so far."""

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: Hashable, make: Callable[[], P]) -> P:
        """Return the plan for a key; less than 1 us if it is cached. Otherwise call `make`, in one thread while the others wait.

        Raises the errors of `make`. They are not cached: if it fails or is cancelled, a waiting thread calls its own.
        """
        while True:
            with self._lock:
                if key in self._plans:
                    self._plans.move_to_end(key)
                    return self._plans[key]
                other = self._compiling.get(key)
                if other is None or other.process != os.getpid():  # a thread of the parent does not exist in a forked child
                    mine = self._compiling[key] = _Compilation()
                    break
            other.wait(key)
        try:
            plan = make()
            self._keep(key, plan)
            return plan
        finally:
            with self._lock:
                del self._compiling[key]
            mine.done.set()

    def trim(self) -> None:
        """Forget all plans. The next run compiles again."""
        with self._lock:
            self._plans.clear()

    def memory(self) -> "Holdings":
        """Return the number of plans and their size, for `InferenceSession.memory`. The list of arrays is empty."""
        with self._lock:
            plans = list(self._plans.values())
        size = self._plan_bytes
        return {"arrays": [], "plans": len(plans), "plan_bytes": 0 if size is None else sum(size(plan) for plan in plans)}

    def _keep(self, key: Hashable, plan: P) -> None:
        dropped: list[Any] = []  # freed after the lock is: freeing a plan of a device may take long
        with self._lock:
            self.compilations += 1
            self._plans[key] = plan
            while len(self._plans) > self._limit:
                dropped.append(self._plans.popitem(last=False))
