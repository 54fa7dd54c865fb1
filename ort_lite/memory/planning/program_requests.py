"""Requests for the tensors of a program: a sequence of operators that read and write them."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ort_lite.memory.planning.lifetimes import TensorId
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.requests import ArenaRole, TensorRequest


class PlannedProgram(NamedTuple):
    """A program to plan. `operators` are the tensors that each operator reads or writes; `sizes` has the bytes of each tensor.

    A tensor in none of the collections is scratch. `inputs` and `outputs` lie in memory of the caller's.
    """

    operators: Sequence[Collection[TensorId]]
    sizes: Mapping[TensorId, int]
    constants: Collection[TensorId] = ()
    states: Collection[TensorId] = ()
    inputs: Collection[TensorId] = ()
    outputs: Collection[TensorId] = ()

    def requests(self, memories: Memories) -> list[TensorRequest]:
        """Return a request for each tensor that an operator uses, constants first."""
        uses: dict[TensorId, list[int]] = {name: [] for name in self.constants}
        for step, names in enumerate(self.operators):
            for name in dict.fromkeys(names):
                uses.setdefault(name, []).append(step)
        return [self._request(memories, name, tuple(found)) for name, found in uses.items()]

    def _request(self, memories: Memories, name: TensorId, uses: tuple[int, ...]) -> TensorRequest:
        size = self.sizes[name]
        if name in self.inputs:
            return TensorRequest(name, size, attributes=memories.of_caller, uses=uses, outside="input")
        if name in self.outputs:
            return TensorRequest(name, size, attributes=memories.of_caller, uses=uses, outside="output")
        is_constant, is_state = name in self.constants, name in self.states
        role = ArenaRole.constant if is_constant else ArenaRole.persistent if is_state else ArenaRole.scratch
        return TensorRequest(name, size, role, memories.attributes(role), uses=uses)
