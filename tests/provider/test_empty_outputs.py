"""Results without elements come from shapes alone."""

import numpy as np
import pytest

from ort_lite.graph import Node, TensorType, Type, Value
from ort_lite.inference import ShapeRules
from ort_lite.provider import ExecutionProvider, Partition
from ort_lite.provider.empty_outputs import empty_outputs
from ort_lite.shapes import symbol

N, M = symbol("N"), symbol("M")


def partition(inputs: list[Type], outputs: list[Type]) -> Partition:
    values = [Value(f"x{k}", type_) for k, type_ in enumerate(inputs)]
    made = [Value(f"y{k}", type_) for k, type_ in enumerate(outputs)]
    node = Node("Any", values, made)
    return Partition("p", ExecutionProvider(), (node,), tuple(values), tuple(made), ShapeRules(()))


def test_empty_outputs_have_the_shapes_and_types_that_inference_knows() -> None:
    ask = empty_outputs(
        partition([TensorType("float32", (N, 3))], [TensorType("float32", (N, 5)), TensorType("int64", (2 * N,))])
    )
    answer = ask([np.empty((0, 3), np.float32)])
    assert answer is not None
    assert [(array.shape, array.dtype.name) for array in answer] == [((0, 5), "float32"), ((0,), "int64")]


@pytest.mark.parametrize(
    ("inputs", "outputs", "sizes"),
    [
        ([TensorType("float32", (N, 3))], [TensorType("float32", (N, 5))], [(2, 3)]),
        ([TensorType("float32", (N, M))], [TensorType("float32", (M,))], [(0, 4)]),
        ([TensorType("float32", (N,))], [TensorType("float32", (symbol("k"),))], [(0,)]),
        ([TensorType("float32", (N,))], [TensorType("float32", None)], [(0,)]),
        ([TensorType("float32", (N,))], [TensorType("string", (N,))], [(0,)]),
        ([TensorType("float32", (0,))], [TensorType("float32", (0,))], [(0,)]),
    ],
    ids=["elements", "output with elements", "length unknown", "rank unknown", "strings", "fixed shapes"],
)
def test_everything_else_is_computed(inputs: list[Type], outputs: list[Type], sizes: list[tuple[int, ...]]) -> None:
    assert empty_outputs(partition(inputs, outputs))([np.empty(size, np.float32) for size in sizes]) is None
