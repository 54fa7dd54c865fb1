"""Providers that are off in one way each, and models to see it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser

from ort_lite.graph import Node, Value
from ort_lite.provider import CompiledPartition, Partition
from tests.provider.numpy_provider import NumpyProvider, run_node

Change = Callable[[Node, Any], Any]


class Off(NumpyProvider):
    """Computes as NumpyProvider does, and then `change(node, result)` of each node's first output."""

    name = "OffExecutionProvider"

    def __init__(self, change: Change, **more: Any) -> None:
        super().__init__(**more)
        self.change = change

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [partial(self._evaluate, partition) for partition in partitions]

    def _evaluate(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values: dict[Value, Any] = dict(zip(partition.inputs, inputs, strict=True))
        for node in partition.nodes:
            run_node(node, values, partition.bodies)
            values[node.output] = self.change(node, values[node.output])
        return [values[value] for value in partition.outputs]


def shifted(*operators: str) -> Change:
    return lambda node, y: y + np.float32(0.25) if node.op_type in operators else y


def poisoned(operator: str) -> Change:
    """NaN in the last element."""

    def change(node: Node, y: Any) -> Any:
        if node.op_type == operator:
            y = y.copy()
            y.flat[-1] = np.nan
        return y

    return change


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')


CHAIN = model("(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Mul(c, c)  y = Sub(d, a) }")
FEED = {"x": np.array([[0.5, -1.5, 2]], np.float32)}
LOOP = model("""(float[3] x, int64 n) => (float[3] y) <bool go = {1}> {
    y = Loop (n, go, x) <body = trip (int64 i, bool c, float[3] v) => (bool c_out, float[3] w) {
        c_out = Identity(c)
        u = Tanh(v)
        w = Neg(u)
    }>
}""")
