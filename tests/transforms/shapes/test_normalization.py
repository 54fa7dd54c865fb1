"""Normalisations and softmax."""

import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import infer, tensor, text


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_vector_does_not_have_the_default_axis_of_older_versions(op_type: str) -> None:
    assert text(infer(op_type, tensor("float32", "N"), version=13)[0]) == "float32[N]"
    with pytest.raises(ShapeInferenceError, match=r"axis 1 is out of range \[-1, 1\)"):
        infer(op_type, tensor("float32", "N"), version=11)


def test_statistics_have_the_type_that_is_asked_for() -> None:
    x, scale = tensor("float16", "N", 8), tensor("float16", 8)
    found = infer("LayerNormalization", x, scale, outputs=3, stash_type=11)
    assert [text(y) for y in found] == ["float16[N, 8]", "float64[N, 1]", "float64[N, 1]"]
    unranked = Info(TensorType("float16"))
    found = infer("LayerNormalization", unranked, scale, outputs=3, stash_type=11)
    assert [y.dtype for y in found] == ["float16", "float64", "float64"]
    assert text(infer("SimplifiedLayerNormalization", x, scale)[0]) == "float16[N, 8]"
    assert text(infer("LRN", tensor("float32", "N", "C", "H"), size=3)[0]) == "float32[N, C, H]"
