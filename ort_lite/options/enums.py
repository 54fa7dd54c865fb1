"""What onnxruntime's enums do: they are numbers, and their texts are their names."""

from enum import Enum, IntEnum


class NamedNumber(IntEnum):
    """`str` of a member is "ExecutionMode.ORT_PARALLEL", where an IntEnum's is its number."""

    __str__ = Enum.__str__
