"""What every instruction took, while a session profiles: programs made meanwhile run one instruction at a time.

Without profiling there is no `Recording`, and nothing of this is on the way of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import get_native_id
from time import perf_counter_ns
from typing import Any

from ort_lite.dtypes import from_numpy
from ort_lite.provider import ProfileEvent, RunOptions
from ort_lite.shapes import substitute
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.lowered import HostStep, Instruction
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.options import Recorder
from ort_lite_cpu.program.bind import Binder, Bound
from ort_lite_cpu.program.segment import Segment
from ort_lite_cpu.program.segment_run import SegmentRun
from ort_lite_cpu.run.lease import Lease
from ort_lite_cpu.run.loop import Halt, Job


class Recording:
    """Collects from any thread; `events` says it in words, once, and ends the recording."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], ProfileEvent], int]] = []
        self._ended = False

    def note(self, event: Callable[[], ProfileEvent]) -> None:
        if not self._ended:
            self._calls.append((event, get_native_id()))  # one append: safe from many threads

    def events(self) -> Iterator[ProfileEvent]:
        self._ended = True
        calls, self._calls = self._calls, []
        return (call().replace(thread=thread) for call, thread in calls)


def timed(step: HostStep, recorder: Recorder) -> HostStep:
    """The step, noting every call."""

    def function(*arrays: Any) -> Sequence[Any]:
        begin = perf_counter_ns()
        try:
            return step.function(*arrays)
        finally:
            end = perf_counter_ns()
            kind = "python" if step.python else "control flow"
            args = {"op_name": step.node.op_type, "kernel": kind}
            recorder.note(lambda: ProfileEvent(step.node.name, begin, end, args))

    return step.replace(function=function)


class RecordedRun(SegmentRun):
    """A segment that runs one instruction after the other, each an event."""

    __slots__ = ("primary", "recorder")

    def __init__(
        self,
        segment: Segment,
        binder: Binder,
        needs: tuple[int, int],
        recorder: Recorder,
        primary: Mapping[Buffer, Tensor],
    ) -> None:
        """`primary`: see `Lowered`."""
        super().__init__(segment, binder, needs)
        self.recorder, self.primary = recorder, primary

    def run(self, bound: Bound, places: list[Any], lease: Lease, options: RunOptions | None) -> None:
        if lease.fits is not self.needs:
            lease.fit(self.needs)
        job, lease.job = lease.job, _RecordedJob(lease.job, self, bound)  # type: ignore[assignment]  # what `run` calls of it
        try:
            self._run_anew(bound, places, lease, options)
        finally:
            lease.job, lease.attached = job, None

    def event(self, bound: Bound, index: int, begin: int, end: int) -> ProfileEvent:
        """Of one instruction: named after its node."""
        instruction = self.segment.instructions[index]
        sizes = {symbol.name: value for (symbol, _), value in zip(self.segment.leaves, bound.values, strict=True)}
        args = {
            "op_name": instruction.node.op_type,
            "kernel": instruction.spec.name.rpartition(".")[2],
            "shapes": ", ".join(self._shapes(instruction, sizes)),
            "bytes": str(sum(_number(buffer.nbytes, sizes) for buffer in instruction.operands if buffer is not None)),
            "parts": str(int(bound.table[index, 2])),
        }
        return ProfileEvent(instruction.node.name, begin, end, args)

    def _shapes(self, instruction: Instruction, sizes: Mapping[str, int]) -> Iterator[str]:
        """Of the operands, in the order in which they are stored."""
        for buffer in instruction.operands:
            tensor = self.primary.get(buffer) if buffer is not None else None
            if buffer is None:
                yield "-"
            elif buffer.constant is not None:
                yield f"{from_numpy(buffer.constant.dtype)}{list(buffer.constant.shape)}"
            else:
                assert tensor is not None
                yield f"{tensor.dtype}{[_number(dim, sizes) for dim in tensor.stored_shape]}"


class _RecordedJob:
    """A Job that goes through its instructions one by one."""

    def __init__(self, job: Job, run: RecordedRun, bound: Bound) -> None:
        self._job, self._run, self._bound = job, run, bound

    def attach(self, table: int, memory: int, cost_us: float, hold: bool, wanted: int) -> None:
        self._job.attach(table, memory, cost_us, hold, wanted)

    def watch(self, halt: Halt, frame: int = 0) -> None:
        self._job.watch(halt, frame)

    @property
    def failure(self) -> tuple[int, int]:
        return self._job.failure

    def run(self, start: int, stop: int) -> int:
        note, event, index = self._run.recorder.note, self._run.event, start
        while start <= index < stop:
            begin = perf_counter_ns()
            failed = self._job.run(index, index + 1)
            end = perf_counter_ns()
            note(partial(event, self._bound, index, begin, end))
            if failed:
                return failed
            index = self._job.next
        return 0


def _number(dim: Dim, sizes: Mapping[str, int]) -> int:
    found = substitute(dim, sizes)
    assert isinstance(found, int), f"{dim} has no value"
    return found
