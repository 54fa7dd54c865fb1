"""The contract between ort_lite and an execution provider: everything that a provider's author imports."""

from ort_lite.memory.planning.offsets import BufferRequest, Offsets, plan_offsets
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.provider.current import CURRENT, RECORDED, StepEvents, run_events, run_options
from ort_lite.provider.provider import (
    API_VERSION,
    CPU,
    Allocator,
    Body,
    Capability,
    CompiledPartition,
    DataTransfer,
    Device,
    ExecutionProvider,
    GraphView,
    Overhead,
    Partition,
    ProfileEvent,
    Rejection,
    Resource,
)

__all__ = [
    "API_VERSION",
    "CPU",
    "CURRENT",
    "RECORDED",
    "Allocator",
    "Body",
    "BufferRequest",
    "Capability",
    "CompiledPartition",
    "DataTransfer",
    "Device",
    "ExecutionProvider",
    "GraphView",
    "Offsets",
    "Overhead",
    "Partition",
    "ProfileEvent",
    "Rejection",
    "Resource",
    "RunOptions",
    "SessionOptions",
    "StepEvents",
    "plan_offsets",
    "run_events",
    "run_options",
]
