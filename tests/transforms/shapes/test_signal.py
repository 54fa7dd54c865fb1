"""Spectra and frames."""

from typing import Any

import numpy as np
import pytest

from ort_lite.inference import NumbersUnknown
from tests.transforms.shapes.checking import check, floats, infer, scalar, tensor, text, unknown


@pytest.mark.parametrize(
    ("parts", "attributes"), [(1, {}), (1, {"onesided": 1}), (2, {"inverse": 1}), (2, {"inverse": 1, "onesided": 1})], ids=str
)
def test_spectra(parts: int, attributes: dict[str, Any]) -> None:
    check("DFT", floats(2, 10, parts), None, np.array(1), **attributes)


def test_spectra_of_another_length() -> None:
    check("DFT", floats(2, 10, 1), np.array(7))
    assert text(infer("DFT", tensor("float32", "B", "N", 1), version=17, axis=1, onesided=1)[0]) == (
        "float32[B, floordiv(N, 2) + 1, 2]"
    )
    with pytest.raises(NumbersUnknown):
        infer("DFT", tensor("float32", "B", "N", 1), None, unknown("int64"), strict=True)


def test_frames() -> None:
    check("STFT", floats(2, 100, 1), np.array(10), None, np.array(16))
    check("STFT", floats(2, 100, 1), np.array(10), floats(16), onesided=0)
    assert text(infer("STFT", tensor("float32", "B", "N", 1), scalar(10), tensor("float32", 16))[0]) == (
        "float32[B, floordiv(N + 4, 10) - 1, 9, 2]"
    )
