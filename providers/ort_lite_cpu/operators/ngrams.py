"""n-grams of numbers: a prefix tree as a hash table, and how often each occurs in a row."""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.lang import Ptr, cast, imin, like, native, read_once, shr, wadd, wmul

NODE, ITEM, NEXT, NGRAM = 0, 1, 2, 3
"""Columns of the table: from NODE, ITEM leads to NEXT, where NGRAM ends (-1: none). A NODE of -1 is a free place."""
MIX_NODE, MIX_ITEM = -7046029254386353131, -4417276706812531889


class Ngrams(NamedTuple):
    """The n-grams to count: `shortest` to `longest` items, with up to `skips` items between neighbours."""

    width: int
    """Columns of the result."""
    mask: int
    """Rows of the table, less 1."""
    shortest: int
    longest: int
    skips: int
    once: int
    """1: any number of times counts as one."""


@native
def place(node: int, item: int, mask: int) -> int:
    """Return the preferred row of (node, item) in the hash table: the upper bits of a product."""
    row: int = shr(wadd(wmul(node, MIX_NODE), wmul(item, MIX_ITEM)), 20) & mask
    return row


@native
def step(table: Ptr, node: int, item: int, mask: int) -> int:
    """Return the table's row for (node, item), or -1."""
    row = place(node, item, mask)
    while table[row * 4 + NODE] >= 0:
        if table[row * 4 + NODE] == node and table[row * 4 + ITEM] == item:
            return row
        row = (row + 1) & mask
    return -1


@native
def count_row(x: Ptr, table: Ptr, columns: Ptr, y: Ptr, items: int, g: Ngrams) -> None:
    """y (width,) = how often each n-gram occurs in x (items,).

    Items that begin no n-gram cost one look. The others are tried with each distance at which so short an n-gram still fits.
    """
    for column in range(g.width):
        y[column] = like(y, 0)
    least = max(g.shortest, 2)
    for start in range(items):
        first = step(table, 0, cast(read_once(x, start), "i64"), g.mask)
        if first < 0:
            continue
        if g.shortest <= 1 and table[first * 4 + NGRAM] >= 0:
            column = columns[table[first * 4 + NGRAM]]
            y[column] = y[column] + like(y, 1)
        farthest = imin(g.skips + 1, (items - 1 - start) // (least - 1)) if g.longest > 1 else 0
        for distance in range(1, farthest + 1):
            node, at, length = table[first * 4 + NEXT], start + distance, 2
            while length <= g.longest and at < items:
                found = step(table, node, cast(read_once(x, at), "i64"), g.mask)
                if found < 0:
                    break
                ngram = table[found * 4 + NGRAM]
                if ngram >= 0 and length >= least:
                    column = columns[ngram]
                    y[column] = y[column] + like(y, 1)
                node = table[found * 4 + NEXT]
                at += distance
                length += 1


@native
def weigh(y: Ptr, weights: Ptr, g: Ngrams) -> None:
    """y (width,) *= weights, after counts became 0 or 1 if `once`."""
    for column in range(g.width):
        if g.once != 0 and y[column] > like(y, 1):
            y[column] = like(y, 1)
        y[column] = y[column] * weights[column]


def ngram_table(ngrams: dict[tuple[int, ...], int]) -> Array:
    """Return a prefix tree as a hash table with open addressing, at most half full."""
    branches: dict[tuple[int, int], list[int]] = {}
    for ngram, number in ngrams.items():
        node = 0
        for item in ngram:
            branch = branches.setdefault((node, item), [len(branches) + 1, -1])
            node = branch[0]
        branch[1] = number
    size = 1 << max(2 * len(branches), 1).bit_length()
    table = np.full((size, 4), -1, np.int64)
    for (node, item), (following, number) in branches.items():
        row = _place(node, item, size - 1)
        while table[row, NODE] >= 0:
            row = (row + 1) & (size - 1)
        table[row] = node, item, following, number
    return table


def _place(node: int, item: int, mask: int) -> int:
    """Return `place`, in Python: int64 arithmetic that wraps."""
    wrapped = (node * MIX_NODE + item * MIX_ITEM) & (2**64 - 1)
    signed = wrapped - 2**64 if wrapped >= 2**63 else wrapped
    return (signed >> 20) & mask
