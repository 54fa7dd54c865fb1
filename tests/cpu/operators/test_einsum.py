"""Einsum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import check_op, ramp, run_op

Shape = tuple[int, ...]


def einsum(*arrays: Array, equation: str) -> Array:
    wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    return np.asarray(np.einsum(equation, *wide)).astype(arrays[0].dtype)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(3, 4)]), ("ij", [(3, 4)]), ("ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ij->i", [(3, 4)]), ("->", [()]),
        ("i->", [(0,)]), ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("...ii->...i", [(2, 3, 3)]), ("b...->...", [(2, 3, 4)]),
        ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), (" ij , jk -> ki ", [(3, 4), (4, 5)]),
        ("ij,jk->ik", [(3, 0), (0, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (7, 4, 5)]), ("i,j->ij", [(3,), (4,)]), ("i,i->", [(3,), (3,)]),
        ("i,", [(3,), ()]), ("ab,ba->", [(3, 4), (4, 3)]), ("ij,ij->i", [(3, 4), (3, 4)]),
        ("abcd,abcd->abcd", [(2, 3, 4, 5), (2, 3, 4, 5)]), ("bchw,bkhw->bckhw", [(1, 2, 3, 4), (1, 5, 3, 4)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 5)]), ("nctv,vw->nctw", [(2, 3, 4, 5), (5, 6)]),
        ("nkctv,kvw->nctw", [(2, 3, 4, 5, 6), (3, 6, 7)]), ("ijk,ijl->jkl", [(2, 3, 4), (2, 3, 5)]),
        ("blq,bmq->blm", [(2, 3, 4), (1, 5, 4)]), ("ij,kk->ij", [(2, 3), (4, 4)]),
        ("abc,cd,de->abe", [(2, 3, 4), (4, 5), (5, 6)]), ("a,b,c->cba", [(2,), (3,), (4,)]),
        ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
    ],
    ids=str,
)  # fmt: skip
def test_equations(equation: str, shapes: list[Shape]) -> None:
    arrays = [ramp(shape) for shape in shapes]
    check_op("Einsum", *arrays, expected=einsum, equation=equation, constants=[len(arrays) - 1], rtol=1e-4, atol=1e-5)


@settings(max_examples=40)
@given(st.data())
def test_any_equation_of_two_operands(data: st.DataObject) -> None:
    labels = st.lists(st.sampled_from("abcd"), max_size=3)
    left, right = data.draw(labels), data.draw(labels)
    result = data.draw(st.permutations(sorted({*left, *right})))
    result = result[: data.draw(st.integers(0, len(result)))]
    sizes = {label: data.draw(st.integers(1, 4)) for label in "abcd"}
    arrays = [ramp([sizes[label] for label in term]) for term in (left, right)]
    equation = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    check_op("Einsum", *arrays, expected=einsum, equation=equation, rtol=1e-4, atol=1e-5)


def test_sizes_of_a_letter_must_agree() -> None:
    with pytest.raises(InvalidArgument, match=r"Einsum 'node' .*sizes of 'j' differ: 5 against 4"):
        run_op("Einsum", [ramp((3, 4)), ramp((5, 6))], {"equation": "ij,jk->ik"})


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_small_integers_wrap(dtype: str) -> None:
    for equation, shapes in (
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij->j", [(3, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij->ji", [(2, 3)]),
    ):
        check_op("Einsum", *(ramp(shape, dtype) for shape in shapes), equation=equation, expected=einsum)
