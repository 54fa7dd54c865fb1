"""Python steps: strings beyond a memory limit, feeds whose classes fail, texts that are no numbers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidData, OutOfMemory
from tests.case_server import Outcome
from tests.hostile.strings import (
    ML,
    beyond,
    one_node,
    parsed,
    refused,
    repeated,
    run,
    session,
    texts,
    tokenizer,
)

LIMIT = 20_000_000
"""Bytes of memory that a session may have."""


def node(text: str, inputs: str, output: str) -> onnx.ModelProto:
    return parsed(f"({inputs}) => ({output}) {{ [n] y = {text} }}")


LETTERS = one_node("StringNormalizer", case_change_action="UPPER")
SPLIT = one_node("StringSplit", 1, 2)
JOINED = node("StringConcat(x0, x1)", "string[N,1] x0, string[1,M] x1", "string[N,M] y")
EXPANDED = node("Expand(x0, x1)", "string[N] x0, int64[R] x1", "string[P,Q] y")
WRITTEN = node("Cast<to=8>(x0)", "float[N] x0", "string[N] y")
TILED = node("Tile(x0, x1)", "string[N] x0, int64[1] x1", "string[M] y")
SAME = one_node("Identity")


def column(text: str, count: int) -> Array:
    return repeated(text, count).reshape(-1, 1)


DOUBLING = parsed(
    "(string[N] x0) => (string[N] y) {"
    + "".join(f"x{k + 1} = StringConcat(x{k}, x{k}) " for k in range(40))
    + "y = Identity(x40) }"
)
LOOP = """(string[N] x0) => (string[N] y%s) <int64 many = {%d}, bool go = {1}> { y%s = Loop(many, go, x0) <body =
    b (int64 i, bool c, string[N] s) => (bool d, string[N] t%s) { d = Identity(c) %s }> }"""
DOUBLING_LOOP = parsed(LOOP % ("", 40, "", "", "t = StringConcat(s, s)"))
ROWS_OF_A_LOOP = parsed(LOOP % (", string[T,N] z", 1000, ", z", ", string[N] u", "t = Identity(s) u = StringConcat(s, s)"))
STEADY_LOOP = parsed(LOOP % ("", 200, "", "", 'e = StringConcat(s, s) t = StringNormalizer<case_change_action="NONE">(s)'))

MEMORY: dict[str, Callable[[], None]] = {
    "texts double": lambda: beyond(DOUBLING, LIMIT, texts("a" * 1000)),
    "texts double in a loop": lambda: beyond(DOUBLING_LOOP, LIMIT, texts("a" * 1000)),
    "a loop keeps rows": lambda: beyond(ROWS_OF_A_LOOP, LIMIT, texts("a" * 100_000)),
    "every text with every other": lambda: beyond(JOINED, LIMIT, column("a" * 100, 1000), column("b" * 100, 1000).T),
    "two long texts": lambda: beyond(JOINED, LIMIT, column("a" * 15_000_000, 1), column("b" * 15_000_000, 1)),
    "letters of four bytes": lambda: beyond(JOINED, LIMIT, column("a" * 6_000_000, 1), column("\N{GRINNING FACE}", 1)),
    "a text many times": lambda: beyond(EXPANDED, LIMIT, texts("a"), np.array([3000, 1000])),
    "a text tiled": lambda: beyond(TILED, LIMIT, texts("a"), np.array([3_000_000])),
    "one long row": lambda: beyond(SPLIT, LIMIT, np.array(["a " * 10_000, *["b"] * 1000], object)),
    "tokens of one long row": lambda: beyond(
        tokenizer(separators=[" "]), LIMIT, np.array(["a " * 10_000, *["b"] * 1000], object)
    ),
    "many parts": lambda: beyond(SPLIT, LIMIT, texts("abc " * 1_000_000)),
    "other case": lambda: beyond(LETTERS, LIMIT, repeated("a" * 1000, 50_000)),
    "many numbers": lambda: beyond(WRITTEN, LIMIT, np.full(1_000_000, 1.5, np.float32)),
    "names of numbers": lambda: beyond(
        one_node("LabelEncoder", domain=ML, keys_strings=["a"], values_strings=["b"]), LIMIT, repeated("a", 3_000_000)
    ),
}


def within_the_limit() -> None:
    """References are small however long their text is; what a run had is given back at its end."""
    made = session(EXPANDED, LIMIT)
    for _ in range(10):
        assert made.run(None, {"x0": texts("a" * 1_000_000), "x1": np.array([200, 1000])})[0].shape == (200, 1000)
    text = "a" * 3_000_000
    assert len(run(STEADY_LOOP, texts(text), limit=LIMIT)[0]) == len(text)


def no_memory_at_all() -> None:
    """Without a limit, where the system has none left: the address space of this process is limited."""
    made = session(JOINED)
    feed = {"x0": column("a" * 500_000_000, 1), "x1": column("\N{GRINNING FACE}", 1)}
    refused("StringConcat 'n'", lambda: made.run(None, feed), OutOfMemory)


class Failing:
    """Raises in whatever makes a text or an array of it."""

    def __str__(self) -> str:
        raise ZeroDivisionError("boom")


class Unnamed(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class FailingUnnamed:
    def __str__(self) -> str:
        raise Unnamed


class FailingArray:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise ZeroDivisionError("boom")


class FailingSequence(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise ZeroDivisionError("boom")

    def __repr__(self) -> str:
        raise ZeroDivisionError("boom")


NEGATED = parsed("(float[N] x0) => (float[N] y) { y = Neg(x0) }")
FEEDS: dict[str, tuple[onnx.ModelProto, Any, str]] = {
    "an element without a text": (SAME, np.array(["a", Failing()], object), "ZeroDivisionError: boom"),
    "a list with one": (SAME, ["a", Failing()], "class Failing whose text cannot be made"),
    "an error without a text": (SAME, [FailingUnnamed()], "class FailingUnnamed"),
    "an array that fails, of texts": (SAME, FailingArray(), "ZeroDivisionError: boom"),
    "an array that fails": (NEGATED, FailingArray(), "ZeroDivisionError: boom"),
    "an element that is a sequence": (SAME, _ragged := np.array([None, "a"], object), "is ragged"),
    "bytes that are no UTF-8": (SAME, [b"\xff"], "not UTF-8"),
}
_ragged[0] = FailingSequence([1])


def is_a_bad_feed(model: onnx.ModelProto, value: Any, words: str) -> None:
    refused(words, lambda: run(model, value), InvalidArgument)
    refused("'x0'", lambda: run(model, value), InvalidArgument)


_NO_NUMBERS = """
    1_000 1__0 _1 1_ - +-1 12abc 1e e5 . 0x 0b1 ٣ １２ ½ infinit nano 1,5 1.2.3 --1 1e1_0 1j None True
