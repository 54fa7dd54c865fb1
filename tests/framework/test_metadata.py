"""NodeArgs: declared types, and what inference knows better."""

import pytest

from ort_lite.graph import SequenceType, TensorType, Type, Value
from ort_lite.session.metadata import NodeArg, node_args, refined
from ort_lite.shapes import symbol

N, M, OPEN = symbol("N"), symbol("M"), symbol("x_0")


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (TensorType("float32", (N, 3, OPEN)), NodeArg("x", "tensor(float)", ["N", 3, None])),
        (TensorType("string", ()), NodeArg("x", "tensor(string)", [])),
        (TensorType("bool"), NodeArg("x", "tensor(bool)", [])),
        (SequenceType(TensorType("int64")), NodeArg("x", "seq(tensor(int64))", [])),
    ],
)
def test_a_value_is_described(type_: Type, expected: NodeArg) -> None:
    assert node_args([Value("x", type_)], {"x_0": ""}) == [expected]


@pytest.mark.parametrize(
    ("inferred", "shape"),
    [
        (TensorType("float32", (N, 4)), ["N", 4]),  # declared wrong: inference holds
        (TensorType("float32", (N + 1, 2 * N)), ["M", 7]),  # nothing that has a name: the declaration stays
        (TensorType("float32", (OPEN, 7)), ["M", 7]),
        (TensorType("float32", (1, 2, 3)), [1, 2, 3]),  # another rank
        (TensorType("float32", (N + 1, 2, 3)), [None, 2, 3]),
        (TensorType("float32"), ["M", 7]),
        (None, ["M", 7]),
    ],
    ids=str,
)
def test_inference_refines_what_is_declared(inferred: Type | None, shape: list[int | str | None]) -> None:
    (arg,) = refined([NodeArg("y", "tensor(float)", ["M", 7])], [Value("y", inferred)], {"N", "M"})
    assert arg == NodeArg("y", "tensor(float)", shape)


def test_inference_knows_the_type() -> None:
    (arg,) = refined([NodeArg("y", "unknown", [])], [Value("y", TensorType("float16", (2,)))], set())
    assert arg == NodeArg("y", "tensor(float16)", [2])
