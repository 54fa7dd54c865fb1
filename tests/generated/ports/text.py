"""Operators on texts."""

from collections.abc import Callable, Collection

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port

_CASES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


@port("StringNormalizer")
def string_normalizer(
    x: Array, case_change_action: str = "NONE", is_case_sensitive: int = 0, stopwords: Collection[str] = (), locale: str = ""
) -> Array:
    """Stop words go, and letters change case. If no text is left, one empty text is."""
    change = _CASES[case_change_action]
    compared = _CASES["NONE" if is_case_sensitive else "UPPER" if case_change_action == "UPPER" else "LOWER"]
    stop = {compared(word) for word in stopwords or ()}
    left = [change(text) for text in map(str, x.ravel()) if compared(text) not in stop]
    return np.array(left or [""] if stop else left, object).reshape(*x.shape[:-1], -1)
