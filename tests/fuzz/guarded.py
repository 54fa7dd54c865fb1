"""Programs of the CPU provider on memory between walls: inputs, constants, outputs, crossing arrays, each scratch buffer by itself.

Every segment runs twice, instruction by instruction: with all arrays at the ends of their rooms and unwritten memory full of one
byte, then at the starts and full of another one. Where the two differ, a kernel read what nobody had written. Arrays have their
exact sizes and no more alignment than their elements need.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import RunTerminated
from ort_lite.provider import RunOptions
from ort_lite_cpu.kernels import once
from ort_lite_cpu.operators.random import next_stream
from ort_lite_cpu.program import bind, program, segment
from ort_lite_cpu.program.bind import Binder, Bound
from ort_lite_cpu.program.segment import FIRST_PLACE, SCRATCH, Segment
from ort_lite_cpu.program.segment_run import SegmentRun
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.loop import Job
from ort_lite_cpu.run.run_context import RunContext
from tests.fuzz.walls import SIDES, Place, Side, Walls

FILLS = {"end": 0xA5, "start": 0x5A}
"""Bytes of memory that nobody has written yet."""


class GuardError(BaseException):
    """Native code wrote to what it only may read, or its results depend on memory that nobody wrote.

    No Exception: nobody on the way takes it for an error of the node.
    """


class At(NamedTuple):
    """What native code is doing: for the report of who dies of it."""

    segment: Segment
    number: int
    side: Side

    def __str__(self) -> str:
        instruction = self.segment.instructions[self.number]
        return f"instruction {self.number}, {instruction.spec.name} of {instruction.node}, arrays at the {self.side} of their rooms"


class State:
    """Of this process: its walls, and what native code is doing."""

    walls: Walls
    at: At | str = "nothing native"
    differing: ClassVar[dict[int, tuple[Array, bytes]]] = {}
    """Arrays whose bytes differ between the two sides, by id, and what they are on the second one.

    One that crosses to another segment may be written in part. What the program gives away may not: see `check_written`.
    """


def walls() -> Walls:
    if not hasattr(State, "walls"):
        State.walls = Walls()
    return State.walls


class GuardedRun(SegmentRun):
    """A segment that runs on both sides."""

    __slots__ = ("both",)

    def __init__(self, segment: Segment, binder: Binder, *rest: Any) -> None:
        self.both = BothSides(segment)
        super().__init__(segment, self.both, *rest)

    def run(self, bound: Bound, places: Sequence[Any], lease: RunContext, options: RunOptions | None) -> None:
        self._look(options)
        if lease.fits is not self.needs:
            lease.fit(self.needs)
        found: list[tuple[tuple[int, int] | None, list[bytes]]] = []
        for (own, scratch), side in zip(self.both.bounds[id(bound)], SIDES, strict=True):
            found.append(self._one_side(own, scratch, side, places, lease, options))
        (failure, results), (other_failure, other_results) = found
        if failure != other_failure:
            raise GuardError(f"{self._names()}: fails with {failure} or {other_failure}, by what nobody wrote")
        if failure is not None:
            raise self.error(self.both.bounds[id(bound)][1][0], lease.memory, *failure)
        for (place, *_), first, second in zip(bound.allocations, results, other_results, strict=True):
            ctypes.memmove(address_of(places[place]), first, len(first))
            if first != second:
                State.differing[id(places[place])] = (places[place], second)

    def _look(self, options: RunOptions | None) -> None:
        if options is not None and options.terminate:
            State.at = "nothing native"
            raise RunTerminated(f"the run was ended by RunOptions.terminate before {self._names()}")

    def _one_side(
        self,
        bound: Bound,
        scratch: Sequence[Place],
        side: Side,
        places: Sequence[Any],
        lease: RunContext,
        options: RunOptions | None,
    ) -> tuple[tuple[int, int] | None, list[bytes]]:
        """The failure, and what was written into the arrays that the segment allocates."""
        memory, mark = lease.memory, walls().mark()
        memory[SCRATCH] = 0  # offsets are addresses
        for own in scratch:
            ctypes.memset(own.address, FILLS[side], own.nbytes)
        made = {place for place, *_ in bound.allocations}
        taken = {place: self._stand_in(places[place], place, side, place not in made) for place in self.places}
        for place, stand_in in taken.items():
            memory[FIRST_PLACE + place] = stand_in.address if stand_in is not None else 0
        lease.job.attach(bound.table_address, lease.memory_address, bound.cost_us)
        failure = self._instructions(lease.job, bound.count, side, options)
        try:
            for place, stand_in in taken.items():
                if place not in made and stand_in is not None and _bytes(stand_in) != _contents(places[place], side):
                    raise GuardError(f"{self._names()}: wrote to array {place}, which it only may read")
            self._check_constants(side)
            return failure, [_bytes(stand_in) for place, *_ in bound.allocations if (stand_in := taken[place]) is not None]
        finally:
            if failure is None or side != SIDES[-1]:  # else the error looks at operands
                walls().release(mark)

    def _stand_in(self, array: Any, place: int, side: Side, filled: bool) -> Place | None:
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            return None
        taken = walls().take(array.nbytes, side, FILLS[side], f"{'input' if filled else 'output'} array {place} {array.shape}")
        if filled:
            ctypes.memmove(taken.address, _contents(array, side), array.nbytes)
        return taken

    def _instructions(self, job: Job, count: int, side: Side, options: RunOptions | None) -> tuple[int, int] | None:
        """Runs them one by one, as they jump: who dies is known."""
        index = 0
        while index < count:
            self._look(options)
            State.at = At(self.segment, index, side)
            if job.run(index, index + 1):
                State.at = "nothing native"
                return job.failure
            index = job.next
        State.at = "nothing native"
        return None

    def _check_constants(self, side: Side) -> None:
        """Nobody has written to them, but for the state of random numbers."""
        states = [i.operands[0] for i in self.segment.instructions if i.spec.function is next_stream]
        for array, place in self.both.sides[SIDES.index(side)].constants:
            is_state = any(buffer is not None and buffer.constant is array for buffer in states)
            if not is_state and _bytes(place) != array.tobytes():
                raise GuardError(f"{self._names()}: wrote to a constant")

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(str(instruction.node) for instruction in self.segment.instructions))


class BothSides(Binder):
    """Binds on both sides. What `bind` returns stands for both, and needs no scratch memory of the pool."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment)
        self.sides = [_fenced(segment, side) for side in SIDES]
        self.bounds: dict[int, list[tuple[Bound, list[Place]]]] = {}
        """By id of the one that was returned, both, and their scratch buffers."""

    def bind(self, values: Sequence[int]) -> Bound:
        made = [(binder.bind(values), binder.places) for binder in self.sides]
        self.bounds[id(made[0][0])] = made
        return made[0][0]


