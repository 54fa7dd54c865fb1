"""The domain ai.onnx.ml: labels and maps. The conformance cases of all versions run the other rules."""

from typing import Any

from ort_lite.graph import MapType, TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import infer, tensor, text

ML = "ai.onnx.ml"
X = tensor("float32", "N", 4)


def test_labels_are_strings_when_they_are_given_so() -> None:
    attributes: dict[str, Any] = {"coefficients": [1.0] * 8, "intercepts": [0.0] * 2, "classlabels_strings": ["a", "b"]}
    found = infer("LinearClassifier", X, outputs=2, domain=ML, **attributes)
    assert [text(y) for y in found] == ["string[N]", "float32[N, 2]"]
    (maps,) = infer("ZipMap", X, domain=ML, classlabels_strings=["a", "b"])
    assert text(maps) == "seq(map(string, float32[]))"


def test_maps_become_rows() -> None:
    map_ = Info(MapType("string", TensorType("float32", ())))
    assert text(infer("DictVectorizer", map_, domain=ML, string_vocabulary=["a", "b"])[0]) == "float32[1, 2]"
    assert text(infer("CastMap", map_, domain=ML, cast_to="TO_INT64")[0]) == "int64[1, y0#1]"
    assert text(infer("CastMap", map_, domain=ML, map_form="SPARSE", max_map=7)[0]) == "float32[1, 7]"
