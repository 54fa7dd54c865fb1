"""The origin of a program: the nodes that it was lowered from, the sources of its bodies, and the constants that it consumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.graph import Graph, Node, Value
from ort_lite.provider import Body
from ort_lite.provider.abilities import prepares_calls
from ort_lite.record import Record
from ort_lite_cpu.lowering.lowered import HostStep, LoweringResult, Source
from ort_lite_cpu.program.segment_run import SegmentRun

LARGE = 1 << 16
"""The bytes of a constant from which on it is not kept beside what it was packed to."""


class ProgramOrigin(Record, frozen=False, eq=False):
    """The nodes that a program was lowered from, and what may take its place: runs need them only if their case was not foreseen."""

    LATER = frozenset({"source", "restorers", "spare"})

    source: Source
    restorers: Mapping[Value, Callable[[], Any]]
    """Functions that make the arrays of constants that were consumed."""
    spare: Any = None
    """The Program with calls, if it was created ahead."""


def prepare_bodies(bodies: Mapping[Graph, Body]) -> None:
    """Create the programs of bodies. What cannot be created now is an error of the run that calls it, if one ever does."""
    for body in bodies.values():
        for step in body.steps:
            if prepares_calls(step.function):
                with suppress(OrtLiteError, MemoryError):
                    step.function.prepare_calls()


def find_sources(bodies: Mapping[Graph, Body]) -> Iterator[Source]:
    """Yield the sources of bodies, and of those inside of them."""
    for body in bodies.values():
        for step in body.steps:
            source = getattr(step.function, "source", None)
            if isinstance(source, Source):
                yield source
                yield from find_sources(source.bodies)


def find_restorers(
    nodes: Sequence[Node], lowered: LoweringResult, steps: Sequence[SegmentRun | HostStep]
) -> dict[Value, Callable[[], Any]]:
    """Return functions that rebuild large constants which no instruction and no step reads in their original form."""
    if not lowered.restorers:
        return {}
    read: set[int] = set()
    for step in steps:
        if isinstance(step, SegmentRun):
            read.update(map(id, step.segment.keep))
        else:
            read.update(id(tensor.constant) for tensor in step.inputs if tensor is not None)
    found: dict[Value, Callable[[], Any]] = {}
    for node in nodes:
        for value in node.reads():
            if value is not None and value.constant is not None and value.constant.nbytes >= LARGE:
                array = id(value.constant)
                if array in lowered.restorers and array not in read:
                    found[value] = lowered.restorers[array]
    return found
