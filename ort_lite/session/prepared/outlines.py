"""Positions of the large tensors of models with prepared programs, so that the next session need not search for them.

A model is found by its size and its first bytes, which others may have too. That does no harm: positions are part of the key of a
program, so that wrong ones lead to none, and they are searched for then. If a program is found by them, the model has the same bytes
around the same tensors as the one that was searched, and so the same tensors.
"""

from collections.abc import Sequence

import numpy as np

from ort_lite.load.wire import LARGE, Span
from ort_lite.native import store

LEAST = 1 << 16
"""The size in bytes of a model from which on searching may take longer than reading a file."""


def find(size: int, first: bytes) -> Sequence[Span] | None:
    """Return the positions of large tensors in a model of this size with these first bytes, in order; None if none are known."""
    data = store.read(_key_of(size, first)) if size >= LEAST else None
    if data is None or len(data) % 16:
        return None
    words = np.frombuffer(data, "<i8")
    ordered = np.concatenate([[0], words, [size]])
    if (np.diff(ordered) < 0).any() or (words[1::2] - words[::2] < LARGE).any():
        return None
    numbers = words.tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def keep(size: int, first: bytes, spans: frozenset[Span]) -> None:
    """Store the positions in a model that was searched."""
    if size >= LEAST:
        store.write(_key_of(size, first), np.array(sorted(spans), "<i8").tobytes())


def _key_of(size: int, first: bytes) -> str:
    return store.key_of(b"outline %d %d " % (LARGE, size), first)
