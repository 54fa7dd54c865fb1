"""Models whose structure makes no sense are refused when a session is made."""

from collections.abc import Callable

import onnx
import pytest

import ort_lite
from ort_lite.errors import InvalidGraph
from tests.hostile.structures import CASES


@pytest.mark.parametrize(("build", "words"), CASES.values(), ids=CASES)
def test_a_structure_that_makes_no_sense_is_refused(build: Callable[[], onnx.ModelProto], words: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        ort_lite.InferenceSession(build().SerializeToString())
    assert words in str(caught.value)