class FencedBinder(Binder):
    """Binds a segment whose constants are copies between walls; each scratch buffer gets a place of its exact size.

    Offsets are the addresses of these places.
    """

    def __init__(self, segment: Segment, constants: list[tuple[Array, Place]], side: Side) -> None:
        super().__init__(segment)
        self.constants, self.side = constants, side
        self.places: list[Place] = []

    def pack(self, sizes: Array) -> tuple[Array, int]:
        named = zip(sizes.tolist(), self.segment.names, strict=True)
        self.places = [walls().take(size, self.side, FILLS[self.side], f"scratch {name!r}") for size, name in named]
        return np.array([place.address for place in self.places], np.int64), 0


def _fenced(original: Segment, side: Side) -> FencedBinder:
    made = original.replace(initial=original.initial.copy())
    constants = []
    for array in original.keep:
        place = walls().take(array.nbytes, side, 0, f"constant {array.dtype} {array.shape}")
        ctypes.memmove(place.address, address_of(array), array.nbytes)
        made.initial[original.initial == address_of(array)] = place.address
        constants.append((array, place))
    return FencedBinder(made, constants, side)


def _contents(array: Array, side: Side) -> bytes:
    """The bytes of an array, as they are on that side."""
    known, other = State.differing.get(id(array), (None, b""))
    return other if known is array and side == SIDES[1] else array.tobytes()


def _bytes(place: Place) -> bytes:
    return ctypes.string_at(place.address, place.nbytes)


# --- Kernels that run while lowering
class GuardedOnce:
    """`once.run_once` on stand-ins for its arrays."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.entry = once._entry

    def address_of(self, array: Array) -> int:
        self.arrays.append(array)
        return address_of(array)

    def call(self, address: int) -> Callable[..., int]:
        arrays, self.arrays = self.arrays, []
        return partial(self._run, address, arrays)

    def _run(self, address: int, arrays: Sequence[Array], descriptor: int, memory: int, part: int, parts: int) -> int:
        words = (ctypes.c_int64 * (2 * len(arrays))).from_address(descriptor)
        found: list[tuple[int, list[bytes]]] = []
        for side in SIDES:
            mark = walls().mark()
            names = [f"operand {k} {array.shape} of a kernel at load" for k, array in enumerate(arrays)]
            taken = [walls().take(a.nbytes, side, FILLS[side], name) for a, name in zip(arrays, names, strict=True)]
            for k, (array, place) in enumerate(zip(arrays, taken, strict=True)):
                ctypes.memmove(place.address, address_of(array), array.nbytes)
                words[2 * k + 1] = place.address
            State.at = f"a kernel at load, arrays at the {side} of their rooms"
            status = self.entry(address)(descriptor, memory, part, parts)
            State.at = "nothing native"
            found.append((status, [_bytes(place) for place in taken]))
            walls().release(mark)
        if found[0] != found[1]:
            raise GuardError("a kernel at load: its results depend on where its arrays lie")
        for array, data in zip(arrays, found[0][1], strict=True):
            if array.flags.writeable:
                ctypes.memmove(address_of(array), data, len(data))
        return found[0][0]


@contextmanager
def guarded() -> Iterator[None]:
    """Within it, programs are lowered and run between walls, and whatever has work to share is shared, however small."""
    kernels = GuardedOnce()
    with ExitStack() as stack:
        for module, name, value in (
            (program, "SegmentRun", GuardedRun),
            (segment, "GRAIN", 1),
            (segment, "ROUND_GRAIN", 1),
            (segment, "PART_GRAIN", 0),
            (bind, "ALIGNMENT", 1),
            (once, "address_of", kernels.address_of),
            (once, "_entry", kernels.call),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


def check_written(outputs: Sequence[Any]) -> None:
    """Raises GuardError for outputs of a session that depend on memory that nobody wrote."""
    for k, output in enumerate(outputs):
        array, other = State.differing.get(id(output), (None, b""))
        if array is output and output is not None:
            raise GuardError(f"output {k} depends on what nobody wrote: {output!r:.300} or {other!r:.300}")


def forget() -> None:
    """Takes back all memory between walls: programs made so far must not run again."""
    walls().release()
    State.differing.clear()