"""
NO_NUMBERS = [*_NO_NUMBERS.split(), "", " ", "1 2", "1\xa0", "9" * 5000, "1" * 2000 + "x"]
DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "uint64": 13}


def cast(dtype: str, *given: str) -> Any:
    return run(one_node("Cast", to=DTYPES[dtype]), texts(*given))


def are_no_numbers(dtype: str) -> None:
    made = session(one_node("Cast", to=DTYPES[dtype]))
    for text in NO_NUMBERS:
        refused("Cast 'n'", partial(made.run, None, {"x0": texts(text)}), InvalidData)


def are_beyond(dtype: str, *given: str) -> None:
    for text in given:
        refused("Cast 'n'", partial(cast, dtype, text), InvalidData)


def numbers_of_maps() -> None:
    """Values of maps are texts as well."""
    for target, dtype in (("TO_INT64", TensorProto.INT64), ("TO_FLOAT", TensorProto.FLOAT)):
        fed = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.STRING, ()))
        made = helper.make_node("CastMap", ["x0"], ["y"], "n", domain=ML, cast_to=target)
        outputs = [helper.make_tensor_value_info("y", dtype, [1, "C"])]
        graph = helper.make_graph([made], "g", [helper.make_value_info("x0", fed)], outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 3), helper.make_opsetid("", 21)], ir_version=10)
        assert run(model, {1: "12", 0: "3"}).tolist() == [[3, 12]]
        refused("'1_000' is not a number", partial(run, model, {0: "1_000"}), InvalidData)


CASES: dict[str, Callable[[], None]] = {
    **{f"beyond the limit: {name}": case for name, case in MEMORY.items()},
    "within the limit": within_the_limit,
    "no memory at all": no_memory_at_all,
    **{f"a feed: {name}": partial(is_a_bad_feed, *case) for name, case in FEEDS.items()},
    **{f"no numbers: {dtype}": partial(are_no_numbers, dtype) for dtype in DTYPES},
    "beyond int8": partial(are_beyond, "int8", "128", "-129", "1e3", "inf", "nan"),
    "beyond uint8": partial(are_beyond, "uint8", "256", "-1"),
    "beyond int64": partial(are_beyond, "int64", "9223372036854775808", "1e300", "-9223372036854775809"),
    "beyond uint64": partial(are_beyond, "uint64", "18446744073709551616", "-1"),
    "beyond float64": partial(are_beyond, "float64", "1e400", "-1e400", "0x1p99999"),
    "numbers of maps": numbers_of_maps,
}


@pytest.mark.parametrize("name", CASES)
def test_python_steps(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name) == ""
