"""Tokenizer and TfIdfVectorizer behind each other: words are counted in a stream of bytes, as the two would count them alone."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.operators.words import can_stream
from ort_lite_cpu.program.program import Program
from tests.cpu.check import run_op, text_program

POOL = ["a", "b", "ab", "é", "\x02", "a", "b", "ab", "é"]
GRAMS: dict[str, Any] = {
    "ngram_counts": [0, 5],
    "ngram_indexes": [0, 3, 1, 2, 6, 4, 5],
    "pool_strings": POOL,
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "mode": "TF",
}
WAYS: dict[str, dict[str, Any]] = {
    "runs": {"tokenexp": "[a-c]+"},
    "long runs": {"tokenexp": "[a-c]+", "mincharnum": 2},
    "words": {"tokenexp": r"\w+"},
    "marked": {"tokenexp": "[a-c]+", "mark": 1},
    "characters": {"separators": [""]},
    "pieces": {"separators": [" "]},
}


def attributes(way: str, fill: str = "#") -> dict[str, Any]:
    return {"mark": 0, "mincharnum": 1, "pad_value": fill, **WAYS[way]}


def text(given: dict[str, Any]) -> str:
    def written(value: Any) -> str:
        quoted = '"' + str(value).replace("\\", "\\\\") + '"'
        return (
            f"[{', '.join(map(written, value))}]"
            if isinstance(value, list)
            else quoted
            if isinstance(value, str)
            else str(value)
        )

    return ", ".join(f"{name}={written(value)}" for name, value in given.items())


@cache
def program(way: str, fill: str = "#", told: bool = False) -> Program:
    """`told`: the tokens are an output as well."""
    split = text(attributes(way, fill))
    nodes = f"""n = StringNormalizer<case_change_action="LOWER", locale="C">(x)
        t = com.microsoft.Tokenizer<{split}>(n) y = TfIdfVectorizer<{text(GRAMS)}>(t)"""
    outputs, inner = ("float[N,7] y, string[N,M] t", "string[N] n") if told else ("float[N,7] y", "string[N] n, string[N,M] t")
    return text_program(f"(string[N] x) => ({outputs}) <{inner}> {{ {nodes} }}")


def apart(way: str, x: Array, fill: str = "#") -> Array:
    """One operator after the other."""
    [lower] = run_op("StringNormalizer", [x], {"case_change_action": "LOWER", "locale": "C"})
    [tokens] = run_op("Tokenizer", [lower], attributes(way, fill), opset=1, domain="com.microsoft")
    counts: Array = run_op("TfIdfVectorizer", [tokens], GRAMS, opset=9)[0]
    return counts


def steps(made: Program) -> int:
    return sum(isinstance(step, HostStep) for step in made.steps)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=25)
@given(texts=st.lists(st.text("abAB c#é\0\1\2\x03\ud800_", max_size=12), max_size=4))
def test_counts_are_those_of_the_two(way: str, texts: list[str]) -> None:
    x = np.array([*texts, "ab é a"], object)
    made = program(way)
    assert steps(made) == 1
    np.testing.assert_array_equal(made([x])[0], apart(way, x))


def test_no_text_at_all() -> None:
    assert program("runs")([np.empty(0, object)])[0].shape == (0, 7)


def test_what_fills_rows_up_may_count() -> None:
    x = np.array(["a", "a b ab"], object)
    made = program("runs", fill="a")
    np.testing.assert_array_equal(made([x])[0], apart("runs", x, fill="a"))
    assert made([x])[0].sum() > program("runs")([x])[0].sum()


def test_tokens_that_others_read_are_made() -> None:
    x = np.array(["a", "ab b"], object)
    counts, tokens = program("runs", told=True)([x])
    assert tokens.tolist() == [["a", "#"], ["ab", "b"]]
    np.testing.assert_array_equal(counts, apart("runs", x))


def test_a_stream_holds_words_without_its_own_bytes() -> None:
    assert can_stream(["a", "é", "\x02"])
    assert not any(can_stream([word]) for word in ("", "a\0", "\1"))
