"""Numbers for texts: a dictionary for few, native code for many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
        self._values, self._kernels, self._native = values, kernels, text_numbers([*numbers], kernels)
        self._failing = len(numbers) if other is None else UNREAD

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what holds addresses of this process."""
        return {**vars(self), "_native": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._native = text_numbers([*self._table], self._kernels)

    def __call__(self, texts: list[str], shape: tuple[int, ...]) -> Array:
        """Return the numbers of texts in flat order."""
        slices = self._pace.slices(len(texts))
        found = bytearray().join([self._join(texts[part], texts[part], part.start) for part in slices])
        return np.ndarray(shape, self._kind, found)

    def find(self, x: Array) -> Array:
        """Return the numbers of an array of texts."""
        if x.size == 1 and not self._fails:
            return np.ndarray(x.shape, self._kind, bytearray(self._table[x.item()]))
        if self._native is None or x.size < MANY:
            return self(self._pace.elements(x), x.shape)
        flat, y = np.ascontiguousarray(x).reshape(-1), np.empty(x.size, self._kind)
        for part in self._pace.slices(x.size, CHEAP):
            texts, numbers = flat[part], np.empty(len(y[part]), np.int64)
            unread = self._native.write(texts, numbers)
            y[part] = self._values[numbers]
            if unread or self._fails:
                rest = np.flatnonzero((numbers == UNREAD) | (numbers == self._failing))
                y[part][rest] = np.frombuffer(self._join(texts[rest].tolist(), texts, part.start), self._kind)
        return y.reshape(x.shape)

    def _join(self, texts: list[str], among: Iterable[str], start: int) -> bytes:
        """Return the bytes of the numbers of texts, which are some of those from position `start` on."""
        try:
            return b"".join(self._table.find(texts))
        except KeyError:
            at, text = next((k, text) for k, text in enumerate(among, start) if text not in self._table)
            raise ValueError(f"{text!r} at position {at} {self._missing}") from None
