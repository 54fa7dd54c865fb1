"""Concurrent steps within one run: `ExecutionMode.ORT_PARALLEL`.

The thread that called `run` executes steps too and never waits while a step of its run is ready, so a busy pool costs time but
cannot block a run. A step, bodies included, stays on one thread. It waits only for the locks of providers, whose holders always
make progress.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from ort_lite.execute.execute import Call, Executable, call_step, wait_for
from ort_lite.execute.guard import holds_a_lock
from ort_lite.native.threads import submit
from ort_lite.options.options import RunOptions
from ort_lite.provider.current import CURRENT, as_in

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Workers:
    """Threads that help the runs of one session. `threads` includes the run's own thread. They start on demand.

    They end on `close`, or when nothing refers to this object any more.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.runs: weakref.WeakSet[_ParallelRun] = weakref.WeakSet()
        """The runs in flight, which must be reset after a fork."""
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._making = threading.Lock()
        _ALL.add(self)

    def help(self, run: "_ParallelRun") -> bool:
        """Send one thread to the run. Return False if there is none; the run's own thread then executes everything."""
        try:
            submit("a parallel run", self._threads(), partial(copy_context().run, run.help))
        except RuntimeError:  # closed, interpreter shutdown, or no thread available
            return False
        return True

    def _threads(self) -> "ThreadPoolExecutor":
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            with self._making:
                if self._closed:
                    raise RuntimeError("the session is closed")
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self.threads - 1, "ort-lite-inter-op")
        return self._pool

    def close(self) -> None:
        """End each thread after its current step; runs in flight go on alone.

        Does not wait, since the caller may be inside such a step.
        """
        with self._making:
            self._closed = True
            if self._pool is not None:
                self._pool.shutdown(wait=False)

    def forget_parent(self) -> None:
        """Reset the state in a forked child, which has none of the threads."""
        self._pool, self._making = None, threading.Lock()
        for run in list(self.runs):
            run.forget_parent()


_ALL: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _forget_parent() -> None:
    for workers in list(_ALL):
        workers.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


class Parallel:
    """An Executable whose steps run as soon as their inputs are ready. `run` has the signature of `Executable.run`."""

    def __init__(self, executable: Executable, workers: Workers) -> None:
        self.executable, self.workers = executable, workers
        maker = {slot: k for k, step in enumerate(executable.steps) for slot in step.outputs}
        before = [{maker[slot] for slot in step.inputs if slot in maker} for step in executable.steps]
        self.waits = [len(found) for found in before]
        self.after: list[list[int]] = [[] for _ in executable.steps]
        for k, found in enumerate(before):
            for earlier in sorted(found):
                self.after[earlier].append(k)
        self.readers = [0] * executable.slots
        for step in executable.steps:
            for slot in set(step.inputs):
                self.readers[slot] += 1
        self.returned = frozenset(slot for slot in executable.result_slots if type(slot) is int)

    @property
    def useful(self) -> bool:
        """Return True if at least two steps are independent of each other."""
        return any(k + 1 not in after for k, after in enumerate(self.after[:-1]))

    def run(self, inputs: Sequence[Any], options: RunOptions | None = None, call: Call = call_step) -> list[Any]:
        """Run all steps and raise the first error, as `Executable.run` does.

        No step starts after an error; those already started finish first.
        """
        if holds_a_lock():  # called from a step of another session, whose provider other steps may need
            return self.executable.run(inputs, options, call)
        with as_in(options, CURRENT.watch, CURRENT.work):
            return _ParallelRun(self, inputs, options, call).outputs()


