"""Tokenizer and TfIdfVectorizer behind each other: words are counted in a stream of bytes, as the two would count them alone."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.operators import text_steps
from ort_lite_cpu.operators.text_steps import WordStream
from ort_lite_cpu.operators.words import can_stream
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment_run import SegmentRun
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


def written(value: Any) -> str:
    """As ONNX's text format spells an attribute."""
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return '"' + value.replace("\\", "\\\\") + '"' if isinstance(value, str) else str(value)


def text(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={written(value)}" for name, value in given.items())


@cache
def program(way: str, fill: str = "#", told: bool = False, case: str = "LOWER", locale: str = "C") -> Program:
    """`told`: the tokens are an output as well."""
    split = text(attributes(way, fill))
    nodes = f"""n = StringNormalizer<case_change_action="{case}", locale="{locale}">(x)
        t = com.microsoft.Tokenizer<{split}>(n) y = TfIdfVectorizer<{text(GRAMS)}>(t)"""
    outputs, inner = ("float[N,7] y, string[N,M] t", "string[N] n") if told else ("float[N,7] y", "string[N] n, string[N,M] t")
    return text_program(f"(string[N] x) => ({outputs}) <{inner}> {{ {nodes} }}")


def apart(way: str, x: Array, fill: str = "#", case: str = "LOWER", locale: str = "C") -> Array:
    """One operator after the other."""
    [lower] = run_op("StringNormalizer", [x], {"case_change_action": case, "locale": locale})
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


LETTERS = "abckiABCKI c#\xe9\xc9\u0130\u0131\u017f\u212a\u03a3\u4e2d\U0001f600\ud800"


@pytest.mark.parametrize("locale", ["C", "en_US"])
@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("way", ["runs", "long runs", "characters"])
@settings(max_examples=15)
@given(texts=st.lists(st.text(LETTERS, max_size=12), max_size=4))
def test_letters_of_any_width_are_read(way: str, case: str, locale: str, texts: list[str]) -> None:
    x = np.array([*texts, "Ab B a"], object)
    made = program(way, case=case, locale=locale)
    np.testing.assert_array_equal(made([x])[0], apart(way, x, case=case, locale=locale))


def stream_of(made: Program) -> WordStream:
    [step] = [step for step in made.steps if isinstance(step, HostStep)]
    finish = vars(step.function)["_finish"]
    assert isinstance(finish, WordStream)
    return finish


@pytest.mark.parametrize("texts", [["a b"], ["a", "", "AB\xe9 b"], ["\u4e2da", "\U0001f600b"], []])
def test_native_code_reads_texts(texts: list[str]) -> None:
    rows = stream_of(program("runs")).read(np.array(texts, object))
    assert rows is not None
    lower = [re.sub("[^a-c]", "\1", text.lower()).encode() + b"\0" for text in texts]
    assert rows.tobytes().startswith(b"".join(lower))


class Own(str):
    """A text of another class."""

    __slots__ = ()


@pytest.mark.parametrize("item", [Own("a"), 1, None, "a\0b"], ids=repr)
def test_native_code_leaves_all_else(item: Any) -> None:
    x = np.empty(2, object)
    x[:] = ["a", item]
    assert stream_of(program("runs")).read(x) is None
    assert stream_of(program("pieces")).read(np.array(["a"], object)) is None
    assert stream_of(program("runs")).read(np.array(["a"])) is None


@pytest.mark.parametrize("long", [True, False])
def test_many_texts_are_read_in_pieces(long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(["a b", "\xe9", "ab" * 400, "", "B"] * 5, object)
    expected = apart("runs", x)
    monkeypatch.setattr(text_steps, "PIECE", 2)
    monkeypatch.setattr(text_steps, "LONG", 100 if long else 1 << 20)
    assert (stream_of(program("runs")).read(x) is None) == long
    np.testing.assert_array_equal(program("runs")([x])[0], expected)


def test_texts_of_many_lengths_share_a_segment() -> None:
    made = program("runs", case="NONE")
    for letters in (1, 10, 500, 1000):
        made([np.array(["a" * letters], object)])
    [segment] = [step for step in made.steps if isinstance(step, SegmentRun)]
    assert len(segment.cache.values()) == 1


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
