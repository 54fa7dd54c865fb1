"""The least that an execution provider is: claims nodes, runs partitions. A test counts its lines."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection

FUNCTIONS = {"Abs": np.abs, "Neg": np.negative, "Tanh": np.tanh}


class MinimalExecutionProvider(ExecutionProvider):
    name = "MinimalExecutionProvider"

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            known = node.op_type in FUNCTIONS
            yield Capability([node]) if known else Rejection(node, "operator", "is not known")

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [partial(evaluate, partition) for partition in partitions]


def evaluate(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = dict(zip(partition.inputs, inputs, strict=True))
    for node in partition.nodes:
        values[node.output] = np.asarray(FUNCTIONS[node.op_type](values[node.inputs[0]]))
    return [values[value] for value in partition.outputs]
