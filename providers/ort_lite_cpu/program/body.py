"""The program of a body's partition, which nobody calls where its instructions are part of the program around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.inference import Info
from ort_lite.memory import locks
from ort_lite.provider import Partition
from ort_lite_cpu.lowering.lowered import Source
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.origin import prepare_bodies
from ort_lite_cpu.program.program import Program

if TYPE_CHECKING:
    from ort_lite.memory.planning.plan import MemoryPlan
    from ort_lite.provider.compiled import Holdings
    from ort_lite_cpu.program.image import ProgramImage


class BodyProgram:
    """Lowered when everything around it was and somebody will call it, or else by its first call: where shapes that were not
    foreseen have a program with calls.
    """

    LATER = frozenset({"source"})

    def __init__(self, partition: Partition, options: CPUOptions) -> None:
        self.source = Source(partition.nodes, partition.inputs, partition.outputs, partition.bodies, options)
        self._rules = partition.rules
        self._made: Program | None = None
        self._spare: Program | None = None
        """The program that was created ahead of the first call."""
        self._making = locks.lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock."""
        return {**vars(self), "_making": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._making = locks.lock()

    def prepare_calls(self) -> None:
        """Create the program ahead of the first call. Raises what lowering raises."""
        if self._made is None and self._spare is None:
            self._spare = self._lower()
            self._spare.prepare_calls()
        prepare_bodies(self.source.bodies)

    def complete(self) -> None:
        """See `ort_lite.provider.compiled.DefersCompile`."""
        if not self.source.inlined:
            self.program()

    def program(self) -> Program:
        """The program itself, made once. Raises what lowering raises."""
        made = self._made
        if made is None:
            with self._making:
                made = self._made
                if made is None:
                    made = self._made = self._spare or self._lower()
        return made

    def _lower(self) -> Program:
        source = self.source
        inputs = [(value, Info(value.type)) for value in source.inputs]
        return Program(source.nodes, inputs, source.outputs, self._rules, source.options, source.bodies)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return (self._made or self.program())(inputs)

    def machine_image(self, inputs: Sequence[Any], order: Sequence[int] | None = None) -> ProgramImage:
        """Return the image of a body that is looked at by itself."""
        return self.program().machine_image(inputs, order)

    # What it says of itself lowers nothing.

    def facts(self) -> Mapping[str, int | str]:
        """Return the facts of the body's program."""
        return {"inlined": 1} if self._made is None else self._made.facts()

    def memory(self) -> Holdings:
        """Return the bytes that the body's program holds."""
        return {"arrays": [], "plans": 0, "plan_bytes": 0} if self._made is None else self._made.memory()

    def memory_plan(self) -> MemoryPlan:
        """Return the memory plan of the body's program."""
        from ort_lite_cpu.program.plans import memory_plan

        return memory_plan([], self.source.options.planner.name) if self._made is None else self._made.memory_plan()

    def trim(self) -> None:
        """Free what the next run can compute again."""
        if self._made is not None:
            self._made.trim()
