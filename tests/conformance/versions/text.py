"""Operators on text."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case

DAYS = np.array(["Monday", "tuesday", "MONDAY", "straße", "Ωmega"], object)


def words(*texts: Any) -> Array:
    return np.array(texts, object)


def lowered(x: Array, **_: Any) -> Array:
    return np.array([text.lower() for text in x.ravel()], object).reshape(x.shape)


def joined(a: Array, b: Array) -> Array:
    return np.add(a, b, dtype=object)


GRAMS: dict[str, Any] = {
    "ngram_counts": [0, 3],
    "ngram_indexes": [0, 2, 1, 3, 4, 5],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
}
POOL = [2, 3, 5, 5, 4, 5, 6, 7, 8]
WEIGHTS = [0.5, 2.0, 3.0, 1.0, 0.1, 7.0]
X = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 4, 5, 5, 4, 2]])

CASES: tuple[Case, ...] = (
    case("StringNormalizer", DAYS, oracle=lowered, case_change_action="LOWER"),
    case("StringNormalizer", DAYS[:3], case_change_action="UPPER", is_case_sensitive=0, stopwords=["monday"]),
    case("StringNormalizer", DAYS[None, :3], is_case_sensitive=1, stopwords=["Monday"]),
    case("StringNormalizer", DAYS[:1], is_case_sensitive=1, stopwords=["Monday"]),
    *[
        case(
            "TfIdfVectorizer",
            X,
            types=["int32"] if mode == "TF" else (),
            oracle="onnxruntime",
            mode=mode,
            pool_int64s=POOL,
            **GRAMS,
        )
        for mode in ("TF", "IDF", "TFIDF")
    ],
    case("TfIdfVectorizer", X[1], types=(), oracle="onnxruntime", mode="TFIDF", pool_int64s=POOL, weights=WEIGHTS, **GRAMS),
    case("TfIdfVectorizer", X.astype(str).astype(object), types=(), mode="TF", pool_strings=[str(n) for n in POOL], **GRAMS),
    case("RegexFullMatch", words("www.google.com", "a.co.uk", ""), pattern=r"www\.[\w.-]+\.\bcom\b"),
    case("RegexFullMatch", words(["b", "ab"]), pattern="a?b"),
    case("StringSplit", words("a b c", " one  two ", ""), outputs=2),
    case("StringSplit", words(["a,b,,c", "é"]), outputs=2, delimiter=","),
    case("StringSplit", words("a,b,c"), outputs=2, delimiter=",", maxsplit=1),
    case("StringConcat", words("a", "b"), words("x", "é"), oracle=joined),
    case("StringConcat", words(["a"], ["b"]), words("x", "y", "z"), oracle=joined),
    case("StringConcat", words("a")[:0], words("x"), oracle=joined),
)
