"""Tensors and their lifetimes -> MemoryPlan. A planner is one method, `pack`; all else is common to them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.free_list import FreeList, MemoryActiveBlock, MemoryFreeBlock
from ort_lite.memory.lifetimes import TensorId, TensorLifetime, alias_classes
from ort_lite.memory.plan import (
    ArenaRole,
    ArenaUsage,
    Certificate,
    MemoryConstraint,
    MemoryPlan,
    MemoryType,
    Platform,
    TensorAllocation,
    TensorBinding,
    align_up,
    power_of_two,
)

__all__ = [
    "PLANNERS",
    "ArenaRole",
    "ArenaUsage",
    "Block",
    "BySizeMemoryPlanner",
    "Certificate",
    "GreedyMemoryPlanner",
    "MemoryActiveBlock",
    "MemoryConstraint",
    "MemoryFreeBlock",
    "MemoryPlan",
    "MemoryPlanner",
    "MemoryPlannerType",
    "MemoryType",
    "Platform",
    "TensorAllocation",
    "TensorAttributes",
    "TensorBinding",
    "TensorRequest",
    "create_planner",
]
