"""Normalisations and softmax."""

import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import check, floats, infer, tensor, text


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "MeanVarianceNormalization"])
def test_the_shape_stays(op_type: str) -> None:
    check(op_type, floats(2, 3, 4, 5))


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_vector_does_not_have_the_default_axis_of_older_versions(op_type: str) -> None:
    assert text(infer(op_type, tensor("float32", "N"), version=13)[0]) == "float32[N]"
    with pytest.raises(ShapeInferenceError, match=r"axis 1 is out of range \[-1, 1\)"):
        infer(op_type, tensor("float32", "N"), version=11)


def test_batch_normalization_has_statistics_when_training() -> None:
    channel = floats(3)
    check("BatchNormalization", floats(2, 3, 4), channel, channel, channel, channel**2, outputs=3, training_mode=1)


@pytest.mark.parametrize("axis", [1, -1, 0])
def test_statistics_of_layers_keep_the_outer_axes(axis: int) -> None:
    scale = floats(*(2, 3, 4)[axis % 3 :])
    check("LayerNormalization", floats(2, 3, 4), scale, outputs=3, axis=axis)


def test_statistics_have_the_type_that_is_asked_for() -> None:
    x, scale = tensor("float16", "N", 8), tensor("float16", 8)
    found = infer("LayerNormalization", x, scale, outputs=3, stash_type=11)
    assert [text(y) for y in found] == ["float16[N, 8]", "float64[N, 1]", "float64[N, 1]"]
    unranked = Info(TensorType("float16"))
    found = infer("LayerNormalization", unranked, scale, outputs=3, stash_type=11)
    assert [y.dtype for y in found] == ["float16", "float64", "float64"]
    assert text(infer("SimplifiedLayerNormalization", x, scale)[0]) == "float16[N, 8]"
    assert text(infer("LRN", tensor("float32", "N", "C", "H"), size=3)[0]) == "float32[N, C, H]"
