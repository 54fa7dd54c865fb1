"""com.microsoft Tokenizer: a Python step."""

import re
from collections.abc import Callable, Collection, Sequence

from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.text import pattern
from ort_lite_cpu.operators.text_steps import Dims, Streamed, emit_texts
from ort_lite_cpu.operators.words import BETWEEN, can_be_streamed
from ort_lite_cpu.operators.words import END as STOP
from ort_lite_cpu.registry import STRING, operator

START, END = "\x02", "\x03"
Tokenize = Callable[[list[str]], list[list[str]]]
"""From texts to the tokens of each."""


@operator("Tokenizer", domain="com.microsoft", types=STRING, python=True)
def tokenizer(op: NodeLowering) -> None:
    """(C) or (N, C) -> (..., most tokens), filled up with `pad_value`; `mark` puts a token before and behind.

    Characters (`separators` [""] or `tokenexp` "."), what separators leave, or what an expression finds.
    Spec: onnxruntime Tokenizer-1.
    """
    tokenize = _function(op, int(op.attr("mincharnum", 1)))
    emit_texts(op, _Split(tokenize, bool(op.attr("mark", 0)), op.attr("pad_value", "")))


class _Split(Streamed):
    """The stage."""

    def __init__(self, tokenize: Tokenize, mark: bool, fill: str) -> None:
        super().__init__(fill)
        self._tokenize, self._mark = tokenize, mark
        if isinstance(tokenize, _Runs) and not mark:
            self.least = tokenize.least

    def __call__(self, texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        rows = self._rows(texts)
        most = max(map(len, rows), default=0)
        fills, tokens = [self.fill] * most, []
        for row in rows:
            tokens += row
            tokens += fills[len(row) :]
        return tokens, (*shape, most)

    def _rows(self, texts: list[str]) -> list[list[str]]:
        """Where no text has a token, no row is marked."""
        rows = self._tokenize(texts)
        return [[START, *row, END] for row in rows] if self._mark and any(rows) else rows

    def stream(self, texts: list[str]) -> bytes:
        """A word that a stream cannot hold becomes one that is no UTF-8, and so none of a model's."""
        if isinstance(self._tokenize, _Runs) and not self._mark:
            quick = self._tokenize.stream(texts)
            if quick is not None:
                return quick
        unknown = b"\xff" * self.least
        rows = [
            [word.encode("utf-8", "surrogatepass") if can_be_streamed([word]) else unknown for word in row]
            for row in self._rows(texts)
        ]
        return b"".join(bytes([BETWEEN]).join(row) + bytes([STOP]) for row in rows)


def _function(op: NodeLowering, least: int) -> Tokenize:
    separators, expression = op.attr("separators"), op.attr("tokenexp")
    if not separators and not expression:
        raise op.reject("neither separators nor tokenexp is given")
    if separators == [""] or (not separators and expression == "."):
        return lambda texts: list(map(list, texts))
    if separators:
        patterns = [pattern(op, separator) for separator in separators]
        return lambda texts: [_between(text, patterns, least) for text in texts]
    found, least = pattern(op, expression), max(least, 1)
    if found.groups:
        return lambda texts: [_found(text, found, least) for text in texts]
    members = _members(op, expression)
    return _Runs(found, members, least) if members else _matches(found, least)


def _between(text: str, separators: Sequence[re.Pattern[str]], least: int) -> list[str]:
    """What is left between the separators, one kind after the other."""
    tokens = [text]
    for separator in separators:
        tokens = [piece for token in tokens for piece in _pieces(token, separator) if len(piece) >= least]
    return tokens


def _pieces(text: str, separator: re.Pattern[str]) -> list[str]:
    pieces, start = [], 0
    for match in separator.finditer(text):
        if match.group():
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


_RUNS = re.compile(r"(\\w|\[[^][\\^:]+\])\+")
"""Expressions for runs of characters of one class."""


class _Runs:
    """`_found` for runs of a class: in ASCII all other characters become spaces, between which the runs are. A third of the time."""

    def __init__(self, expression: re.Pattern[str], members: Collection[int], least: int) -> None:
        self._expression, self.least = expression, least
        self._spaced, self._streamed = (
            bytes(code if code in members or code == STOP else other for code in range(256)) for other in (ord(" "), BETWEEN)
        )

    def __call__(self, texts: list[str]) -> list[list[str]]:
        joined = self._joined(texts)
        if joined is None:
            return [_found(text, self._expression, self.least) for text in texts]
        found = [text.split() for text in joined.translate(self._spaced).decode().split(chr(STOP))]
        return found if self.least == 1 else [[token for token in row if len(token) >= self.least] for row in found]

    def stream(self, texts: list[str]) -> bytes | None:
        """None where there is more than ASCII. Words that are too short are in it."""
        joined = self._joined(texts)
        return None if joined is None else joined.translate(self._streamed) + bytes([STOP])

    def _joined(self, texts: list[str]) -> bytes | None:
        """The texts as one; None where that would not tell them apart, or is more than ASCII."""
        joined = chr(STOP).join(texts)
        return joined.encode() if joined.isascii() and joined.count(chr(STOP)) == len(texts) - 1 else None


def _members(op: NodeLowering, expression: str) -> set[int]:
    """The ASCII characters that an expression of runs is for; empty where that is none, or they are spaces or bytes of a stream."""
    runs = _RUNS.fullmatch(expression)
    if runs is None:
        return set()
    member = pattern(op, runs[1])
    found = {code for code in range(128) if member.fullmatch(chr(code))}
    return set() if any(chr(code).isspace() or code in (STOP, BETWEEN) for code in found) else found


def _matches(expression: re.Pattern[str], least: int) -> Tokenize:
    """`_found`, by `findall` where that is the same: while no match is too short, every search goes on behind one."""
    find = expression.findall

    def tokens(text: str) -> list[str]:
        found: list[str] = find(text)
        enough = all(found) if least == 1 else min(map(len, found), default=least) >= least
        return found if enough else _found(text, expression, least)

    return lambda texts: list(map(tokens, texts))


def _found(text: str, expression: re.Pattern[str], least: int) -> list[str]:
    """The matches; after one that is too short the search goes on at its second character."""
    tokens, start = [], 0
    while match := expression.search(text, start):
        if len(match.group()) >= least:
            tokens.append(match.group())
            start = match.end()
        else:
            start = match.start() + 1
        if start > len(text):
            break
    return tokens
