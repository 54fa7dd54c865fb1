"""Random numbers."""

from ort_lite.dtypes import to_onnx
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import infer, tensor, text

X = tensor("float64", "N", 3)


def test_the_shape_is_an_attribute_or_that_of_the_input() -> None:
    assert text(infer("RandomNormal", shape=[2, 3])[0]) == "float32[2, 3]"
    assert text(infer("RandomUniform", shape=[2], dtype=to_onnx("float16"))[0]) == "float16[2]"
    assert text(infer("RandomNormalLike", X)[0]) == "float64[N, 3]"
    assert text(infer("Bernoulli", X, dtype=to_onnx("bool"))[0]) == "bool[N, 3]"


def test_samples_of_classes() -> None:
    assert text(infer("Multinomial", X, sample_size=5)[0]) == "int32[N, 5]"
    assert text(infer("Multinomial", X, dtype=to_onnx("int64"))[0]) == "int64[N, 1]"


def test_the_type_of_samples_is_known_before_their_shape() -> None:
    assert text(infer("Multinomial", Info(TensorType("float32")), dtype=to_onnx("int64"))[0]) == "int64[...]"
