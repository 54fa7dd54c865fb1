"""A segment that runs: bound programs by the values of its symbols, arrays of their own allocated, one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from threading import get_native_id
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidData, NodeFailure, OutOfMemory
from ort_lite.memory.pool import ScratchPool
from ort_lite.provider import RunOptions
from ort_lite_cpu.kernels import jumps
from ort_lite_cpu.lowering.lowered import ROOM
from ort_lite_cpu.program.bind import Binder, Bound
from ort_lite_cpu.program.segment import FIRST_PLACE, SCRATCH, Segment
from ort_lite_cpu.run.address import LISTS, copy_arguments, write_addresses
from ort_lite_cpu.run.bounded_cache import BoundedCache
from ort_lite_cpu.run.interrupt import HALTED, own_frame, send
from ort_lite_cpu.run.loop import ALONE, HOLD, MISSED, RELEASE, Halt, Job
from ort_lite_cpu.run.run_context import RunContext
from ort_lite_cpu.run.team import TEAM


class Unforeseen(Exception):
    """The program was not lowered for the case that came, or needs memory for bodies that may not run: its caller runs another
    one. Nobody has seen what it has written.
    """


BOUND_LIMIT, BOUND_BYTES = 512, 32 << 20
"""Bound programs kept for one segment, and their tables' bytes; the oldest are dropped first."""

NO_TARGETS: Mapping[int, Array] = MappingProxyType({})
"""The targets of a run that allocates all of its results."""
TRIES = 5
"""Runs of a bound program that are timed; they keep the GIL while one thread alone runs sessions."""
WORTH_RELEASING_US = 35.0
"""Below, runs keep the GIL while one thread alone runs sessions: another Python thread would have it for milliseconds each time."""
WORTH_SHARING_US = 8.0
"""Below, runs keep the GIL always: two callers are no faster than one, since most of their time is Python."""
NEVER_BRIEF_US = 1000.0
"""From this estimate on all runs release it. That of a loop whose turns only the run counts is as large at least."""


Leaf = tuple[int, int, bool]
"""The place of the array that tells the value of a symbol, the number of its dimension or element, and whether it is an element.

The number is ROOM for the room of an input.
"""
RoomOf = tuple[int, int]
"""The place of an input that is the beginning of a larger array, and the rows for which that has room."""