class _ParallelRun:
    """The state of one run, changed only while holding `_changed`, which also orders steps that share a slot."""

    def __init__(self, plan: Parallel, inputs: Sequence[Any], options: RunOptions | None, call: Call) -> None:
        self._plan, self._options, self._call = plan, options, call
        self._watch, self._work_there = CURRENT.watch, CURRENT.work
        self._slots: list[Any] = [*inputs, *[None] * (plan.executable.slots - len(inputs))]
        self._waits, self._readers = list(plan.waits), list(plan.readers)
        self._ready = [k for k, count in enumerate(plan.waits) if not count]
        heapify(self._ready)
        self._inside: dict[int, int] = {}
        """The steps in flight, each with its thread."""
        self._helpers = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        plan.workers.runs.add(self)

    def outputs(self) -> list[Any]:
        """Run steps on the calling thread until all are done, and return the outputs."""
        while not self._over():
            try:
                self._call_help()
                self._work()
                with self._changed:
                    self._changed.wait_for(self._may_go_on)
            except BaseException as interrupt:  # noqa: BLE001  steps in flight still read the inputs of the caller
                self._fail(interrupt)
        slots, error = self._slots, self._error
        if error is not None:
            wait_for([slots[k] for k in self._plan.executable.notifications], slots, self._options)
        self._slots, self._error = [], None
        self._ready.clear()
        try:
            if error is not None:
                raise error
            return [slots[r] if type(r) is int else r for r in self._plan.executable.result_slots]
        finally:
            del slots, error  # a traceback holds this frame

    def help(self) -> None:
        """Run steps on a thread of the pool."""
        with as_in(self._options, self._watch, self._work_there):
            self._work()
        with self._changed:
            self._helpers -= 1

    def forget_parent(self) -> None:
        """Reset the state in a forked child: steps of other threads run again, since their inputs still exist."""
        self._changed = threading.Condition()
        for k in self._leave(lambda thread: thread != threading.get_ident()):
            heappush(self._ready, k)

    def _may_go_on(self) -> bool:
        return bool(self._ready and self._error is None) or not self._inside

    def _over(self) -> bool:
        with self._changed:
            return not self._inside and (not self._ready or self._error is not None)

    def _work(self) -> None:
        """Run steps while any are ready."""
        while (k := self._take()) is not None:
            try:
                self._finish(k, self._results(k))
            except BaseException as error:  # noqa: BLE001  the thread of the run raises it
                self._fail(error)

    def _take(self) -> int | None:
        with self._changed:
            if self._error is not None or not self._ready:
                return None
            k = heappop(self._ready)
            self._inside[k] = threading.get_ident()
            return k

    def _results(self, k: int) -> Sequence[Any]:
        step, options = self._plan.executable.steps[k], self._options
        if options is not None and options.terminate:
            raise options.termination(f"before {step.name}")
        given = [self._slots[slot] for slot in step.inputs]
        return self._call(step, given)

    def _finish(self, k: int, results: Sequence[Any] | None) -> None:
        plan = self._plan
        step = plan.executable.steps[k]
        with self._changed:
            for slot, result in zip(step.outputs, results or (), strict=True):
                if self._readers[slot] or slot in plan.returned:
                    self._slots[slot] = result
            results = result = None  # once woken, the thread of the run may check the memory in use
            for slot in set(step.inputs):
                self._readers[slot] -= 1
                if not self._readers[slot] and slot not in plan.returned:
                    self._slots[slot] = None
            for reader in plan.after[k]:
                self._waits[reader] -= 1
                if not self._waits[reader]:
                    heappush(self._ready, reader)
            del self._inside[k]
            self._changed.notify_all()
        self._call_help()

    def _call_help(self) -> None:
        """Request a thread for each ready step except one, which the calling thread runs."""
        with self._changed:
            wanted = min(len(self._ready) - 1, self._plan.workers.threads - 1 - self._helpers)
            self._helpers += max(0, wanted)
        for left in range(wanted, 0, -1):
            if not self._plan.workers.help(self):
                with self._changed:
                    self._helpers -= left
                return

    def _fail(self, error: BaseException) -> None:
        """Record the first error, and take this thread's step, if any, out of those in flight."""
        with self._changed:
            if self._error is None:
                self._error = error
            self._leave(lambda thread: thread == threading.get_ident())
            self._changed.notify_all()

    def _leave(self, whose: Callable[[int], bool]) -> list[int]:
        """Remove the steps of the matching threads from those in flight, and return them."""
        left = [k for k, thread in self._inside.items() if whose(thread)]
        for k in left:
            del self._inside[k]
        return left


def workers_of(threads: int, providers: int) -> Workers | None:
    """Return the pool, with `threads` from the options or one thread per participating provider; None if one thread suffices."""
    wanted = threads if threads > 0 else providers
    return Workers(wanted) if wanted > 1 else None
