"""Operators on text: Python steps."""

from collections.abc import Callable, Collection

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.patterns import TextPattern, compile_patterns, decode, encode
from ort_lite_cpu.operators.splitting import fill_table, join_texts, split
from ort_lite_cpu.operators.text_steps import Dims, emit_texts
from ort_lite_cpu.registry import STRING, operator
from ort_lite_cpu.run.pace import Pace


@operator("StringConcat", since=20, types=STRING, python=True)
def string_concat(op: NodeLowering) -> None:
    """Concatenate two tensors of strings, which broadcast. Spec: ONNX StringConcat-20."""
    pace = op.pace
    op.python(lambda a, b: [join_texts(pace, a, b)])


def _pattern(node: Node) -> TextPattern:
    return compile_patterns(node, [node.attr("pattern", "")])[0]


@operator("RegexFullMatch", since=20, types=STRING, python=True, check=_pattern)
def regex_full_match(op: NodeLowering) -> None:
    """Match whole strings. Spec: ONNX RegexFullMatch-20."""
    pace, pattern = op.pace, _pattern(op.node)

    def matches(text: str) -> bool:
        pace.check()
        data = encode(text, pace)
        return pace.beside(pattern.matches, data) if pattern.is_costly(data) else pattern.matches(data)

    def step(x: Array) -> list[Array]:
        return [np.fromiter(map(matches, pace.elements(x)), bool, x.size).reshape(x.shape)]

    op.python(step)


@operator("StringSplit", since=20, types=STRING, python=True)
def string_split(op: NodeLowering) -> None:
    """Split strings into parts, filled up with empty strings, and count them. Spec: ONNX StringSplit-20."""
    pace, delimiter, limit = op.pace, op.attr("delimiter") or None, op.attr("maxsplit", -1)

    def step(x: Array) -> list[Array]:
        words, lengths = split(pace, pace.elements(x), delimiter, limit)
        counts = np.array(lengths, np.int64)
        most = int(counts.max(initial=0))
        return [fill_table(pace, words, counts, most).reshape(*x.shape, most), counts.reshape(x.shape)]

    op.python(step)


@operator("StringNormalizer", since=10, types=STRING, python=True)
def string_normalizer(op: NodeLowering) -> None:
    """Normalize (C) or (1, C): stop words go, letters change case, one by one; if nothing is left, one empty string.

    What a letter becomes does not depend on the machine: Unicode says it, for the locales "C" and "POSIX" ASCII.
    Spec: ONNX StringNormalizer-10.
    """
    action, sensitive = op.attr("case_change_action", "NONE"), bool(op.attr("is_case_sensitive", 0))
    if action not in _CASES:
        raise op.reject(f"case_change_action {action!r}; it should be LOWER, UPPER or NONE")
    plain = op.attr("locale", "") in ("C", "POSIX")
    change = _case(action, plain, op.pace)
    compared = _case("NONE" if sensitive else "UPPER" if action == "UPPER" else "LOWER", plain, op.pace)
    stop_words = frozenset(compared(word) for word in op.attr("stopwords") or ())
    emit_texts(op, _Normalize(change, compared, stop_words, op.pace))


class _Normalize:
    """The stage that normalizes texts."""

    def __init__(
        self, change: Callable[[str], str], compared: Callable[[str], str], stop_words: Collection[str], pace: Pace
    ) -> None:
        """`stop_words` are as `compared` returns them."""
        self._change, self._compared, self._stop_words, self._pace = change, compared, stop_words, pace
        self.letters = None if stop_words else change("".join(map(chr, range(128)))).encode().ljust(256, b"\0")
        """The byte that replaces each ASCII character, or None if stop words are removed as well (see `text_steps.Streamed`)."""
        others = {ord(letter): change(letter) for letter in _BECOME_ASCII}
        self.others = {code: ord(letter) for code, letter in others.items() if letter.isascii()}
        """The ASCII characters that replace other characters, by code point."""

    def __call__(self, texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
            raise ValueError(f"the input has the shape {shape}; (C) or (1, C) is expected")
        if not self._stop_words:
            return self._pace.each(self._change, texts), shape
        words = zip(texts, self._pace.each(self._compared, texts), strict=True)
        left = self._pace.each(self._change, [text for text, word in words if word not in self._stop_words]) or [""]
        return left, (*shape[:-1], len(left))


_CASES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
_BECOME_ASCII = "\u0130\u0131\u017f\u212a"
"""The other letters that change to ASCII ones."""


def _case(action: str, plain: bool, pace: Pace) -> Callable[[str], str]:
    """Return the function from text to text. Letters that would become several keep to one, or stay as they are."""
    whole = _CASES[action]
    if whole is str:
        return whole
    ascii_only = bytes.lower if whole is str.lower else bytes.upper

    def change(text: str) -> str:
        if text.isascii():
            return whole(text)
        if plain:
            return decode(ascii_only(encode(text, pace)))
        changed = whole(text)
        if len(changed) == len(text) and (action == "UPPER" or "\u03a3" not in text):  # a sigma depends on its neighbors
            return changed
        return "".join(_letter(letter, whole) for letter in text)

    return change


def _letter(letter: str, change: Callable[[str], str]) -> str:
    changed = change(letter)
    if len(changed) == 1:
        return changed
    if change is str.lower:
        return changed[0]  # an i with a dot above
    title = letter.title()
    return title if len(title) == 1 else letter
