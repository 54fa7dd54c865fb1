"""Patterns of models that would take a backtracking matcher for ever, are none, or are too large."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import helper

from ort_lite.errors import InvalidData
from tests.case_server import Outcome
from tests.hostile.strings import cancelled, one_node, parsed, quick, refused, repeated, run, session, texts, tokenizer


def full(pattern: str | bytes, constant: Sequence[str] | None = None) -> onnx.ModelProto:
    return one_node("RegexFullMatch", constant=constant, pattern=pattern)


EXPONENTIAL = {
    "(a+)+": "a" * 40 + "!",
    "(a|aa)+": "a" * 40 + "!",
    "(a|a)*b": "a" * 40,
    "(a*)*b": "a" * 40,
    "(.*)*x": "y" * 10_000,
    "(.*a){20}": "a" * 19 + "b" * 2_000,
    "(x+x+)+y": "x" * 5_000,
    "([a-zA-Z]+)*": "word" * 30 + "1",
    "(\\d+)+\\.": "1" * 40,
    "^(a?){40}a{40}$": "a" * 39,
    "(?:a|b|ab)*c": "ab" * 500,
    "(?i)(é|É)*x": "é" * 60,
}
"""Patterns, and texts that do not match them."""
NOT_PATTERNS = {
    "a backreference": (r"(a)\1", "invalid escape sequence"),
    "a look-ahead": ("a(?=b)", "invalid perl operator"),
    "a negative look-ahead": ("a(?!b)", "invalid perl operator"),
    "a look-behind": ("(?<=a)b", "invalid"),
    "an atomic group": ("(?>a+)b", "invalid perl operator"),
    "a possessive repetition": ("a++", "bad repetition operator"),
    "a comment": ("a(?#b)", "invalid perl operator"),
    "Python's end of the text": (r"a\Z", "invalid escape sequence"),
    "a condition": ("(a)?(?(1)b|c)", "invalid perl operator"),
    "no end": ("(", "missing )"),
    "no beginning": (")", "unexpected )"),
    "nothing to repeat": ("*a", "no argument for repetition operator"),
    "a class that ends before it begins": ("[z-a]", "invalid character class range"),
    "a class without an end": ("[a", "missing ]"),
    "too many repetitions": ("a{1001}", "invalid repetition size"),
    "repetitions of repetitions": ("((a{100}){100}){100}", "invalid repetition size"),
    "letters a thousand times": (r"\pL{1000}", "pattern too large"),
    "letters of letters": (r"((\pL{10}){10}){10}", "pattern too large"),
    "too long": ("a" * 8_193, "expected at most 8,192"),
}
"""Patterns that RE2 rejects, or that are too large, and words of the message."""


def is_linear(pattern: str, text: str) -> None:
    assert quick(2, lambda: run(full(pattern), texts(text))).tolist() == [False]


def is_linear_as_constant(pattern: str, text: str) -> None:
    made = quick(4, lambda: session(full(pattern, constant=[text])))
    assert made.run(None, {})[0].tolist() == [False]


def is_linear_as_token(pattern: str, text: str) -> None:
    quick(2, lambda: run(tokenizer(tokenexp=pattern), texts(text)))
    quick(2, lambda: run(tokenizer(separators=[pattern, " "]), texts(text)))


def is_refused(pattern: str, words: str) -> None:
    """When the session is made, whatever holds the pattern, also where it is lowered during a run."""
    for model in (full(pattern), tokenizer(tokenexp=pattern), tokenizer(separators=[pattern])):
        refused(words, partial(session, model))
        refused("'n'", partial(session, model))


def bytes_that_are_no_text() -> None:
    refused("RegexFullMatch 'n' (CPUExecutionProvider): the pattern 'a\\udcff' is not UTF-8", lambda: session(full(b"a\xff")))


def behind_a_rank_that_only_the_run_tells() -> None:
    graph = """(int64[R] shape, string[N] x) => (bool[] y) {
        wide = Reshape(x, shape)
        [n] y = RegexFullMatch<pattern = "("> (wide)
    }"""
    refused("missing )", lambda: session(parsed(graph)))


def a_million_letters() -> None:
    text = "a" * 1_000_000 + "!"
    assert quick(3, lambda: run(full("(a+)+"), texts(text))).tolist() == [False]


def a_text_too_long_for_its_pattern() -> None:
    made = session(full(r"(\pL\d?){300}"))
    refused("is too long for this pattern", lambda: made.run(None, {"x0": texts("a" * 30_000_000)}), InvalidData)


def many_texts() -> None:
    cancelled(full("(a|b)*c"), repeated("ab" * 10, 1_000_000))


def one_text_that_takes_long() -> None:
    """RE2's automaton has more states than its memory holds: it goes through all states for each letter."""
    rng = np.random.default_rng(0)
    text = rng.choice(np.frombuffer(b"ab", np.uint8), 600_000).tobytes().decode()
    cancelled(full("(?:[ab]*a[ab]{700}c?)*d"), texts(text))


def tokens_of_a_long_text() -> None:
    cancelled(tokenizer(tokenexp="a.*b|a"), texts("a" * 300_000))
    cancelled(tokenizer(separators=["a.*b|c"]), texts("ac" * 300_000))


def many_separators() -> None:
    refused("257 patterns", lambda: session(tokenizer(separators=[f"a{k}" for k in range(257)])))


def many_groups_inside_of_each_other() -> None:
    assert run(full("(" * 2500 + "a" + ")*" * 2500), texts("aa", "b")).tolist() == [True, False]


def zeros_are_letters() -> None:
    assert run(full("a\0b"), texts("a\0b", "a", "a\0")).tolist() == [True, False, False]


def another_package_of_that_name() -> None:
    """Such as pyre2's: it goes back to a backtracking matcher."""
    other = type(sys)("re2")
    with patch.dict(sys.modules, {"re2": other}):
        refused("pip install google-re2", lambda: session(full("a")))
    with patch.dict(sys.modules, {"re2": None}):
        refused("pip install google-re2", lambda: session(full("a")))


def models_without_patterns_need_no_re2() -> None:
    model = helper.make_model(one_node("StringConcat", 2).graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with patch.dict(sys.modules, {"re2": None}):
        assert run(model, texts("a"), texts("b")).tolist() == ["ab"]
        assert run(tokenizer(separators=[""]), texts("ab")).tolist() == [["a", "b"]]


CASES: dict[str, Callable[[], None]] = {
    **{f"{pattern} matched": partial(is_linear, pattern, text) for pattern, text in EXPONENTIAL.items()},
    **{
        f"{pattern} of a constant": partial(is_linear_as_constant, pattern, EXPONENTIAL[pattern])
        for pattern in ("(a+)+", "(.*)*x")
    },
    **{f"{pattern} as a token": partial(is_linear_as_token, pattern, EXPONENTIAL[pattern]) for pattern in ("(a+)+", "(a|a)*b")},
    **{name: partial(is_refused, pattern, words) for name, (pattern, words) in NOT_PATTERNS.items()},
    **{
        case.__name__.replace("_", " "): case
        for case in (
            bytes_that_are_no_text,
            behind_a_rank_that_only_the_run_tells,
            a_million_letters,
            a_text_too_long_for_its_pattern,
            many_texts,
            one_text_that_takes_long,
            tokens_of_a_long_text,
            many_separators,
            many_groups_inside_of_each_other,
            zeros_are_letters,
            another_package_of_that_name,
            models_without_patterns_need_no_re2,
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_patterns(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name) == ""
