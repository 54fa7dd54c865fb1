"""Numbers for texts: a dictionary for few, native code for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.operators.texts import UNREAD, text_numbers
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.pace import CHEAP, Pace

T = TypeVar("T")
MANY = 64
"""Texts that native code finds in less time than the dictionary; an array of its own takes a microsecond."""


class Table(dict[str, T]):
    """The values of texts, and `other` for texts that have none: None stands for a KeyError."""

    def __init__(self, values: Mapping[str, T], other: T | None) -> None:
        super().__init__(values)
        self._other = other

    def __missing__(self, text: str) -> T:
        if self._other is None:
            raise KeyError(text)
        return self._other

    def find(self, texts: list[str]) -> Sequence[T]:
        """Return the values of texts in order. 20 ns a text that has one, 100 ns for others."""
        return itemgetter(*texts)(self) if len(texts) > 1 else [self[text] for text in texts]


class Lookup:
    """The end of a step: the numbers of texts as an array. Texts without one have the number `other`; None: they fail."""

    def __init__(
        self, pace: Pace, kernels: Kernels, numbers: Mapping[str, Any], kind: np.dtype[Any], other: Any, missing: str
    ) -> None:
        """`missing` ends the message for a text without a number."""
        self._pace, self._kind, self._fails, self._missing = pace, kind, other is None, missing
        values = np.array([*numbers.values(), 0 if other is None else other], kind)
        parts = [value.tobytes() for value in values]  # joined, they are an array
        self._table = Table(dict(zip(numbers, parts, strict=False)), None if other is None else parts[-1])
        self._values, self._native = values, text_numbers([*numbers], kernels)

    def __call__(self, texts: list[str], shape: tuple[int, ...]) -> Array:
        """Return the numbers of texts in flat order."""
        try:
            return np.ndarray(shape, self._kind, self._bytes(texts))
        except KeyError:
            raise self._error(texts) from None

    def find(self, x: Array) -> Array:
        """Return the numbers of an array of texts."""
        if x.size == 1:
            return self([x.item()], x.shape)
        if self._native is None or x.size < MANY:
            return self(self._pace.elements(x), x.shape)
        flat, numbers, unread = np.ascontiguousarray(x).reshape(-1), np.empty(x.size, np.int64), 0
        for part in self._pace.slices(x.size, CHEAP):
            unread += self._native.write(flat[part], numbers[part])
        y = self._values[numbers]
        try:
            if unread:
                rest = np.flatnonzero(numbers == UNREAD)
                y[rest] = np.frombuffer(self._bytes(self._pace.elements(flat[rest])), self._kind)
            if self._fails and len(self._table) in numbers:
                raise KeyError
        except KeyError:
            raise self._error(self._pace.elements(flat)) from None
        return y.reshape(x.shape)

    def _bytes(self, texts: list[str]) -> bytearray:
        """Return the bytes of the numbers of texts. Raises KeyError."""
        if len(texts) == 1:
            return bytearray(self._table[texts[0]])
        return bytearray().join([b"".join(self._table.find(texts[part])) for part in self._pace.slices(len(texts))])

    def _error(self, texts: list[str]) -> ValueError:
        at = next(k for k, text in enumerate(texts) if text not in self._table)
        return ValueError(f"{texts[at]!r} at position {at} {self._missing}")
