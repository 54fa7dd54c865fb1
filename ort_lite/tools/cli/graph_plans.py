"""Plans for memories that a user states, made from a graph: one operator per node, for devices that do not plan themselves."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.types import TensorType
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import Info, constant_info
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.planner import MemoryPlanner
from ort_lite.memory.planning.program_requests import PlannedProgram
from ort_lite.provider import Partition


class GraphPlans:
    """Plans the partitions of a graph for the shapes of a run."""

    def __init__(self, graph: Graph, feeds: Mapping[str, Any], memories: Memories, planner: MemoryPlanner) -> None:
        self._graph, self._memories, self._planner = graph, memories, planner
        self._given = [_info(feeds.get(value.name), value) for value in graph.inputs]
        self._inference: Inference | None = None

    def plan(self, partition: Partition) -> MemoryPlan:
        """Plan a partition. Raises InvalidArgument for a tensor whose size only a run tells."""
        plan = self._memories.plan(self._planner, self.program(partition).requests(self._memories), {})
        plan.steps.update((memory, [node.name for node in partition.nodes]) for memory in plan.arena_usages)
        return plan

    def program(self, partition: Partition) -> PlannedProgram:
        """Return the nodes of a partition as a program to plan. Raises InvalidArgument as `plan` does."""
        if self._inference is None:
            self._inference = Inference(partition.rules, inferred=True, certain=False)
            self._inference.run(self._graph, self._given)
        operators = []
        sizes: dict[str, int] = {}
        for node in partition.nodes:
            used = [value for value in (*node.reads(), *node.outputs) if value is not None]
            operators.append([value.name for value in used])
            sizes.update((value.name, self._size(value)) for value in used if value.name not in sizes)
        return PlannedProgram(
            operators,
            sizes,
            constants={value.name: None for value in partition.constants},
            inputs={value.name for value in partition.inputs},
            outputs={value.name for value in partition.outputs},
        )

    def _size(self, value: Value) -> int:
        assert self._inference is not None
        for found in (value.type, self._inference.of(value).type):
            shape = found.shape if isinstance(found, TensorType) else None
            sizes = [dim for dim in shape or () if isinstance(dim, int)]
            if isinstance(found, TensorType) and shape is not None and len(sizes) == len(shape):
                return prod(sizes) * to_numpy(found.dtype).itemsize
        raise InvalidArgument(f"the size of tensor {value.name!r} does not follow from the shapes of the inputs")


def _info(fed: Any, value: Value) -> Info:
    """Return the type and contents that an input has in a run."""
    return constant_info(fed) if isinstance(fed, np.ndarray) else Info(value.type)
