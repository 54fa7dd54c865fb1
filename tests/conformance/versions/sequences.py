"""Sequences and optionals."""

from typing import Any

import numpy as np
import onnx
import onnx.parser

from ort_lite.dtypes import Array, to_numpy, to_onnx
from tests.conformance.versions.cases import Case, Maybe, Right, case
from tests.conformance.versions.models import convert, type_of
from tests.cpu.check import ints, ramp

A, B = ramp((2, 3)), ramp((2, 3)) + 1
LONG = ramp((4, 3))
PAIR = [A, B]
CLASSIC = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "string", "bool",
    "complex64", "complex128",
)  # fmt: skip
"""What a sequence of the first versions may hold."""


def at(position: int, dtype: Any = np.int64) -> Array:
    return np.array(position, dtype)


def constructed(*elements: Array) -> list[Any]:
    return list(elements)


def inserted(sequence: list[Any], element: Array, position: Array | None = None) -> list[Any]:
    where = len(sequence) if position is None else int(position) % len(sequence)
    return [*sequence[:where], element, *sequence[where:]]


def erased(sequence: list[Any], position: Array | None = None) -> list[Any]:
    where = (-1 if position is None else int(position)) % len(sequence)
    return sequence[:where] + sequence[where + 1 :]


def joined(sequence: list[Any], axis: int, new_axis: int = 0) -> Array:
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


def parted(x: Array, split: Array | None = None, axis: int = 0, keepdims: int = 1) -> list[Any]:
    if split is None:
        pieces = np.split(x, x.shape[axis], axis)
        return pieces if keepdims else [piece.squeeze(axis) for piece in pieces]
    ends = range(int(split), x.shape[axis], int(split)) if split.ndim == 0 else np.cumsum(split)[:-1]
    return np.split(x, ends, axis)


def empty(dtype: str) -> Case:
    like = [np.zeros(0, to_numpy(dtype))]
    given = {} if dtype == "float32" else {"dtype": to_onnx(dtype)}
    return case("SequenceEmpty", oracle=lambda **_: Right(like, lambda got: got == []), **given)


def body(text: str) -> onnx.GraphProto:
    """A graph without declared types: one for all element types."""
    return onnx.parser.parse_graph(text)


SEQUENCES = (
    case("SequenceConstruct", A, B, oracle=constructed),
    case("SequenceConstruct", LONG, types=(), oracle=constructed),
    case("SequenceAt", PAIR, at(1), oracle=lambda s, k: s[int(k)]),
    case("SequenceAt", PAIR, at(-2, np.int32), types=(), oracle=lambda s, k: s[int(k)]),
    *[empty(dtype) for dtype in CLASSIC],
    case("SequenceErase", PAIR, at(0), oracle=erased),
    case("SequenceErase", [A, B, A + 2], at(-2, np.int32), types=(), oracle=erased),
    case("SequenceErase", PAIR, types=(), oracle=erased),
    case("SequenceInsert", PAIR, A + 2, at(1), oracle=inserted),
    case("SequenceInsert", PAIR, A + 2, at(-2, np.int32), types=(), oracle=inserted),
    case("SequenceInsert", PAIR, A + 2, types=(), oracle=inserted),
    case("SequenceLength", PAIR, oracle=lambda s: np.array(len(s))),
    case("SequenceLength", [A], types=(), oracle=lambda s: np.array(len(s))),
    case("ConcatFromSequence", PAIR, oracle=joined, axis=0),
    case("ConcatFromSequence", [A, LONG], types=(), oracle=joined, axis=-2),
    case("ConcatFromSequence", PAIR, types=(), oracle=joined, axis=-1, new_axis=1),
    case("SplitToSequence", LONG, at(3), oracle=parted),
    case("SplitToSequence", LONG, ints(1, 0, 2), types=(), oracle=parted, axis=1),
    case("SplitToSequence", LONG, ints(1, 3).astype(np.int32), types=(), constants=[1], oracle=parted),
    case("SplitToSequence", LONG, types=(), oracle=parted, axis=-1),
    case("SplitToSequence", LONG, types=(), oracle=parted, keepdims=0),
    case(
        "SequenceMap",
        PAIR,
        body=body("b (x) => (y) { y = Concat<axis=0>(x, x) }"),
        oracle=lambda s, body: [np.concatenate([x, x]) for x in s],
    ),
    case(
        "SequenceMap",
        PAIR,
        LONG[:2],
        types=(),
        body=body("b (x, z) => (y) { y = Add(x, z) }"),
        oracle=lambda s, z, body: [x + z for x in s],
    ),
    case(
        "SequenceMap",
        PAIR,
        [LONG, A],
        types=(),
        outputs=2,
        body=body("b (x, z) => (y, n) { y = Neg(x) n = Shape(z) }"),
        oracle=lambda s, z, body: ([-x for x in s], [np.array(x.shape) for x in z]),
    ),
)


def nothing(like: Any, since: int) -> Case:
    """An optional without a value, of the type that the attribute says."""
    return case(
        "Optional", since=since, oracle=lambda **_: Right(Maybe(None, like), lambda got: got is None), type=type_of(like)
    )


def holding(value: Any, since: int = 1) -> list[Case]:
    """Optional and what is asked of it."""
    return [
        case("Optional", value, since=since, types=(), oracle=lambda x: Right(Maybe(x, x), same_as(x))),
        case("OptionalGetElement", Maybe(value, value), since=since, types=(), oracle=lambda x: x.value),
        case("OptionalHasElement", Maybe(value, value), since=since, types=(), oracle=lambda _: np.array(True)),
    ]


def same_as(want: Any) -> Any:
    def test(got: Any) -> bool:
        if isinstance(want, list):
            return len(got) == len(want) and all(map(np.array_equal, got, want))
        return got.dtype == want.dtype and np.array_equal(got, want)

    return test


_NEW_NAMES = """
bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2
float6_e2m3fn float6_e3m2fn
"""
NEW = tuple(_NEW_NAMES.split())
"""What version 28 of the optionals adds."""

OPTIONALS = (
    nothing(A, 15),
    nothing(PAIR, 15),
    nothing(convert(A, "bfloat16"), 28),
    *[one for dtype in CLASSIC for one in holding(convert(A, dtype))],
    *[one for dtype in CLASSIC for one in holding([convert(A, dtype)])],
    *[one for dtype in NEW for one in holding(convert(abs(A) + 1, dtype), 28)],
    case("OptionalHasElement", Maybe(None, A), types=(), oracle=lambda _: np.array(False)),
    case("OptionalHasElement", Maybe(None, PAIR), types=(), oracle=lambda _: np.array(False)),
    case("OptionalHasElement", None, since=18, types=(), oracle=lambda _: np.array(False)),
    case("OptionalHasElement", A, since=18, types=(), oracle=lambda _: np.array(True)),
    case("OptionalGetElement", A, since=18, types=(), oracle=lambda x: x),
    case("OptionalGetElement", PAIR, since=18, types=(), oracle=lambda x: x),
)

CASES: tuple[Case, ...] = (*SEQUENCES, *OPTIONALS)
