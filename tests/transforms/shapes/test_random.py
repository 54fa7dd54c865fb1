"""Random numbers."""

from ort_lite.dtypes import to_onnx
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import infer, text


def test_the_type_of_samples_is_known_before_their_shape() -> None:
    assert text(infer("Multinomial", Info(TensorType("float32")), dtype=to_onnx("int64"))[0]) == "int64[...]"
