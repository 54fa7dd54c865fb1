"""What partitions return is looked at before native code reads it."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import ProviderError
from tests.provider.numpy_provider import NumpyProvider


class Odd(NumpyProvider):
    """Takes Abs; `make` turns the right result into what it returns."""

    name = "OddExecutionProvider"

    def __init__(self, make: Any) -> None:
        super().__init__(lambda node: node.op_type == "Abs")
        self.make = make

    def compile(self, partitions: Any) -> Any:
        return [lambda inputs: [self.make(np.abs(inputs[0]))] for _ in partitions]


def run(make: Any, dims: str, x: Any) -> Any:
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> main (float[{dims}] x) => (float[{dims}] y) {{ a = Abs(x) y = Softmax(a) }}'
    )
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=[Odd(make)])
    return session.run(None, {"x": np.asarray(x, np.float32)})[0]


@pytest.mark.parametrize(
    ("make", "came"),
    [
        (lambda y: y.astype(np.float64), r"float64\[2, 3\]"),
        (lambda y: y[:1], r"float32\[1, 3\]"),
        (lambda y: y.reshape(-1), r"float32\[6\]"),
        (lambda y: y.tolist(), "list"),
    ],
)
@pytest.mark.parametrize("dims", ["2,3", "n,3"])
def test_results_of_another_type_or_shape_are_refused(make: Any, came: str, dims: str) -> None:
    if dims == "n,3" and came == r"float32\[1, 3\]":
        return  # nobody knows what n should be
    with pytest.raises(
        ProviderError, match=rf"OddExecutionProvider_0 \(OddExecutionProvider\) returned {came} for 'a'; expected float32"
    ):
        run(make, dims, [[1, -2, 3], [4, 5, -6]])


def test_scalars_and_strided_arrays_become_what_kernels_read() -> None:
    assert run(lambda y: y[()], "", 3.0) == 1
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    strided = run(np.asfortranarray, "n,3", x)
    np.testing.assert_array_equal(strided, run(lambda y: y, "n,3", x))
