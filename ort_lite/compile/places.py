"""Where the values of a run are, for steps around partitions that are compiled already."""

from collections.abc import Mapping

from ort_lite.graph.graph import Value
from ort_lite.provider.provider import Device, ExecutionProvider
from ort_lite.record import Record, field


class Places(Record):
    """Where values of a run are that a user keeps on devices.

    An Executable for them takes, behind its inputs, the values of `inputs`, which stand in their own places with what tells their
    shapes alone; it gives `outputs` and no other, those with a provider in the memory of its device, the others on the CPU.
    """

    inputs: Mapping[Value, Device] = field(default_factory=dict)
    outputs: Mapping[Value, ExecutionProvider | None] = field(default_factory=dict)
