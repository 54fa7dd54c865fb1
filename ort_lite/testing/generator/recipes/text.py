"""Operators on text."""

from itertools import accumulate, product
from typing import Any

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

PATTERNS = ("a", "a?b", "[a-z]*", ".*", "", "[0-9]+", r"\w+ \w+", "(one|two) .*", r"[A-Za-z ]+", r"[^@]+@[\w.]+", "a{1,2}b?")
STOPWORDS = ("a", "ab", "A b", "A B", "zzz", "10", "\u00e9t\u00e9", "the cat", "")


@recipe("StringNormalizer")
def string_normalizer(draw: Draw) -> NodeProposal:
    """Draw strings `(C)` or `(1, C)`, and sometimes stopwords."""
    shape = (draw.integer(1, 6),) if draw.chance(0.6) else (1, draw.integer(1, 6))
    stopwords = draw.rng.sample(STOPWORDS, draw.integer(1, 4)) if draw.chance(0.7) else None
    return call(
        [draw.tensor(0, shape)],
        case_change_action=draw.choice([None, "LOWER", "UPPER", "NONE"]),
        is_case_sensitive=draw.choice([None, 0, 1]),
        stopwords=stopwords,
        locale=draw.choice([None, None, "en_US"]),
    )


@recipe("StringSplit")
def string_split(draw: Draw) -> NodeProposal:
    """Draw strings, a delimiter and the maximum number of splits."""
    delimiter = draw.choice([None, None, "", " ", "-", "b", "a.", "@"])
    return call([draw.value(0, high=3).name], 2, delimiter=delimiter, maxsplit=draw.choice([None, 0, 1, 2, 5]))


@recipe("RegexFullMatch")
def regex_full_match(draw: Draw) -> NodeProposal:
    """Draw strings and a pattern."""
    return call([draw.value(0).name], pattern=draw.choice(PATTERNS))


@recipe("TfIdfVectorizer")
def tfidf(draw: Draw) -> NodeProposal:
    """Draw a pool of n-grams of 1 to `longest` elements. Each output column belongs to one n-gram."""
    kind = draw.kind(0)
    longest = draw.integer(1, 3)
    alphabet: list[Any] = ["a", "b", "ab", "x-y", "zzz"] if kind == "string" else [*range(5)]
    pools = [draw.rng.sample([*product(alphabet, repeat=size)], draw.integer(1, 4)) for size in range(1, longest + 1)]
    starts = [*accumulate((size * len(pool) for size, pool in enumerate(pools, 1)), initial=0)][:-1]
    flat = [element for pool in pools for gram in pool for element in gram]
    count = sum(map(len, pools))
    columns = draw.rng.sample(range(count), count)
    shape = (draw.integer(1, 8),) if draw.chance(0.5) else (draw.integer(1, 3), draw.integer(1, 8))
    words = np.array([draw.choice(alphabet) for _ in range(int(np.prod(shape)))], to_numpy(kind)).reshape(shape)
    least = draw.integer(1, longest)
    return call(
        [draw.array(words)],
        mode=draw.choice(["TF", "IDF", "TFIDF"]),
        min_gram_length=least,
        max_gram_length=draw.integer(least, longest),
        max_skip_count=draw.integer(0, 3),
        ngram_counts=starts,
        ngram_indexes=columns,
        weights=draw.maybe([draw.integer(1, 16) / 8 for _ in columns], 0.5),
        **{"pool_strings" if kind == "string" else "pool_int64s": flat},
    )
