"""Quantisation."""

import numpy as np
import pytest

from ort_lite.dtypes import to_onnx
from tests.transforms.shapes.checking import check, floats, infer, tensor, text


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_the_zero_point_gives_the_type(dtype: str) -> None:
    check("QuantizeLinear", floats(2, 3), np.array(0.1, np.float32), np.array(0, dtype))
    check("DequantizeLinear", floats(2, 3).astype(dtype), np.array(0.1, np.float32), np.array(0, dtype))


def test_the_type_may_be_named_or_left_out() -> None:
    x, scale = tensor("float32", "N"), tensor("float32")
    assert text(infer("QuantizeLinear", x, scale)[0]) == "uint8[N]"
    assert text(infer("QuantizeLinear", x, scale, output_dtype=to_onnx("int4"))[0]) == "int4[N]"
    assert text(infer("DequantizeLinear", tensor("int8", "N"), tensor("float16"))[0]) == "float16[N]"
    assert text(infer("DequantizeLinear", tensor("int8", "N"), scale, output_dtype=to_onnx("float16"))[0]) == "float16[N]"


def test_dynamic_quantisation_gives_scale_and_zero_point() -> None:
    check("DynamicQuantizeLinear", floats(2, 3), outputs=3)
