"""Complex numbers and strings whose element type is known only in the run: the nodes that move them use the same kernels."""

from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array

X = {
    "complex64": np.array([[1 + 2j, 3 - 4j]], np.complex64),
    "complex128": np.array([[1 + 2j, 3 - 4j]]),
    "string": np.array([["a", "b"]], object),
}
NODES: dict[str, Callable[[Array], Array]] = {
    "Expand(x, sizes)": lambda x: np.broadcast_to(x, (3, 2)),
    "Tile(x, sizes)": lambda x: np.tile(x, (3, 1)),
    "Gather<axis = 1>(x, one)": lambda x: x[:, [1]],
    "Concat<axis = 0>(x, x)": lambda x: np.concatenate([x, x]),
    "Transpose(x)": lambda x: x.T,
    "Slice(x, one, two, one)": lambda x: x[:, 1:],
}


@pytest.mark.parametrize("dtype", X)
@pytest.mark.parametrize("node", NODES)
def test_a_type_that_only_the_run_tells(node: str, dtype: str) -> None:
    """The state of a Scan over an input of no known rank has no known type."""
    data = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 22]>
        main ({dtype}[] s, float[] e) => (y) <int64[2] sizes = {{3, 1}}, int64[1] one = {{1}}, int64[1] two = {{2}}> {{
            x, o = Scan <num_scan_inputs = 1, body = b ({dtype}[] i, float f) => ({dtype}[] j, float g) {{
                j = Identity(i)  g = Identity(f) }}>(s, e)
            y = {node}
        }}"""
    ).SerializeToString()
    x: Array = X[dtype]
    result = ort_lite.InferenceSession(data).run(None, {"s": x, "e": np.zeros(2, np.float32)})[0]
    expected = NODES[node](x)
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()
