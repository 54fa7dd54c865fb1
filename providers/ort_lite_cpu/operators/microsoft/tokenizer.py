"""com.microsoft Tokenizer: a Python step."""

import re
from collections.abc import Callable, Sequence

from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.text import pattern
from ort_lite_cpu.operators.text_steps import Dims, emit_texts
from ort_lite_cpu.registry import STRING, operator

START, END = "\x02", "\x03"
BETWEEN = "\0"
"""What stands between texts that are looked at as one."""

Tokenize = Callable[[list[str]], list[list[str]]]
"""From texts to the tokens of each."""


@operator("Tokenizer", domain="com.microsoft", types=STRING, python=True)
def tokenizer(op: NodeLowering) -> None:
    """(C) or (N, C) -> (..., most tokens), filled up with `pad_value`; `mark` puts a token before and behind.

    Characters (`separators` [""] or `tokenexp` "."), what separators leave, or what an expression finds.
    Spec: onnxruntime Tokenizer-1.
    """
    tokenize = _function(op, int(op.attr("mincharnum", 1)))
    mark, fill = bool(op.attr("mark", 0)), op.attr("pad_value", "")

    def split(texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        rows = tokenize(texts)
        most = max(map(len, rows), default=0)
        if not most:
            return [], (*shape, 0)
        if mark:
            rows = [[START, *row, END] for row in rows]
            most += 2
        fills, tokens = [fill] * most, []
        for row in rows:
            tokens += row
            tokens += fills[len(row) :]
        return tokens, (*shape, most)

    emit_texts(op, split)


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
    runs = _RUNS.fullmatch(expression)
    return _matches(found, least) if runs is None else _of_runs(found, pattern(op, runs[1]), least)


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


def _of_runs(expression: re.Pattern[str], member: re.Pattern[str], least: int) -> Tokenize:
    """`_found` for runs: in ASCII all other characters become spaces, between which the runs are. A third of the time."""
    members = {code for code in range(128) if member.fullmatch(chr(code))}
    if any(chr(code).isspace() or chr(code) == BETWEEN for code in members):
        return _matches(expression, least)
    table = bytes(code if code in members or chr(code) == BETWEEN else ord(" ") for code in range(256))

    def tokens(texts: list[str]) -> list[list[str]]:
        joined = BETWEEN.join(texts)
        if not joined.isascii() or joined.count(BETWEEN) != len(texts) - 1:
            return [_found(text, expression, least) for text in texts]
        found = [text.split() for text in joined.encode().translate(table).decode().split(BETWEEN)]
        return found if least == 1 else [[token for token in row if len(token) >= least] for row in found]

    return tokens


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
