"""Operations by the definitions of operators, counted by hand."""

from typing import Any

import pytest

from ort_lite.graph import Node, TensorType, Value
from ort_lite.partition.cost.work import bytes_read, operations, sizes_of
from ort_lite.shapes.dims import symbol

Shapes = list[tuple[Any, ...] | None]


def node(op_type: str, inputs: Shapes, outputs: Shapes, domain: str = "", **attributes: Any) -> Node:
    values = [
        None if shape is None else Value(f"v{k}", TensorType("float32", shape)) for k, shape in enumerate(inputs + outputs)
    ]
    version = 1 if domain else 24
    return Node(op_type, values[: len(inputs)], values[len(inputs) :], attributes, domain=domain, version=version)


MS = "com.microsoft"
CASES: list[tuple[Node, int]] = [
    # 2 * outputs * channels of a group * kernel
    (node("Conv", [(1, 8, 10, 10), (16, 8, 3, 3)], [(1, 16, 8, 8)]), 2 * 16 * 64 * 8 * 9),
    (node("Conv", [(1, 8, 10, 10), (8, 1, 3, 3)], [(1, 8, 8, 8)], group=8), 2 * 8 * 64 * 9),
    (node("FusedConv", [(1, 8, 10), (4, 8, 5), (4,)], [(1, 4, 6)], MS), 2 * 4 * 6 * 8 * 5),
    (node("ConvInteger", [(1, 8, 10), (4, 8, 5)], [(1, 4, 6)]), 2 * 4 * 6 * 8 * 5),
    (node("QLinearConv", [(1, 8, 10), (), (), (4, 8, 5), (), (), (), ()], [(1, 4, 6)]), 2 * 4 * 6 * 8 * 5),
    # 2 * inputs * channels of a group that come out * kernel
    (node("ConvTranspose", [(1, 8, 5, 5), (8, 4, 2, 2)], [(1, 4, 10, 10)]), 2 * 8 * 25 * 4 * 4),
    (node("MatMul", [(7, 3, 5), (7, 5, 11)], [(7, 3, 11)]), 2 * 7 * 3 * 5 * 11),
    (node("MatMul", [(5,), (5,)], [()]), 2 * 5),
    (node("MatMulInteger", [(3, 5), (5, 11)], [(3, 11)]), 2 * 3 * 5 * 11),
    (node("QLinearMatMul", [(3, 5), (), (), (5, 11), (), (), (), ()], [(3, 11)]), 2 * 3 * 5 * 11),
    (node("Gemm", [(3, 5), (5, 11), (11,)], [(3, 11)]), 2 * 3 * 5 * 11),
    (node("Gemm", [(5, 3), (5, 11)], [(3, 11)], transA=1), 2 * 3 * 5 * 11),
    (node("FusedMatMul", [(3, 5), (11, 5)], [(3, 11)], MS, transB=1), 2 * 3 * 5 * 11),
    (node("MatMulNBits", [(3, 64), (11, 2, 16), (22,)], [(3, 11)], MS, K=64, N=11), 2 * 3 * 64 * 11),
    # X (T, B, I), W (D, gates * H, I), R (D, gates * H, H)
    (node("LSTM", [(6, 2, 3), (1, 16, 3), (1, 16, 4)], [(6, 1, 2, 4)]), 2 * 6 * 2 * 16 * (3 + 4)),
    (node("GRU", [(6, 2, 3), (2, 12, 3), (2, 12, 4)], [None, (2, 2, 4)]), 2 * 6 * 2 * 2 * 12 * (3 + 4)),
    # queries by keys, probabilities by values
    (node("Attention", [(1, 4, 6, 8), (1, 4, 10, 8), (1, 4, 10, 5)], [(1, 4, 6, 5)]), 2 * 4 * 6 * 10 * (8 + 5)),
    (
        node("Attention", [(1, 4, 6, 8), (1, 4, 10, 8), (1, 4, 10, 8), None, (1, 4, 3, 8), (1, 4, 3, 8)], [(1, 4, 6, 8)]),
        2 * 4 * 6 * (10 + 3) * (8 + 8),
    ),
    (node("MultiHeadAttention", [(2, 6, 32), (2, 10, 32), (2, 10, 32)], [(2, 6, 32)], MS), 4 * 2 * 6 * 10 * 32),
    (node("GroupQueryAttention", [(1, 1, 32), (1, 1, 8), (1, 1, 8), (1, 2, 9, 4)], [(1, 1, 32)], MS), 4 * 10 * 32),
    (node("Attention", [(2, 6, 32), (32, 96), (96,)], [(2, 6, 32)], MS), 2 * 2 * 6 * 32 * 96 + 4 * 2 * 6 * 6 * 32),
    (
        node("FlexAttention", [(1, 2, 6, 8), (1, 2, 10, 8), (1, 2, 10, 5)], [(1, 2, 6, 5)], "ai.onnx.preview"),
        2 * 2 * 6 * 10 * 13,
    ),
    (node("QAttention", [(2, 6, 32), (32, 96), (96,)], [(2, 6, 32)], MS), 2 * 2 * 6 * 32 * 96 + 4 * 2 * 6 * 6 * 32),
    # two heads, with states (4, 5)
    (node("LinearAttention", [(1, 3, 8), (1, 3, 8), (1, 3, 10)], [(1, 3, 10)], MS, q_num_heads=2), 4 * 3 * 2 * 4 * 5),
    (node("QLinearAveragePool", [(1, 2, 8, 8)], [(1, 2, 4, 4)], MS, kernel_shape=[3, 3]), 2 * 16 * 9),
    (node("Einsum", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], equation="bij, bjk -> bik"), 2 * 2 * 3 * 4 * 5),
    (node("Einsum", [(2, 3)], [(3, 2)], equation="...ij->...ji"), 6),
    (node("MaxPool", [(1, 2, 8, 8)], [(1, 2, 4, 4)], kernel_shape=[3, 3]), 2 * 16 * 9),
    (node("GlobalAveragePool", [(1, 2, 8, 8)], [(1, 2, 1, 1)]), 128),
    (node("ReduceSum", [(4, 9)], [(4, 1)]), 36),
    (node("ArgMax", [(4, 9)], [(4, 1)]), 36),
    (node("Softmax", [(4, 9)], [(4, 9)]), 4 * 36),
    (node("BatchNormalization", [(1, 2, 3), (2,), (2,), (2,), (2,)], [(1, 2, 3)]), 2 * 6),
    (node("Add", [(4, 1), (9,)], [(4, 9)]), 36),
    (node("Erf", [(4, 9)], [(4, 9)]), 36),
    (node("Transpose", [(4, 9)], [(9, 4)]), 0),
    (node("Reshape", [(4, 9), (1,)], [(36,)]), 0),
    (node("Sin", [], []), 0),
]


@pytest.mark.parametrize(("one", "expected"), CASES, ids=lambda case: str(getattr(case, "op_type", case)))
def test_operations_are_those_of_the_definition(one: Node, expected: int) -> None:
    assert operations(one, sizes_of({})) == expected


def test_free_dimensions_have_the_sizes_of_the_feeds() -> None:
    n = symbol("N")
    product = node("MatMul", [(n, 5), (5, 2 * n)], [(n, 2 * n)])
    assert operations(product, sizes_of({"N": 3})) == 2 * 3 * 5 * 6
    with pytest.raises(KeyError):
        operations(product, sizes_of({}))


def test_what_picks_reads_what_it_writes() -> None:
    gather = node("Gather", [(30000, 8), (4,)], [(4, 8)])
    assert bytes_read(gather, 0, 960000.0, 128.0) == 128
    assert bytes_read(gather, 1, 32.0, 16.0) == 32
    assert bytes_read(node("Add", [(9,), (9,)], [(9,)]), 0, 36.0, 12.0) == 36
