"""Det."""

import numpy as np
import pytest

from ort_lite.errors import OrtLiteError
from tests.cpu.check import check_op, ramp, run_op


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 4, 4), (2, 3, 7, 7), (2, 0, 0)], ids=str)
def test_matches_numpy(shape: tuple[int, ...]) -> None:
    check_op("Det", ramp(shape), expected=np.linalg.det, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [31, 32, 33, 64, 97])
def test_matrices_of_several_blocks(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((2, n, n))
    check_op("Det", x, expected=np.linalg.det, rtol=1e-9)
    x[:, :, n - 2] = x[:, :, 0]  # the last column but one has no pivot
    assert np.abs(run_op("Det", [x])[0]).max() < 1e-9 * np.abs(np.linalg.det(x + np.eye(n))).max()
    x[:, :, n - 2] = 0
    check_op("Det", x, expected=np.zeros(2))


def test_matrices_that_are_not_square_are_refused() -> None:
    with pytest.raises(OrtLiteError, match=r"X, .* is 3, but M is 2"):
        run_op("Det", [ramp((2, 3))], fixed=True)


@pytest.mark.parametrize(("op", "domain"), [("Det", ""), ("Inverse", "com.microsoft")])
def test_a_vector_is_no_matrix(op: str, domain: str) -> None:
    with pytest.raises(OrtLiteError, match=f"{op} 'node'.*has rank 1; it should have 2 or more"):
        run_op(op, [ramp((2,))], domain=domain, opset=1 if domain else 21)
