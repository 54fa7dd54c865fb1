"""com.microsoft Tokenizer: a Python step."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from ort_lite.graph import Node
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.patterns import TextPattern, after, compile_patterns, decode, encode
from ort_lite_cpu.operators.splitting import flatten, parts, words
from ort_lite_cpu.operators.text_steps import Dims, Streamed, emit_texts
from ort_lite_cpu.operators.words import BETWEEN, can_stream
from ort_lite_cpu.operators.words import END as STOP
from ort_lite_cpu.registry import STRING, operator
from ort_lite_cpu.run.pace import CHEAP, Pace

START, END = "\x02", "\x03"
Tokenize = Callable[[list[str]], list[list[str]]]
"""A function from texts to the tokens of each."""


def _patterns(node: Node) -> list[TextPattern]:
    """Return the patterns of the separators, that of the expression, or none if characters are the tokens."""
    separators, expression = node.attr("separators"), node.attr("tokenexp")
    if separators == [""] or (not separators and expression == "."):
        return []
    return compile_patterns(node, separators or [expression or ""], longest=True)


@operator("Tokenizer", domain="com.microsoft", types=STRING, python=True, check=_patterns)
def tokenizer(op: NodeLowering) -> None:
    """Split texts (C) or (N, C) into (..., most tokens), filled up with `pad_value`; `mark` puts a token before and behind.

    Characters (`separators` [""] or `tokenexp` "."), what separators leave, or what an expression finds.
    Spec: onnxruntime Tokenizer-1.
    """
    tokenize = _function(op, int(op.attr("mincharnum", 1)))
    emit_texts(op, _Split(tokenize, bool(op.attr("mark", 0)), op.attr("pad_value", ""), op.pace))


class _Split(Streamed):
    """The stage that splits texts into tokens."""

    def __init__(self, tokenize: Tokenize, mark: bool, fill: str, pace: Pace) -> None:
        super().__init__(fill)
        self._tokenize, self._mark, self._pace = tokenize, mark, pace
        if isinstance(tokenize, (_AsciiRuns, _Letters)) and not mark:
            self.least, self.letters, self.apart = tokenize.least, tokenize.letters, isinstance(tokenize, _Letters)

    def __call__(self, texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        tokens, counts = flatten(self._pace, texts, self._tokenize)
        most = max(counts, default=0) + 2 * (self._mark and bool(tokens))
        self._pace.take(8 * most * len(counts))
        made: list[str] = []
        for row in self._rows(tokens, counts):
            if len(row) <= CHEAP:
                made += row
            else:
                for part in self._pace.slices(len(row), CHEAP):
                    made += row[part]
            made += [self.fill] * (most - len(row))
        return made, (*shape, most)

    def _rows(self, tokens: list[str], counts: Iterable[int]) -> Iterator[list[str]]:
        """Yield the row of each text, marked; if no text has a token, no row is marked."""
        marked, at = self._mark and bool(tokens), 0
        for count in counts:
            self._pace.check()
            row = tokens if count == len(tokens) else tokens[at : at + count]
            at += count
            yield [START, *row, END] if marked else row

    def stream(self, texts: list[str]) -> bytes:
        """Replace a word that a stream cannot hold by one that is not UTF-8, and so none of a model's."""
        if isinstance(self._tokenize, (_AsciiRuns, _Letters)) and not self._mark:
            quick = self._tokenize.stream(texts)
            if quick is not None:
                return quick
        unknown = b"\xff" * self.least
        stream = bytearray()
        for row in self._rows(*flatten(self._pace, texts, self._tokenize)):
            parts = []
            for part in self._pace.slices(len(row)):
                held = [encode(word, self._pace) if can_stream([word]) else unknown for word in row[part]]
                parts.append(bytes([BETWEEN]).join(held))
            stream += bytes([BETWEEN]).join(parts) + bytes([STOP])
        return bytes(stream)


def _function(op: NodeLowering, least: int) -> Tokenize:
    separators, expression, pace = op.attr("separators"), op.attr("tokenexp"), op.pace
    if not separators and not expression:
        raise op.reject("neither separators nor tokenexp is given")
    patterns = _patterns(op.node)
    if not patterns:
        return _Letters(pace)
    if separators:
        between = _Between(separators, patterns, least, pace)
        return lambda texts: list(map(between, texts))
    found = _Found(patterns[0], max(least, 1), pace)
    members = _members(op.node, expression)
    return _AsciiRuns(found, members, max(least, 1), pace) if members else lambda texts: list(map(found, texts))


FEW = 1000
"""Characters that Python spreads in less time than NumPy."""


class _Letters:
    """The characters of each text."""

    least = 1
    letters = bytes(STOP if code == BETWEEN else code for code in range(256))

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def stream(self, texts: list[str]) -> bytes | None:
        """Return the stream, with BETWEEN before each character; None if a text has a character that it cannot hold."""
        parts = []
        for block in self._pace.texts(texts):
            joined = chr(STOP).join([*block, ""])
            if chr(BETWEEN) in joined or joined.count(chr(STOP)) != len(block):
                return None
            if len(joined) <= FEW:
                parts.append(encode(chr(BETWEEN) + chr(BETWEEN).join(joined), self._pace))
            else:
                parts += [_spread(encode(piece, self._pace)) for piece in self._pace.pieces(joined)]
        return b"".join(parts) if parts else bytes([STOP])

    def __call__(self, texts: list[str]) -> list[list[str]]:
        return list(map(self._of, texts))

    def _of(self, text: str) -> list[str]:
        letters: list[str] = []
        for piece in self._pace.pieces(text):
            letters += piece
        return letters


