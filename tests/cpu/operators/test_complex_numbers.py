"""Complex numbers in operators that have no kernel of their own for them."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from tests.cpu.check import check_op, ints, ramp, reference

X = ramp((3, 4), "float64") + 1j * ramp((3, 4), "float64", low=5, high=9)
IMAGE = ramp((1, 4, 4, 6), "float64") * (1 - 2j)


def test_the_number_outside_of_an_image_is_real() -> None:
    roi, sizes = np.array([-1, 2], np.float32), ints(4)
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -1.5}
    want = np.array([-1.5, 2j, 3j, -1.5])
    check_op("Resize", np.array([2j, 3j]), roi, None, sizes, constants=[1, 3], opset=19, expected=want, **attributes)


def test_operands_of_unknown_rank() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (complex128[] values, int64[2] k) => (complex128[2,3] y) { three = Constant<value_int=3>() y = OneHot(k, three, values) }""")
    [got] = ort_lite.InferenceSession(proto.SerializeToString()).run(None, {"values": np.array([1j, 2]), "k": ints(1, 0)})
    np.testing.assert_array_equal(got, [[1j, 2, 1j], [2, 1j, 1j]])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_interpolation_is_of_the_parts(dtype: str) -> None:
    x, scales = IMAGE.astype(dtype), np.array([1, 1, 2, 1.5], np.float32)
    part = "float32" if dtype == "complex64" else "float64"

    def by_parts(op: str, opset: int, *others: Array | None, **attributes: Any) -> Array:
        real, imaginary = (reference(op, [p.astype(part), *others], attributes, opset, "", 1)[0] for p in (x.real, x.imag))
        return np.asarray(real + 1j * imaginary).astype(dtype)

    want = by_parts("Resize", 19, None, scales, mode="linear")
    check_op("Resize", x, None, scales, mode="linear", constants=[2], expected=want)
    grid = ramp((1, 3, 2, 2), low=-1, high=1)
    check_op("GridSample", x, grid, opset=22, expected=by_parts("GridSample", 22, grid), rtol=1e-4, atol=1e-5)
    x = X.astype(dtype).reshape(1, 4, 3)
    check_op("Col2Im", x, ints(2, 4), ints(2, 2), constants=[1, 2], expected=by_parts("Col2Im", 18, ints(2, 4), ints(2, 2)))