class SegmentRun:
    """A segment with its binder and the bound programs made so far."""

    __slots__ = ("binder", "cache", "inputs", "jumps", "leaves", "needs", "places", "segment", "shapes_tell", "wanted")

    def __init__(
        self,
        segment: Segment,
        binder: Binder,
        needs: tuple[int, int],
        inputs: int,
        places: Sequence[int],
        leaves: Sequence[Leaf],
        jumps: bool,
    ) -> None:
        """`needs`: see `RunContext.fit`. `inputs`: how many the program has. `places` are those of its operands.

        `jumps`: bodies are part of it.
        """
        self.segment, self.binder, self.needs, self.inputs = segment, binder, needs, inputs
        self.places, self.leaves, self.jumps = places, leaves, jumps
        self.wanted = copy_arguments(FIRST_PLACE, places)
        self.shapes_tell = all(not element and place < inputs for place, _, element in leaves)
        """True if its symbols are dimensions of the program's inputs, so that their shapes are the key of a bound program."""
        self.cache: BoundedCache[Any, Bound] = BoundedCache(BOUND_LIMIT)

    @classmethod
    def of(cls, segment: Segment, binder: Binder, needs: tuple[int, int], inputs: int) -> SegmentRun:
        """Return the run of a segment."""
        operands = (buffer for instruction in segment.instructions for buffer in instruction.operands)
        places = sorted({buffer.place for buffer in operands if buffer is not None and buffer.place >= 0})
        leaves = [(source.buffer.place, source.index, source.element) for _, source in segment.leaves]
        jumps = any(instruction.jump for instruction in segment.instructions)
        return cls(segment, binder, needs, inputs, places, leaves, jumps)

    def __reduce__(self) -> tuple[Any, ...]:
        return SegmentRun, (self.segment, self.binder, self.needs, self.inputs, self.places, self.leaves, self.jumps)

    def values(self, places: Sequence[Any], rooms: Sequence[RoomOf] = ()) -> tuple[int, ...]:
        """Return the values of the symbols for the arrays at hand."""
        found, room_of = [], dict(rooms) if rooms else {}
        for at, k, element in self.leaves:
            if k == ROOM:
                found.append(room_of.get(at, 0))
            else:
                found.append(int(places[at].reshape(-1)[k]) if element else places[at].shape[k])
        return tuple(found)

    def bind(self, key: Any, values: Sequence[int]) -> Bound:
        """Keeps what `bind_values` returns."""
        bound = self.bind_values(values)
        bound.gil = RELEASE if bound.cost_us >= NEVER_BRIEF_US else ALONE
        return self.cache.keep(key, bound, 1 + BOUND_BYTES // (bound.nbytes or 1))

    def bind_values(self, values: Sequence[int]) -> Bound:
        """Raises what `Binder.bind` raises; Unforeseen in its place where a body that may not run can be the reason."""
        try:
            return self.binder.bind(values)
        except (NodeFailure, OutOfMemory):
            if self.jumps:
                raise Unforeseen from None
            raise

    def lease(
        self, pool: ScratchPool[RunContext], bound: Bound, places: list[Any], targets: Mapping[int, Array] = NO_TARGETS
    ) -> RunContext:
        """The memory of a run: arrays of its own, or targets of their like by place, and scratch.

        Raises OutOfMemory; Unforeseen as `bind_values` does.
        """
        try:
            allocate(self, bound, places, targets)
            return pool.lease(bound.scratch)
        except OutOfMemory:
            if self.jumps:
                raise Unforeseen from None
            raise

    def run(self, bound: Bound, places: list[Any], lease: RunContext, options: RunOptions | None) -> None:
        """One native call where the lease has a job for it, and nobody wants to end it; else its job is told of it first."""
        if options is not None:
            self._run_anew(bound, places, lease, options)
            return
        try:
            job = lease.attached[bound.token]
        except KeyError:
            self._run_anew(bound, places, lease, None)
            return
        memory = lease.memory
        memory[SCRATCH] = lease.address
        failed = job.again(places)
        if failed == MISSED:
            self._run_anew(bound, places, lease, None)
        elif failed:
            raise self.error(bound, memory, *job.failure)

    def _run_anew(self, bound: Bound, places: list[Any], lease: RunContext, options: RunOptions | None) -> None:
        settled = bound.tries >= TRIES  # asked before `attach` reads `gil`: a job keeps what it is told
        self.attach(bound, places, lease, options)
        job = lease.job
        if options is not None:
            failed = run_halting(job, bound.count, options)
        elif not settled:
            failed = _time(job, bound)
        else:
            failed = job.run(0, bound.count)
            if LISTS and bound.token not in lease.attached:
                lease.keep_job(bound.token)
        if failed:
            raise self.error(bound, lease.memory, *job.failure, options)

    def attach(self, bound: Bound, places: list[Any], lease: RunContext, options: RunOptions | None) -> None:
        """Tell the lease's job what it runs next."""
        if lease.fits is not self.needs:
            lease.fit(self.needs)
        memory = lease.memory
        memory[SCRATCH] = lease.address
        write_addresses(memory, FIRST_PLACE, places, self.places)
        gil = bound.gil
        if options is not None:
            gil = RELEASE  # whoever ends the run needs the GIL for it
        elif bound.tries < TRIES and bound.cost_us < Job.WORTH_WAKING_US:
            gil = HOLD  # a brief run is timed on one thread, since the choice of `gil` is about one
        lease.job.attach(bound.table_address, lease.memory_address, bound.cost_us, gil, self.wanted.ctypes.data)

    def error(
        self, bound: Bound, memory: ctypes.Array[ctypes.c_int64], index: int, status: int, options: RunOptions | None = None
    ) -> Exception:
        """Return the error for the status of a kernel."""
        instruction = self.segment.instructions[index]
        if status == HALTED:
            assert options is not None, "nobody else has a Halt"
            return options.termination(f"before {instruction.node}").about(instruction.node)
        if instruction.spec.function is jumps.expect:
            return Unforeseen()
        from ort_lite_cpu.lowering.failure import Failure

        descriptor = bound.descriptors[int(self.segment.descriptor_starts[index]) :].tolist()
        failure = Failure(instruction, descriptor, memory, status)
        kind = NodeFailure if instruction.spec.function is jumps.refuse else InvalidData
        return kind(f"{instruction.node} (CPUExecutionProvider): {failure}{instruction.inside}").about(instruction.node)


def allocate(run: SegmentRun, bound: Bound, places: list[Any], targets: Mapping[int, Array]) -> None:
    """Arrays of their own that the segment writes first. Raises OutOfMemory that names the node whose result has no room."""
    try:
        for place, make, shape, dtype in bound.allocations:
            target = targets.get(place)
            alike = target is not None and target.shape == shape and target.dtype == dtype
            places[place] = target if alike else make(shape, dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more than an address can say
        [node] = [allocation.node for allocation in run.segment.allocations if allocation.place == place]
        raise OutOfMemory(f"{node} (CPUExecutionProvider): its result of shape {shape} and type {dtype}: {error}").about(
            node
        ) from error


def _time(job: Job, bound: Bound) -> int:
    """Runs, and finds out whether it is worth while to release the GIL."""
    begin = perf_counter_ns()
    failed = job.run(0, bound.count)
    bound.least_us = min(bound.least_us, (perf_counter_ns() - begin) / 1000)
    if bound.cost_us < NEVER_BRIEF_US:
        least = bound.least_us
        bound.gil = HOLD if least < WORTH_SHARING_US else ALONE if least < WORTH_RELEASING_US else RELEASE
    bound.tries += 1
    return failed


def run_halting(job: Job, count: int, options: RunOptions, run: Callable[[int, int], int] | None = None) -> int:
    """Runs until `options.terminate` is set, from whatever thread. `run` is called in place of the job's own."""
    halt, frame, thread = Halt(), own_frame(), get_native_id()
    job.watch(halt, frame)

    def stop() -> None:
        halt.set()
        if frame:
            send([(thread, frame), *TEAM.frames()])

    try:
        with options.on_terminate(stop):
            return (run or job.run)(0, count)
    finally:
        job.watch(Halt())  # the lease's next run may be another's
