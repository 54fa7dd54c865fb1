"""MurmurHash3 against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
TEXTS = np.array([["", "a", "ab", "abc"], ["abcd", "abcde", "ä€𝄞", "x" * 99]], object)


@pytest.mark.parametrize("attributes", [{}, {"seed": 7, "positive": 0}, {"seed": -1, "positive": 1}], ids=str)
@pytest.mark.parametrize("dtype", ["string", "int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_of_texts_and_numbers(dtype: str, attributes: dict[str, Any]) -> None:
    x = TEXTS if dtype == "string" else ramp((2, 5), dtype)
    kind = "uint32" if attributes.get("positive", 1) else "int32"
    wanted = ort_op("MurmurHash3", [x], attributes, outputs=[kind], **MICROSOFT)
    check_op("MurmurHash3", x, expected=wanted, **MICROSOFT, **attributes)


def test_of_nothing() -> None:
    for x in (np.zeros((0, 3), np.int32), np.zeros((2, 0), object)):
        [hashes] = run_op("MurmurHash3", [x], **MICROSOFT)
        assert hashes.shape == x.shape and hashes.dtype == np.uint32
