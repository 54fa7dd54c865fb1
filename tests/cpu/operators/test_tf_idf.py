"""TfIdfVectorizer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.ort import ort_op

POOL: dict[str, Any] = {
    "ngram_counts": [0, 3, 9],
    "ngram_indexes": [0, 2, 1, 3, 4, 5],
    "pool_int64s": [2, 3, 5, 5, 4, 5, 6, 7, 8],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 0,
    "mode": "TF",
}
X = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 4, 5, 5, 4, 2]], np.int64)
WEIGHTS = [0.5, 2.0, 3.0, 1.0, 0.1, 7.0]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("skips", [0, 3])
def test_matches_onnxruntime(skips: int, lengths: tuple[int, int], mode: str) -> None:
    attributes = POOL | {"max_skip_count": skips, "min_gram_length": lengths[0], "max_gram_length": lengths[1], "mode": mode}
    for x, more in ((X, {}), (X[1], {"weights": WEIGHTS})):
        wanted = ort_op("TfIdfVectorizer", [x], attributes | more, opset=9)
        check_op("TfIdfVectorizer", x, expected=wanted, opset=9, **attributes, **more)


def test_nothing_to_count() -> None:
    check_op("TfIdfVectorizer", X[:, :0], expected=np.zeros((3, 6), np.float32), opset=9, **POOL)
    check_op("TfIdfVectorizer", X[:0], expected=np.zeros((0, 6), np.float32), opset=9, **POOL)


@settings(max_examples=20)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    st.sets(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1),
    st.integers(0, 4),
)
def test_any_trigrams(items: list[int], grams: set[tuple[int, int, int]], skips: int) -> None:
    attributes = {
        "ngram_counts": [0, 0, 0],
        "ngram_indexes": list(range(len(grams))),
        "pool_int64s": [n for gram in sorted(grams) for n in gram],
        "min_gram_length": 3,
        "max_gram_length": 3,
        "max_skip_count": skips,
        "mode": "TF",
    }
    x = np.array(items)
    runs = [
        tuple(items[start + k * step] for k in range(3))
        for step in range(1, skips + 2)
        for start in range(len(items) - 2 * step)
    ]
    wanted = np.array([runs.count(gram) for gram in sorted(grams)], np.float32)
    assert run_op("TfIdfVectorizer", [x], attributes, opset=9)[0].tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ngram_indexes": [0, -1, 1, 3, 4, 5]}, "columns from 0 on"),
        ({"max_gram_length": 0}, "1 <= min_gram_length <= max_gram_length"),
        ({"weights": [1.0], "mode": "IDF"}, "1 weights for 6 n-grams"),
        ({"ngram_counts": [0, 2]}, "do not cut the pool of 9"),
        ({"ngram_indexes": [0, 1]}, "2 ngram_indexes for 6 n-grams"),
        ({"ngram_indexes": [0, 2**63 - 1, 1, 3, 4, 5]}, "columns from 0 on, below 2147483648"),
        ({"max_skip_count": -1}, "max_skip_count is -1"),
        ({"ngram_counts": [0, -2]}, "do not cut the pool of 9"),
    ],
)
def test_broken_pools_are_declined(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("TfIdfVectorizer", [X], POOL | change, opset=9)


@pytest.mark.parametrize("skips", [2**62, 2**63 - 1])
def test_skips_end_with_the_row(skips: int) -> None:
    want = run_op("TfIdfVectorizer", [X], POOL | {"max_skip_count": X.shape[-1]}, opset=9)
    np.testing.assert_array_equal(run_op("TfIdfVectorizer", [X], POOL | {"max_skip_count": skips}, opset=9), want)
