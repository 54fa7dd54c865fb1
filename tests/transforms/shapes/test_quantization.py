"""Quantisation."""

from ort_lite.dtypes import to_onnx
from tests.transforms.shapes.checking import infer, tensor, text


def test_the_type_may_be_named_or_left_out() -> None:
    x, scale = tensor("float32", "N"), tensor("float32")
    assert text(infer("QuantizeLinear", x, scale)[0]) == "uint8[N]"
    assert text(infer("QuantizeLinear", x, scale, output_dtype=to_onnx("int4"))[0]) == "int4[N]"
    assert text(infer("DequantizeLinear", tensor("int8", "N"), tensor("float16"))[0]) == "float16[N]"
    assert text(infer("DequantizeLinear", tensor("int8", "N"), scale, output_dtype=to_onnx("float16"))[0]) == "float16[N]"
