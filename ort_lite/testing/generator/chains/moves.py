"""Consecutive transposes, reshapes and casts, and nodes that return their input."""

from typing import Any

import numpy as np

from ort_lite.dtypes import to_onnx
from ort_lite.testing.generator.chain import ChainDraft, chain_for

UNARY = ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp", "Floor", "Ceil", "Elu", "LeakyRelu", "Softplus", "Softsign")
BINARY = ("Add", "Sub", "Mul", "Div", "Less", "Greater", "Equal")


def permutation(chain: ChainDraft, x: str) -> list[int]:
    """Return a random permutation of a value's axes."""
    rank = len(chain.shape(x))
    return chain.rng.sample(range(rank), rank)


@chain_for("merge_transposes")
def transposes(chain: ChainDraft) -> None:
    """Append two transposes, of which the second sometimes undoes the first."""
    x = chain.value(2)
    first = permutation(chain, x)
    y = chain.node("Transpose", x, perm=first)
    undo = [int(axis) for axis in np.argsort(first)]
    z = chain.node("Transpose", y, perm=undo if chain.chance(0.4) else permutation(chain, y))
    chain.node("Relu", z)


@chain_for("sink_transpose_below_unary")
def transpose_unary(chain: ChainDraft) -> None:
    """Append a Transpose, activations and usually a Transpose back."""
    x = chain.value(2)
    perm = permutation(chain, x)
    y = chain.node(chain.rng.choice(UNARY), chain.node("Transpose", x, perm=perm))
    if chain.chance(0.6):
        chain.node("Transpose", y, perm=[int(axis) for axis in np.argsort(perm)])


def comparable(chain: ChainDraft) -> str:
    """Return a binary operator that supports float32 at this opset."""
    return chain.rng.choice(BINARY if chain.opset >= 11 else BINARY[:4])


@chain_for("sink_two_transposes")
def two_transposes(chain: ChainDraft) -> None:
    """Combine two values that are transposed the same way."""
    a = chain.value(2)
    b = chain.fresh(chain.shape(a))
    perm = permutation(chain, a)
    left, right = (chain.node("Transpose", one, perm=perm) for one in (a, b))
    chain.node(comparable(chain), left, right)


@chain_for("sink_transpose_below_constant")
def transpose_constant(chain: ChainDraft) -> None:
    """Combine a transposed value with a constant that broadcasts to it."""
    x = chain.value(2)
    y = chain.node("Transpose", x, perm=permutation(chain, x))
    other = chain.constant(chain.draw.broadcastable(chain.shape(y), wider=False))
    chain.node(comparable(chain), *((y, other) if chain.chance(0.6) else (other, y)))


@chain_for("merge_reshapes")
def reshapes(chain: ChainDraft) -> None:
    """Append a change of shape and a Reshape to another one, which sometimes copies a dimension."""
    x = chain.value(1, least=1)
    shape = chain.shape(x)
    kind = chain.rng.choice(("Reshape", "Flatten", "Unsqueeze"))
    if kind == "Flatten":
        y = chain.node("Flatten", x, axis=chain.draw.integer(0, len(shape)))
    elif kind == "Unsqueeze":
        y = chain.node("Unsqueeze", x, chain.ints(0)) if chain.opset >= 13 else chain.node("Unsqueeze", x, axes=[0])
    else:
        y = chain.node("Reshape", x, chain.ints(-1))
    chain.node("Reshape", y, chain.ints(*chain.rng.choice([shape, shape[::-1], (-1,), (1, -1), (0, -1)])))


@chain_for("merge_casts")
def casts(chain: ChainDraft) -> None:
    """Append a Cast to a wider type, or one that loses digits, and a Cast from there."""
    kind, middle = chain.rng.choice(
        (
            ("float32", "float64"),
            ("float16", "float32"),
            ("float16", "float64"),
            ("int32", "int64"),
            ("int32", "float64"),
            ("uint8", "int32"),
            ("int8", "float32"),
            ("bool", "float32"),
            ("float32", "float16"),
            ("float64", "float16"),
            ("float64", "float32"),
            ("int32", "bool"),
        )
    )
    y = chain.node("Cast", chain.value(kind=kind), to=to_onnx(middle))
    last = chain.rng.choice([kind, "float32"])
    z = chain.node("Cast", y, to=to_onnx(last))
    if last == "float32":
        chain.node("Relu", z)


@chain_for("remove_no_op")
def no_op(chain: ChainDraft) -> None:
    """Append a node without effect between two others, because a graph keeps the names of its inputs and outputs."""
    x = chain.node("Relu", chain.value(1))
    kind = chain.rng.choice(("Identity", "Dropout", "Cast", "Transpose"))
    attributes: dict[str, dict[str, Any]] = {
        "Cast": {"to": to_onnx("float32")},
        "Transpose": {"perm": list(range(len(chain.shape(x))))},
    }
    chain.node("Neg", chain.node(kind, x, **attributes.get(kind, {})))


@chain_for("remove_same_shape")
def same_shape(chain: ChainDraft) -> None:
    """Append a node that returns its input, for example a Reshape to the shape it already has."""
    x = chain.node("Relu", chain.value(1, least=1))
    shape = chain.shape(x)
    kind = chain.rng.choice(("Reshape", "Expand", "Concat", "Sum", "Mean", "Max", "Tile", "Flatten"))
    if kind == "Expand" and chain.opset < 8:
        kind = "Reshape"
    counts = {"Reshape": shape, "Expand": shape, "Tile": [1] * len(shape)}
    operands = [x, chain.ints(*counts[kind])] if kind in counts else [x]
    attributes = {"Concat": {"axis": 0}, "Flatten": {"axis": 1}}.get(kind, {})
    chain.node("Neg", chain.node(kind, *operands, **attributes))


@chain_for("remove_neutral_operand")
def neutral(chain: ChainDraft) -> None:
    """Append an operation with a neutral operand. Sometimes it adds an axis, or is on the side where it is not neutral."""
    x = chain.node("Relu", chain.value(1))
    op_type, number = chain.rng.choice((("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1), ("Pow", 1)))
    wide = (1,) * (len(chain.shape(x)) + 1)
    operand = chain.scalar(number) if chain.chance(0.8) else chain.array(np.full(wide, number, np.float32))
    either = op_type in ("Add", "Mul") or chain.chance(0.2)
    y = chain.either_way(op_type, x, operand) if either else chain.node(op_type, x, operand)
    chain.node("Neg", y)


@chain_for("replace_sum_of_two")
def sum_of_two(chain: ChainDraft) -> None:
    """Append a Sum of two operands, of which one may broadcast."""
    if chain.opset < 8:
        chain.skip("Sum does not broadcast before opset 8")
    x = chain.value(1)
    chain.node("Sum", x, chain.broadcast(x))
