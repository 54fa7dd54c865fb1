"""com.microsoft Tokenizer: a Python step."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.text import pattern
from ort_lite_cpu.registry import STRING, operator

START, END = "\x02", "\x03"

Tokenize = Callable[[str], Sequence[str]]


@operator("Tokenizer", domain="com.microsoft", types=STRING, python=True)
def tokenizer(op: NodeLowering) -> None:
    """(C) or (N, C) -> (..., most tokens), filled up with `pad_value`; `mark` puts a token before and behind.

    Characters (`separators` [""] or `tokenexp` "."), what separators leave, or what an expression finds.
    Spec: onnxruntime Tokenizer-1.
    """
    tokenize = _function(op, int(op.attr("mincharnum", 1)))
    mark, fill = bool(op.attr("mark", 0)), op.attr("pad_value", "")

    def step(x: Array) -> list[Array]:
        rows = [tokenize(text) for text in x.reshape(-1).tolist()]
        most = max(map(len, rows), default=0)
        if not most:
            return [np.empty((*x.shape, 0), object)]
        if mark:
            rows = [[START, *row, END] for row in rows]
            most += 2
        tokens: list[str] = []
        for row in rows:
            tokens += row
            tokens += [fill] * (most - len(row))
        return [np.array(tokens, object).reshape(*x.shape, most)]

    op.python(step)


def _function(op: NodeLowering, least: int) -> Tokenize:
    separators, expression = op.attr("separators"), op.attr("tokenexp")
    if not separators and not expression:
        raise op.reject("neither separators nor tokenexp is given")
    if separators == [""] or (not separators and expression == "."):
        return list
    if separators:
        patterns = [pattern(op, separator) for separator in separators]
        return lambda text: _between(text, patterns, least)
    return _search(pattern(op, expression), max(least, 1))


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


def _search(expression: re.Pattern[str], least: int) -> Tokenize:
    """`_found`, by `findall` where that is the same: while no match is too short, so that every search goes on behind one."""
    if expression.groups:
        return lambda text: _found(text, expression, least)
    find = expression.findall

    def tokens(text: str) -> list[str]:
        found: list[str] = find(text)
        enough = all(found) if least == 1 else min(map(len, found), default=least) >= least
        return found if enough else _found(text, expression, least)

    return tokens


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