def _spread(data: bytes) -> bytes:
    """Return UTF-8 with BETWEEN before each character."""
    codes = np.frombuffer(data, np.uint8)
    places = np.cumsum((codes & 0xC0) != 0x80) + np.arange(len(codes))  # characters so far, and bytes
    spread = np.full(places[-1] + 1 if len(places) else 0, BETWEEN, np.uint8)
    spread[places] = codes
    return spread.tobytes()


class _Between:
    """The texts between the separators, one kind of separator after the other."""

    def __init__(self, separators: Sequence[str], patterns: Sequence[TextPattern], least: int, pace: Pace) -> None:
        """Split at `patterns`, compiled expressions of separators."""
        self._kinds = [_literal(text) or pattern for text, pattern in zip(separators, patterns, strict=True)]
        self._least, self._pace = least, pace

    def __call__(self, text: str) -> list[str]:
        tokens, least = [text], self._least
        for kind in self._kinds:
            self._pace.check()
            tokens = [piece for token in tokens for piece in self._pieces(token, kind) if len(piece) >= least]
        return tokens

    def _pieces(self, text: str, kind: str | TextPattern) -> list[str]:
        if isinstance(kind, str):
            return parts(self._pace, text, kind)
        data = encode(text, self._pace)
        return self._pace.beside(self._split_by, data, kind) if kind.is_costly(data) else self._split_by(data, kind)

    def _split_by(self, data: bytes, pattern: TextPattern) -> list[str]:
        """Return the pieces between matches. As in onnxruntime, an empty match is a separator of one character."""
        pieces, start = [], 0
        for begin, end in pattern.find_all(data, self._pace):
            pieces.append(decode(data[start:begin]))
            start = end if begin < end else after(data, begin)
        return [*pieces, decode(data[start:])]


_LITERAL = re.compile(r"(?:[^\\.+*?()|[\]{}^$]|\\[!-/:-@[-^`{-~])++")


def _literal(pattern: str) -> str:
    """Return the text that alone matches a pattern without operators; "" for others."""
    return re.sub(r"\\(.)", r"\1", pattern) if _LITERAL.fullmatch(pattern) else ""


class _Found:
    """The matches in a text; behind one that is too short the search goes on at its second character."""

    def __init__(self, pattern: TextPattern, least: int, pace: Pace) -> None:
        self._pattern, self._least, self._pace = pattern, least, pace

    def __call__(self, text: str) -> list[str]:
        data = encode(text, self._pace)
        return self._pace.beside(self._tokens, data) if self._pattern.is_costly(data) else self._tokens(data)

    def _tokens(self, data: bytes) -> list[str]:
        tokens, start = [], 0
        while start <= len(data) and (span := self._pattern.find(data, start)) is not None:
            self._pace.check()
            token = decode(data[slice(*span)])
            if len(token) >= self._least:
                tokens.append(token)
                start = span[1]
            else:
                start = after(data, span[0])
        return tokens


_RUNS = re.compile(r"(\\w|\[[^][\\^:]+\])\+")
"""Expressions for runs of characters of one class."""


class _AsciiRuns:
    """`_Found` for runs of a class of ASCII characters: all others become spaces, between which the runs are. A tenth of the time."""

    def __init__(self, found: _Found, members: Collection[int], least: int, pace: Pace) -> None:
        self._found, self.least, self._pace = found, least, pace
        self._spaced, self.letters = (
            bytes(code if code in members or code == STOP else other for code in range(256)) for other in (ord(" "), BETWEEN)
        )

    def __call__(self, texts: list[str]) -> list[list[str]]:
        spaced = self._translate(texts, self._spaced)
        if spaced is None:
            return list(map(self._found, texts))
        found = [words(self._pace, text) for text in spaced.decode().split(chr(STOP))]
        return found if self.least == 1 else [[token for token in row if len(token) >= self.least] for row in found]

    def stream(self, texts: list[str]) -> bytes | None:
        """Return the stream; None if a text has a character that it cannot hold. Words that are too short are in it."""
        parts = []
        for block in self._pace.texts(texts):
            part = self._translate(block, self.letters)
            if part is None:
                return None
            parts.append(part + bytes([STOP]))
        return b"".join(parts) if parts else bytes([STOP])

    def _translate(self, texts: list[str], table: bytes) -> bytes | None:
        """Return the texts as one; None where that would not tell them apart."""
        parts = self._pace.pieces(texts[0]) if len(texts) == 1 else texts
        joined = (chr(STOP) if len(texts) > 1 else "").join(parts)
        if joined.count(chr(STOP)) != len(texts) - 1:
            return None
        return b"".join(encode(piece, self._pace).translate(table) for piece in self._pace.pieces(joined))


def _members(node: Node, expression: str) -> set[int]:
    """Return the ASCII characters that an expression of runs is for; "" if it is none, or they are spaces or bytes of a stream."""
    runs = _RUNS.fullmatch(expression)
    if runs is None or not expression.isascii():
        return set()
    [member] = compile_patterns(node, [runs[1]])
    found = {code for code in range(128) if member.matches(bytes([code]))}
    return set() if any(chr(code).isspace() or code in (STOP, BETWEEN) for code in found) else found
