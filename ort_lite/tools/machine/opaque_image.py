"""The image of a partition that is a single instruction."""

from collections.abc import Callable, Sequence
from typing import Any

from ort_lite.graph.graph import Node
from ort_lite.memory.arenas import CACHE_LINE, Bytes
from ort_lite.memory.planning.requests import align_up
from ort_lite.provider.machine_image import MachineInstruction, Region, TableEntry, entry_of, store


class OpaqueImage:
    """The image of a partition whose provider does not expose its instructions: the whole partition is one."""

    def __init__(
        self, name: str, function: Callable[[Sequence[Any]], Sequence[Any]], nodes: Sequence[Node], inputs: Sequence[Any]
    ) -> None:
        self._function, self._node, self._given = function, nodes[-1], list(inputs)
        self.results = list(function(self._given))
        self.inputs = tuple(f"{name}/input {k}" for k in range(len(self._given)))
        self.outputs = tuple(f"{name}/output {k}" for k in range(len(self.results)))
        self.table: dict[str, TableEntry] = {}
        self.regions: list[Region] = []
        end = 0
        for role, names, arrays in (("input", self.inputs, self._given), ("place", self.outputs, self.results)):
            for key, array in zip(names, arrays, strict=True):
                self.table[key] = entry_of(key, array, end)
                self.regions.append(Region(role, end, self.table[key].nbytes))
                end = align_up(self.table[key].end, CACHE_LINE)
        self.nbytes = end

    def load(self, memory: Bytes) -> Sequence[MachineInstruction]:
        """Attach the memory and return the instructions."""
        self._memory = memory
        for key, array in zip(self.inputs, self._given, strict=True):
            self.table[key].view(memory)[...] = array
        execute = self._execute
        return [MachineInstruction(self._node, "partition", (*self.inputs, *self.outputs), execute)]

    def run(self, start: int, stop: int) -> None:
        """Run the instructions from `start` to `stop` - 1."""
        for _ in range(start, stop):
            self._execute()

    def _execute(self) -> None:
        results = self._function([self.table[key].view(self._memory) for key in self.inputs])
        for key, result in zip(self.outputs, results, strict=True):
            store(self.table[key], self._memory, result, key)
