from collections.abc import Iterator

from ort_lite.commands.benchmark.operator import operator_model
from tests.benchmarks.rows import Row, row


def operators() -> Iterator[Row]:
    for n in (16, 64, 256, 1024):
        yield row(f"Relu {n}x64", operator_model("Relu", [(n, 64)]))
        yield row(f"Softmax {n}x64", operator_model("Softmax", [(n, 64)]))
        yield row(f"MatMul {n}x64x64", operator_model("MatMul", [(n, 64), (64, 64)], constants=[1]))
