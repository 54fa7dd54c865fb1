"""Patterns of RegexFullMatch and Tokenizer against onnxruntime, which has RE2 too."""

import sys
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite_cpu.operators.patterns import Pattern, after
from ort_lite_cpu.run.pace import Pace
from tests.cpu.check import check_op, run_op
from tests.cpu.ort import ort_op

TEXTS = np.array(
    ["", "a", "aa", "b", "ab", "abc", "aab", "A", "é", "É", "ß", "ω", "1", "٣", "_", "-", " ", "\t", "\n", "a\n", "\na", "a\nb",
     "a.b", "a\0b", "\0", "\x7f", "日本", "😀", "a😀", "x1y2", "2024-01-31", "ä1", "\u00a0", "\u2028", "\r\n"],
    object,
)  # fmt: skip
PATTERNS = [
    "", "a", "a*", "a+", "a?", "(a)(b)?", "a|ab", "(a|ab)(c|bcd)?", "a{2}", "a{1,2}b", "[ab]+", "[^a]", "[^a]*", ".",
    ".*", "..", "(?s).*", "(?s).", r"\w", r"\w+", r"\W", r"\d", r"\D", r"\s", r"\S", r"\s*", r"\bab\b", r"a\b.*",
    r"\Ba", r"\Aa\z", r"a\z", "^a$", "a$", "a$\n", "(?m)a$\nb", "(?m)^a\n^b$", "(?i)a", "(?i)É", "(?i)ß", "(?i)[k-z]",
    "(?U)a+", "(?P<name>a)b?", r"\pL", r"\p{Greek}", r"\PL", r"\p{Lu}", "[[:alpha:]]+", "[[:digit:]]", "[[:space:]]",
    "[[:word:]]", r"[\d_]", r"\x61", r"\x{1F600}", r"\141", r"\Qa.b\E", r"\.", "a.b", "é", "[é-ω]", "[^é]", r"\C",
    r"\C\C", r"\n", r"a\0b", r"\a", r"\v", r"\t", r"[\s\S]*", r"(\d{4})-(\d\d)-(\d\d)", "日.", "(a*)*", "(a|b)*?",
    "(?:)", "()", "(?P<x>a)(?P<x>b)", "[a-zA-Z_][a-zA-Z0-9_]*", "(?:a*)*", r"\_", r"\-", "]", "{", "a{", "a{,2}", "}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_whole_texts_match_as_in_onnxruntime(pattern: str) -> None:
    [wanted] = ort_op("RegexFullMatch", [TEXTS], {"pattern": pattern}, opset=20, outputs=["bool"])
    [found] = run_op("RegexFullMatch", [TEXTS], {"pattern": pattern})
    np.testing.assert_array_equal(found, wanted)


WRONG = [
    r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?>a)", "a++", r"\Z", "(", ")", "[a", "*", "a**", "a{1001}", "(?#a)",
    r"\8", r"\y", "(?P=a)", r"\p{Nothing}", "[b-a]", "(?z)a", "[[:none:]]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", WRONG)
def test_what_onnxruntime_rejects_is_rejected(pattern: str) -> None:
    with pytest.raises(Exception, match=r"Invalid regex pattern|Can not digest"):
        ort_op("RegexFullMatch", [TEXTS], {"pattern": pattern}, opset=20, outputs=["bool"])
    with pytest.raises(NotSupported, match=r"RegexFullMatch 'node' \(CPUExecutionProvider\): RE2 rejects the pattern"):
        run_op("RegexFullMatch", [TEXTS], {"pattern": pattern})


TOKENS = [
    "a|ab", "a|ab|abc", "(a|ab)(c|bcd)?", "[a-z]+", r"\w+", r"\d+", r"\d", "[aé]+", "[^ ]+", "é|e", "a*", ".+",
    r"\S+", r"\bx", "^a", "b$", r"(?i)[a-z]+", r"\pL+", "😀", "..", "a??", "(?U)a+", "[a-c]{2}",
]  # fmt: skip


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("pattern", TOKENS)
def test_tokens_are_onnxruntimes(pattern: str, least: int) -> None:
    attributes: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": least, "tokenexp": pattern}
    x = np.array(["abc aab", "été 12x1", "", "a😀 日本 abcabc", "AB"], object)
    wanted = ort_op("Tokenizer", [x], attributes, opset=1, domain="com.microsoft", outputs=["string"])
    check_op("Tokenizer", x, expected=wanted, opset=1, domain="com.microsoft", **attributes)


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize(
    "separators", [["a"], ["a|ab"], ["ab", "a"], [r"\s", ","], ["[é ]"], [r"\d+"], ["x"], ["^a"], [r"\W"]], ids=str
)
def test_separators_are_onnxruntimes(separators: list[str], least: int) -> None:
    attributes: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": least, "separators": separators}
    x = np.array(["abc aab, x", "été 12x1", "", "a😀 日本 abcabc", "abab"], object)
    wanted = ort_op("Tokenizer", [x], attributes, opset=1, domain="com.microsoft", outputs=["string"])
    check_op("Tokenizer", x, expected=wanted, opset=1, domain="com.microsoft", **attributes)


def test_separators_that_match_nothing_separate_nothing() -> None:
    """onnxruntime loses the characters between."""
    attributes = {"mark": 0, "pad_value": "#", "mincharnum": 1, "separators": ["x*"]}
    [found] = run_op("Tokenizer", [np.array(["abxxc"], object)], attributes, opset=1, domain="com.microsoft")
    assert found.tolist() == [["ab", "c"]]


def test_half_a_character_is_no_token() -> None:
    attributes = {"mark": 0, "pad_value": "#", "mincharnum": 1, "tokenexp": r"\C"}
    with pytest.raises(Exception, match="Tokenizer 'node'"):
        run_op("Tokenizer", [np.array(["é"], object)], attributes, opset=1, domain="com.microsoft")


def test_a_lone_surrogate_is_a_character() -> None:
    [found] = run_op("RegexFullMatch", [np.array(["\ud800", "a"], object)], {"pattern": "."})
    assert found.tolist() == [True, True]


@pytest.mark.parametrize("text", ["aé😀", "é", ""])
def test_positions_are_those_of_characters(text: str) -> None:
    data, at, starts = text.encode(), 0, []
    while at < len(data):
        starts.append(at)
        at = after(data, at)
    assert len(starts) == len(text)


class Counting:
    """A compiled pattern that counts its calls."""

    programsize = 3

    def __init__(self) -> None:
        self.calls = 0

    def search(self, data: bytes, start: int) -> Any:
        import re2

        self.calls += 1
        return re2.compile(b"a*").search(data, start)


def test_each_match_is_one_call() -> None:
    counting = Counting()
    pace = Pace(Node("Tokenizer", (), (), name="n"))
    assert [*Pattern(counting).find_all(b"aabaa", pace)] == [(0, 2), (3, 5)]
    assert counting.calls <= 5


def test_the_packages_cache_holds_no_pattern() -> None:
    run_op("RegexFullMatch", [TEXTS], {"pattern": "some pattern"})
    import re2

    assert "re2" in sys.modules
    assert re2._Regexp._make.cache_info().currsize == 0
