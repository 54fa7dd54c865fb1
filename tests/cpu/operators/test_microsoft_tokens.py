"""com.microsoft's operators on tokens, words and paths: NGramRepeatBlock, WordConvEmbedding, DynamicTimeWarping."""

from collections.abc import Sequence

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.operators.test_microsoft_forms import HOW, check


# --- NGramRepeatBlock
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
def test_tokens_that_repeat(n: int) -> None:
    tokens = np.random.default_rng(0).integers(0, 3, (4, 8))
    check("NGramRepeatBlock", tokens, ramp((4, 5)), outputs=("float32",), ngram_size=n)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)], ids=str)
def test_tokens_of_nothing(shape: tuple[int, int]) -> None:
    scores = ramp((shape[0], 5))
    for n in (1, 2):
        check("NGramRepeatBlock", np.zeros(shape, np.int64), scores, outputs=("float32",), ngram_size=n)


def test_tokens_are_in_the_vocabulary() -> None:
    """Only those that would be blocked are looked at, as in onnxruntime."""
    tokens = np.array([[7, 1, 2, 1]])
    check("NGramRepeatBlock", tokens, ramp((1, 5)), outputs=("float32",), ngram_size=2)
    for wrong in (-1, 5):
        with pytest.raises(InvalidArgument, match=rf"token {wrong} at position 2 of 'in0' is out of range \[0, 5\)"):
            run_op("NGramRepeatBlock", [np.array([[7, 1, wrong, 1]]), ramp((1, 5))], {"ngram_size": 2}, **HOW)
    with pytest.raises(NotSupported, match="ngram_size 0"):
        run_op("NGramRepeatBlock", [tokens, ramp((1, 5))], {"ngram_size": 0}, **HOW)
    with pytest.raises(OrtLiteError, match=r"\b1\b.*\b2\b"):
        run_op("NGramRepeatBlock", [tokens, ramp((2, 5))], {"ngram_size": 2}, **HOW)


# --- WordConvEmbedding
def words(x: Array, w: Array, bias: Array, table: Array) -> Array:
    """Sums over windows of the characters that count, of the largest the tanh."""
    filters, _, width, _ = w.shape
    found = np.zeros((len(x), filters), w.dtype)
    rows = np.where(((x >= 0) & (x < len(table)))[..., None], table[np.clip(x, 0, len(table) - 1)], 0)
    for k, word in enumerate(x):
        length = (word > 0).sum() if word[0] > 0 else 0
        windows = [rows[k, i : i + width].ravel() for i in range(max(length - width, 0) + 1)]
        found[k] = np.tanh((np.array(windows) @ w.reshape(filters, -1).T + bias).max(axis=0)) if length else 0
    return found


LETTERS = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0], [2, 2, 2, 2, 2], [3, 5, 1, 4, 0], [3, 99, 1, -4, 5]], np.int32)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_words(width: int) -> None:
    operands = [ramp((6, 1, width, 4)), ramp((6,)), ramp((7, 4))]
    check("WordConvEmbedding", LETTERS, *operands, outputs=("float32",))
    check("WordConvEmbedding", LETTERS, *operands, outputs=("float32",), embedding_size=6, conv_window_size=width)


def test_empty_words_are_zeros() -> None:
    """onnxruntime leaves them as memory is."""
    x = np.array([[0, 2, 3], [1, 2, 0], [0, 0, 0]], np.int32)
    check_op("WordConvEmbedding", x, ramp((5, 1, 2, 4)), ramp((5,)), ramp((7, 4)), expected=words, **HOW)
    check_op("WordConvEmbedding", x[:0], ramp((5, 1, 2, 4)), ramp((5,)), ramp((7, 4)), expected=words, **HOW)


WRONG = [
    ([(6, 1, 6, 4), (6,), (7, 4)], {}, "filters of 6 characters for words of 5"),
    ([(6, 1, 2, 4), (6,), (7, 4)], {"conv_window_size": 3}, "conv_window_size and the filters differ: 3 and 2"),
    ([(6, 1, 2, 4), (6,), (7, 4)], {"char_embedding_size": 5}, "char_embedding_size and the filters differ: 5 and 4"),
]


@pytest.mark.parametrize(("shapes", "attributes", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_words_and_filters_agree(shapes: Sequence[Sequence[int]], attributes: dict[str, int], message: str) -> None:
    with pytest.raises(OrtLiteError, match=message):
        run_op("WordConvEmbedding", [LETTERS, *map(ramp, shapes)], attributes, **HOW)


# --- DynamicTimeWarping
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (1, 7, 4), (1, 6), (6, 1), (40, 90)], ids=str)
def test_paths(shape: tuple[int, ...]) -> None:
    check("DynamicTimeWarping", np.abs(ramp(shape)), outputs=("int32",))
    check("DynamicTimeWarping", ramp(shape), outputs=("int32",))


def test_paths_where_steps_are_equal_or_nan() -> None:
    check("DynamicTimeWarping", np.ones((4, 6), np.float32), outputs=("int32",))
    costs = ramp((4, 6))
    costs[1, 2] = np.nan
    check("DynamicTimeWarping", costs, outputs=("int32",))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_paths_of_nothing(shape: tuple[int, int]) -> None:
    check_op("DynamicTimeWarping", np.zeros(shape, np.float32), expected=np.zeros((2, 0), np.int32), **HOW)
