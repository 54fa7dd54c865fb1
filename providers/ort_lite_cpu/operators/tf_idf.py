"""TfIdfVectorizer: counts n-grams of a pool. Strings become numbers of the pool in a Python step, the counting is native."""

from collections.abc import Sequence
from itertools import pairwise, repeat

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, cast, like, native, shr, span, wadd, wmul
from ort_lite.shapes import minimum, product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.text_steps import Dims, emit_numbers
from ort_lite_cpu.registry import STRING, operator

NODE, ITEM, NEXT, NGRAM = 0, 1, 2, 3
"""Columns of the table: from NODE, ITEM leads to NEXT, where NGRAM ends (-1: none). A NODE of -1 is a free place."""
MOST = 2**31
"""More columns than a model can ask for."""
MIX_NODE, MIX_ITEM = -7046029254386353131, -4417276706812531889


@native
def place(node: int, item: int, mask: int) -> int:
    """Where (node, item) would like to be in the table: the upper bits of a product."""
    row: int = shr(wadd(wmul(node, MIX_NODE), wmul(item, MIX_ITEM)), 20) & mask
    return row


@native
def step(table: Ptr, node: int, item: int, mask: int) -> int:
    """The table's row for (node, item), or -1."""
    row = place(node, item, mask)
    while table[row * 4 + NODE] >= 0:
        if table[row * 4 + NODE] == node and table[row * 4 + ITEM] == item:
            return row
        row = (row + 1) & mask
    return -1


@native
@extents(x="rows * items", table="4 * (mask + 1)", columns="given", weights="width", y="rows * width")
def count_ngrams(
    x: Ptr,
    table: Ptr,
    columns: Ptr,
    weights: Ptr,
    y: Ptr,
    rows: int,
    items: int,
    width: int,
    mask: int,
    shortest: int,
    longest: int,
    skips: int,
    once: int,
    part: int,
    parts: int,
) -> int:
    """y (rows, width) = how often each n-gram occurs in a row of x (rows, items), times its column's weight.

    Items of an n-gram are up to `skips` apart from being neighbours, evenly; single items are counted once. once: any number
    of times counts as one. Spec: ONNX TfIdfVectorizer-9.

    The table has a free place, n-grams are numbers of `columns`, and those are below width: `_count` and `_ngrams` see to it.
    skips is at most items: further apart nothing is found, and positions would overflow.
    """
    for row in span(rows, part, parts):
        out = row * width
        for column in range(width):
            y[out + column] = like(y, 0)
        for distance in range(1, skips + 2):
            least = max(shortest, 2) if distance > 1 else shortest
            for start in range(items):
                node, at, length = 0, start, 1
                while length <= longest and at < items:
                    found = step(table, node, cast(x[row * items + at], "i64"), mask)
                    if found < 0:
                        break
                    ngram = table[found * 4 + NGRAM]
                    if ngram >= 0 and length >= least:
                        column = columns[ngram]
                        y[out + column] = y[out + column] + like(y, 1)
                    node = table[found * 4 + NEXT]
                    at += distance
                    length += 1
        for column in range(width):
            if once != 0 and y[out + column] > like(y, 1):
                y[out + column] = like(y, 1)
            y[out + column] = y[out + column] * weights[column]
    return OK


@operator("TfIdfVectorizer", since=9, types=frozenset({"int32", "int64"}))
def tf_idf(op: NodeLowering) -> None:
    """(C) -> (columns), (N, C) -> (N, columns). Spec: ONNX TfIdfVectorizer-9."""
    _count(op, op.input(0), list(op.attr("pool_int64s") or ()))


@operator("TfIdfVectorizer", since=9, types=STRING, python=True)
def tf_idf_of_strings(op: NodeLowering) -> None:
    """As for integers: a string's number is its place among the strings of the pool, -1 for others."""
    pool: list[str] = list(op.attr("pool_strings") or ())
    numbers = {text: k for k, text in enumerate(dict.fromkeys(pool))}

    words = {
        text: np.int64(number).tobytes() for text, number in numbers.items()
    }  # joined they are an array: a third of the time
    other = np.int64(-1).tobytes()

    def numbered(texts: list[str], shape: Dims) -> Array:
        return np.frombuffer(b"".join(map(words.get, texts, repeat(other))), np.int64).reshape(shape)

    x = emit_numbers(op, numbered, Info(TensorType("int64", op.raw(0).shape)))
    _count(op, x, [numbers[text] for text in pool])


def _count(op: NodeLowering, x: Tensor, pool: Sequence[int]) -> None:
    shortest, longest = op.attr("min_gram_length"), op.attr("max_gram_length")
    columns = np.array(op.attr("ngram_indexes"), np.int64)
    if not columns.size or not 0 <= columns.min() <= columns.max() < MOST or not 1 <= shortest <= longest:
        raise op.reject(f"ngram_indexes should be columns from 0 on, below {MOST}, and 1 <= min_gram_length <= max_gram_length")
    skips = op.attr("max_skip_count", 0)
    if skips < 0:
        raise op.reject(f"max_skip_count is {skips}; it should be 0 or more")
    width = int(columns.max()) + 1
    mode, weights = op.attr("mode"), op.attr("weights")
    scale = np.ones(width, np.float32)
    if weights and mode != "TF":
        if len(weights) != len(columns):
            raise op.reject(f"there are {len(weights)} weights for {len(columns)} n-grams")
        scale[columns] = weights
    table = _table(_ngrams(op, pool, shortest, longest))
    y = op.output(0)
    rows = product(x.shape[:-1])
    items = x.shape[-1] if x.shape else 1
    operands = [x, op.array(table), op.array(columns), op.array(scale), y]
    skips = minimum(skips, items)
    op.emit(
        count_ngrams,
        operands,
        rows=rows,
        items=items,
        width=width,
        mask=len(table) - 1,
        shortest=shortest,
        longest=longest,
        skips=skips,
        once=int(mode == "IDF"),
        work=rows * (items * (1 + skips) * 4 + width),
        touched={"columns": len(columns)},
    )


def _ngrams(op: NodeLowering, pool: Sequence[int], shortest: int, longest: int) -> dict[tuple[int, ...], int]:
    """n-grams of the wanted lengths -> their numbers in the pool."""
    starts = [*op.attr("ngram_counts"), len(pool)]
    found: dict[tuple[int, ...], int] = {}
    number = 0
    for length, (start, end) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % length:
            raise op.reject(f"ngram_counts {starts[:-1]} do not cut the pool of {len(pool)} into n-grams")
        for at in range(start, end, length):
            if shortest <= length <= longest:
                found[tuple(pool[at : at + length])] = number
            number += 1
    if number > len(op.attr("ngram_indexes")):
        raise op.reject(f"there are {len(op.attr('ngram_indexes'))} ngram_indexes for {number} n-grams")
    return found


def _table(ngrams: dict[tuple[int, ...], int]) -> Array:
    """A prefix tree as a hash table with open addressing, at most half full."""
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
    """`place`, in Python: int64 arithmetic that wraps."""
    wrapped = (node * MIX_NODE + item * MIX_ITEM) & (2**64 - 1)
    signed = wrapped - 2**64 if wrapped >= 2**63 else wrapped
    return (signed >> 20) & mask
