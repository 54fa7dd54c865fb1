"""CDist, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 7), (1, 2, 1), (4, 1, 33), (2, 2100, 9)])
def test_distances_of_rows(metric: str, m: int, n: int, k: int) -> None:
    a, b = ramp((m, k)), ramp((n, k), low=0)
    want = ort_op("CDist", [a, b], {"metric": metric}, **HOW)
    check_op("CDist", a, b, expected=want, metric=metric, rtol=1e-4, **HOW)


def test_doubles_keep_their_digits() -> None:
    a, b = ramp((3, 4), "float64"), ramp((2, 4), "float64", low=0)
    want = ((a[:, None] - b) ** 2).sum(-1)
    check_op("CDist", a, b, expected=want, rtol=1e-14, **HOW)


def test_what_cannot_be_is_refused() -> None:
    program = op_program("CDist", [ramp((3, 4)), ramp((2, 5))], **HOW)
    with pytest.raises(InvalidArgument, match=r"B, .* is 5, but K is 4"):
        program([np.zeros((3, 4), np.float32), np.zeros((2, 5), np.float32)])
    with pytest.raises(NotSupported, match="metric cityblock"):
        op_program("CDist", [ramp((3, 4)), ramp((2, 4))], {"metric": "cityblock"}, **HOW)


def test_the_inputs_are_matrices() -> None:
    with pytest.raises(InvalidArgument, match=r"A, .* has rank 3"):
        op_program("CDist", [ramp((3, 4, 2)), ramp((2, 4))], **HOW)
