"""Operators on text: Python steps."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.text_steps import Dims, emit_texts
from ort_lite_cpu.registry import STRING, operator


def mapped(function: Any, x: Array, dtype: Any = object) -> Array:
    """function of each element, as an array of x's shape."""
    return np.fromiter(map(function, x.reshape(-1).tolist()), dtype, x.size).reshape(x.shape)


def pattern(op: NodeLowering, text: str) -> re.Pattern[str]:
    """A pattern in RE2's syntax, whose classes are ASCII. Raises NotImplemented for what Python's `re` does not know."""
    try:
        return re.compile(text.replace(r"\z", r"\Z"), re.ASCII)
    except re.error as error:
        raise op.reject(f"the pattern {text!r} is none that Python's re knows: {error}") from None


@operator("StringConcat", since=20, types=STRING, python=True)
def string_concat(op: NodeLowering) -> None:
    """Both broadcast. Spec: ONNX StringConcat-20."""
    op.python(lambda a, b: [np.asarray(a + b, object)])


@operator("RegexFullMatch", since=20, types=STRING, python=True)
def regex_full_match(op: NodeLowering) -> None:
    """Spec: ONNX RegexFullMatch-20."""
    matches = pattern(op, op.attr("pattern", "")).fullmatch
    op.python(lambda x: [mapped(lambda text: matches(text) is not None, x, bool)])


@operator("StringSplit", since=20, types=STRING, python=True)
def string_split(op: NodeLowering) -> None:
    """Parts, filled up with empty strings, and how many there are. Spec: ONNX StringSplit-20."""
    delimiter, limit = op.attr("delimiter") or None, op.attr("maxsplit", -1)

    def step(x: Array) -> list[Array]:
        rows = [text.split(delimiter, limit) for text in x.reshape(-1).tolist()]
        counts = np.array([len(row) for row in rows], np.int64)
        most = int(counts.max(initial=0))
        parts = np.full((x.size, most), "", object)
        for k, row in enumerate(rows):
            parts[k, : len(row)] = row
        return [parts.reshape(*x.shape, most), counts.reshape(x.shape)]

    op.python(step)


@operator("StringNormalizer", since=10, types=STRING, python=True)
def string_normalizer(op: NodeLowering) -> None:
    """(C) or (1, C): stop words go, letters change case, one by one; where nothing is left, one empty string.

    What a letter becomes does not depend on the machine: Unicode says it, for the locales "C" and "POSIX" ASCII.
    Spec: ONNX StringNormalizer-10.
    """
    action, sensitive = op.attr("case_change_action", "NONE"), bool(op.attr("is_case_sensitive", 0))
    if action not in _CASES:
        raise op.reject(f"case_change_action {action!r}; it should be LOWER, UPPER or NONE")
    plain = op.attr("locale", "") in ("C", "POSIX")
    whole, change = _CASES[action], _case(action, plain)
    compared = _case("NONE" if sensitive else "UPPER" if action == "UPPER" else "LOWER", plain)
    stop_words = frozenset(compared(word) for word in op.attr("stopwords") or ())

    def normalize(texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
            raise ValueError(f"the input has the shape {shape}; (C) or (1, C) is expected")
        if not stop_words:
            return [whole(text) if text.isascii() else change(text) for text in texts], shape
        left = [change(text) for text in texts if compared(text) not in stop_words] or [""]
        return left, (*shape[:-1], len(left))

    emit_texts(op, normalize)


_CASES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


def _case(action: str, plain: bool) -> Any:
    """The function from text to text. Letters that would become several keep to one, or stay as they are."""
    whole = _CASES[action]

    def change(text: str) -> str:
        return whole(text) if text.isascii() else "".join(_letter(letter, whole, plain) for letter in text)

    return change


def _letter(letter: str, change: Any, plain: bool) -> str:
    if plain and not letter.isascii():
        return letter
    changed: str = change(letter)
    if len(changed) == 1:
        return changed
    if change is str.lower:
        return changed[0]  # an i with a dot above
    title = letter.title()
    return title if len(title) == 1 else letter
