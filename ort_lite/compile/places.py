"""The main graph once more, around partitions that are compiled already, for values that a user keeps on devices."""

from collections.abc import Mapping, Sequence

from ort_lite.compile.compile import Compiled
from ort_lite.compile.linking import Linker
from ort_lite.execute.execute import Executable
from ort_lite.graph.graph import Value
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.borders import copies
from ort_lite.provider.provider import CPU, DataTransfer, Device, ExecutionProvider
from ort_lite.record import Record, field


class Places(Record):
    """Where values of a run are that a user keeps on devices.

    An Executable for them takes, behind its inputs, the values of `inputs`, which stand in their own places with what tells their
    shapes alone; it gives `outputs` and no other, those with a provider in the memory of its device, the others on the CPU.
    """

    inputs: Mapping[Value, Device] = field(default_factory=dict)
    outputs: Mapping[Value, ExecutionProvider | None] = field(default_factory=dict)


def compiled_for(places: Places, assignment: Assignment, compiled: Compiled, transfers: Sequence[DataTransfer]) -> Executable:
    """Steps for values in these places. Raises ProviderError where no transfer reaches a device. O(values)."""
    main = assignment.levels[0]
    wanted = {value: CPU if provider is None else provider.device for value, provider in places.outputs.items()}
    level = main.replace(copies=copies(main.graph, main.partitions, transfers, places.inputs, wanted))
    order = [p.name for level in reversed(assignment.levels) for p in level.partitions]  # as they were compiled
    return Linker(level, (), dict(zip(order, compiled.called, strict=True)), places).executable()
