"""Patterns of RegexFullMatch and Tokenizer against onnxruntime, which has RE2 too."""

import sys
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite_cpu.operators.patterns import TextPattern, after
from ort_lite_cpu.run.pace import Pace
from tests.cpu.check import check_op, run_op
from tests.cpu.ort import ort_op

_TEXTS = """
        a aa b ab abc aab A é É ß ω 1 ٣ _ - a.b 日本 😀 a😀 x1y2 2024-01-31 ä1
    """
TEXTS = np.array(
    [*_TEXTS.split(), "", " ", "\t", "\n", "a\n", "\na", "a\nb", "a\x00b", "\x00", "\x7f", "\xa0", "\u2028", "\r\n"], object
)
_PATTERNS = r"""
    a a* a+ a? (a)(b)? a|ab (a|ab)(c|bcd)? a{2} a{1,2}b [ab]+ [^a] [^a]* . .* .. (?s).* (?s). \w \w+ \W \d \D \s
    \S \s* \bab\b a\b.* \Ba \Aa\z a\z ^a$ a$ (?i)a (?i)É (?i)ß (?i)[k-z] (?U)a+ (?P<name>a)b? \pL \p{Greek} \PL
    \p{Lu} [[:alpha:]]+ [[:digit:]] [[:space:]] [[:word:]] [\d_] \x61 \x{1F600} \141 \Qa.b\E \. a.b é [é-ω] [^é]
    \C \C\C \n a\0b \a \v \t [\s\S]* (\d{4})-(\d\d)-(\d\d) 日. (a*)* (a|b)*? (?:) () (?P<x>a)(?P<x>b)
    [a-zA-Z_][a-zA-Z0-9_]* (?:a*)* \_ \- ] { a{ a{,2} }
"""
PATTERNS = [*_PATTERNS.split(), "", "a$\n", "(?m)a$\nb", "(?m)^a\n^b$"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_whole_texts_match_as_in_onnxruntime(pattern: str) -> None:
    [wanted] = ort_op("RegexFullMatch", [TEXTS], {"pattern": pattern}, opset=20, outputs=["bool"])
    [found] = run_op("RegexFullMatch", [TEXTS], {"pattern": pattern})
    np.testing.assert_array_equal(found, wanted)


_WRONG = r"""
    (a)\1 (?=a) (?!a) (?<=a)b (?>a) a++ \Z ( ) [a * a** a{1001} (?#a) \8 \y (?P=a) \p{Nothing} [b-a] (?z)a
    [[:none:]]
"""
WRONG = _WRONG.split()


@pytest.mark.parametrize("pattern", WRONG)
def test_what_onnxruntime_rejects_is_rejected(pattern: str) -> None:
    with pytest.raises(Exception, match=r"Invalid regex pattern|Can not digest"):
        ort_op("RegexFullMatch", [TEXTS], {"pattern": pattern}, opset=20, outputs=["bool"])
    with pytest.raises(NotSupported, match=r"RegexFullMatch 'node' \(CPUExecutionProvider\): RE2 rejects the pattern"):
        run_op("RegexFullMatch", [TEXTS], {"pattern": pattern})


_TOKENS = r"""
    a|ab a|ab|abc (a|ab)(c|bcd)? [a-z]+ \w+ \d+ \d [aé]+ é|e a* .+ \S+ \bx ^a b$ (?i)[a-z]+ \pL+ 😀 .. a?? (?U)a+
    [a-c]{2}
"""
TOKENS = [*_TOKENS.split(), "[^ ]+"]


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("pattern", TOKENS)
def test_tokens_are_onnxruntimes(pattern: str, least: int) -> None:
    attributes: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": least, "tokenexp": pattern}
    x = np.array(["abc aab", "été 12x1", "", "a😀 日本 abcabc", "AB"], object)
    wanted = ort_op("Tokenizer", [x], attributes, opset=1, domain="com.microsoft", outputs=["string"])
    check_op("Tokenizer", x, expected=wanted, opset=1, domain="com.microsoft", **attributes)


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize(
    "separators",
    [["a"], ["a|ab"], ["ab", "a"], [r"\s", ","], ["[é ]"], [r"\d+"], ["x"], ["^a"], [r"\W"], ["x*"], ["$", r"\b"]],
    ids=str,
)
def test_separators_are_onnxruntimes(separators: list[str], least: int) -> None:
    attributes: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": least, "separators": separators}
    x = np.array(["abc aab, x", "été 12x1", "", "a😀 日本 abcabc", "abab"], object)
    wanted = ort_op("Tokenizer", [x], attributes, opset=1, domain="com.microsoft", outputs=["string"])
    check_op("Tokenizer", x, expected=wanted, opset=1, domain="com.microsoft", **attributes)


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
    assert [*TextPattern(counting).find_all(b"aabaa", pace)] == [(0, 2), (2, 2), (3, 5), (5, 5)]
    assert counting.calls <= 5


def test_the_packages_cache_holds_no_pattern() -> None:
    run_op("RegexFullMatch", [TEXTS], {"pattern": "some pattern"})
    import re2

    assert "re2" in sys.modules
    assert re2._Regexp._make.cache_info().currsize == 0
