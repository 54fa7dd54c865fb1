"""com.microsoft Tokenizer against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.ort import ort_op

TEXTS = np.array([["a few words", "one, two;three"], ["", "été  indien"]], object)
WAYS: list[dict[str, Any]] = [
    {"separators": [""]},
    {"tokenexp": "."},
    {"separators": [" "]},
    {"separators": [",", ";", " "]},
    {"separators": ["w+", "e"]},
    {"tokenexp": "[a-z]+"},
    {"tokenexp": "[a-z]"},
]


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_matches_onnxruntime(way: dict[str, Any], mark: int) -> None:
    attributes = {"mark": mark, "pad_value": "#", "mincharnum": 1, **way}
    for x in (TEXTS, TEXTS[0]):
        wanted = ort_op("Tokenizer", [x], attributes, opset=1, domain="com.microsoft", outputs=["string"])
        check_op("Tokenizer", x, expected=wanted, opset=1, domain="com.microsoft", **attributes)


def test_where_no_token_is_found_there_are_no_columns() -> None:
    attributes = {"mark": 1, "pad_value": "#", "mincharnum": 1, "tokenexp": "z"}
    check_op("Tokenizer", TEXTS, expected=np.empty((2, 2, 0), object), opset=1, domain="com.microsoft", **attributes)


def test_a_way_should_be_given() -> None:
    with pytest.raises(NotSupported, match="neither separators nor tokenexp"):
        run_op("Tokenizer", [TEXTS], {}, opset=1, domain="com.microsoft")
