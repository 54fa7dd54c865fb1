"""MatMul, Gemm, Einsum."""

import numpy as np
import pytest

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import check, floats, infer, tensor


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="dimensions 3 and 4 should be equal"):
        infer("MatMul", tensor("float32", "N", 3), tensor("float32", 4, 5))
    with pytest.raises(ShapeInferenceError, match="scalar"):
        infer("MatMul", tensor("float32"), tensor("float32", 4, 5))


def test_gemm_takes_matrices() -> None:
    with pytest.raises(ShapeInferenceError, match="rank 2"):
        infer("Gemm", tensor("float32", "N", 3, 1), tensor("float32", 3, 4))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij -> ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("bij,bjk", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (7, 1, 3, 4)]),
        ("...i,...i->...", [(4, 2, 3), (2, 3)]),
        ("i...->...", [(4, 2, 3)]),
        ("i...j", [(4, 2, 3)]),
        ("ij,ij->i", [(1, 3), (4, 3)]),
        ("i->", [(3,)]),
    ],
    ids=str,
)
def test_equations(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [floats(*shape) for shape in shapes]
    check("Einsum", *arrays, equation=equation, expected=[np.asarray(np.einsum(equation, *arrays))])


def test_equations_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="has 2 terms for 1 inputs"):
        infer("Einsum", tensor("float32", 2), equation="i,j")
    with pytest.raises(ShapeInferenceError, match="term 'ijk' does not fit rank 2"):
        infer("Einsum", tensor("float32", 2, 3), equation="ijk->i")
    with pytest.raises(ShapeInferenceError, match="2 and 3 do not broadcast"):
        infer("Einsum", tensor("float32", 2, 3), equation="ii->i")
