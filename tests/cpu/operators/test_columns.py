"""Columns of a table, their products, and the Concat that joins them."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array, from_numpy
from ort_lite_cpu.program.program import Program
from tests.cpu.check import ramp, text_program

TERMS = [(0,), (3,), (1, 1), (0, 2), (2, 3, 3), (1,)]


def program(terms: list[tuple[int, ...]], kind: str = "float", tell: str = "", keep: int = 1) -> Program:
    """The products `terms` of columns of x beside one column more; `tell`: the value that is an output as well."""
    names = [f"p{k}" for k in range(len(terms))]
    lines = [f"c{k} = ai.onnx.ml.ArrayFeatureExtractor(x, i{k})" for k in range(len(terms))]
    lines += [f"p{k} = ReduceProd<axes = [1], keepdims = {keep}>(c{k})" for k in range(len(terms))]
    if not keep:
        lines += [f"q{k} = Unsqueeze<axes = [1]>(p{k})" for k in range(len(terms))]
        names = [f"q{k}" for k in range(len(terms))]
    indices = ", ".join(f"int64[{len(term)}] i{k} = {{{', '.join(map(str, term))}}}" for k, term in enumerate(terms))
    told = f", {kind}[N,M] {tell}" if tell else ""
    text = f"({kind}[N,4] x, {kind}[N,1] z) => ({kind}[N,W] y{told}) <{indices}> {{ {' '.join(lines)} "
    return text_program(text + f"y = Concat<axis = 1>(z, {', '.join(names)}) }}", opset=11)


def wanted(x: Array, z: Array, terms: list[tuple[int, ...]]) -> Array:
    return np.concatenate([z, *(x[:, term].prod(1, keepdims=True, dtype=x.dtype) for term in terms)], 1)


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize(("kind", "dtype"), [("float", "f4"), ("double", "f8"), ("int64", "i8"), ("int32", "i4")])
def test_products_of_columns_are_joined(kind: str, dtype: str, rows: int) -> None:
    x, z = ramp((rows, 4), from_numpy(np.dtype(dtype))), ramp((rows, 1), from_numpy(np.dtype(dtype)))
    made = program(TERMS, kind)
    np.testing.assert_array_equal(made([x, z])[0], wanted(x, z, TERMS))
    assert made.facts()["instructions"] == 5  # the column more, and runs of one, two, three factors and one


@pytest.mark.parametrize("tell", ["c2", "p3", "c0"])
def test_columns_that_others_read_are_made(tell: str) -> None:
    x, z = ramp((5, 4)), ramp((5, 1))
    y, other = program(TERMS, tell=tell)([x, z])
    np.testing.assert_array_equal(y, wanted(x, z, TERMS))
    term = TERMS[int(tell[1])]
    np.testing.assert_array_equal(other, x[:, term] if tell[0] == "c" else x[:, term].prod(1, keepdims=True))


def test_products_without_an_axis_are_joined_as_they_are() -> None:
    x, z = ramp((5, 4)), ramp((5, 1))
    np.testing.assert_array_equal(program(TERMS, keep=0)([x, z])[0], wanted(x, z, TERMS))


def test_many_factors_are_reduced() -> None:
    x, z, terms = ramp((5, 4)), ramp((5, 1)), [(0, 1, 2, 3, 0), (1,)]
    np.testing.assert_allclose(program(terms)([x, z])[0], wanted(x, z, terms), 1e-6)


@pytest.mark.parametrize("nan", [np.nan, np.inf, -0.0])
def test_special_numbers(nan: Any) -> None:
    x, z = np.full((2, 4), nan, np.float32), np.zeros((2, 1), np.float32)
    got, want = program(TERMS)([x, z])[0], wanted(x, z, TERMS)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:, 1:3]), np.signbit(want[:, 1:3]))


def test_columns_of_two_tables() -> None:
    text = """(float[N,3] a, float[N,2] b) => (float[N,4] y) <int64[1] i = {1}, int64[2] j = {0, 1}, int64[1] k = {2}> {
        p = ai.onnx.ml.ArrayFeatureExtractor(a, i) q = ai.onnx.ml.ArrayFeatureExtractor(b, j)
        r = ai.onnx.ml.ArrayFeatureExtractor(a, k) y = Concat<axis = -1>(p, q, r) }"""
    a, b = ramp((4, 3)), ramp((4, 2))
    np.testing.assert_array_equal(text_program(text)([a, b])[0], np.concatenate([a[:, 1:2], b, a[:, 2:]], 1))


def test_columns_behind_each_other() -> None:
    text = """(float[N,3] a) => (float[M,1] y) <int64[1] i = {1}, int64[1] k = {2}> {
        p = ai.onnx.ml.ArrayFeatureExtractor(a, i) q = ai.onnx.ml.ArrayFeatureExtractor(a, k) y = Concat<axis = 0>(p, q) }"""
    a = ramp((4, 3))
    np.testing.assert_array_equal(text_program(text)([a])[0], np.concatenate([a[:, 1:2], a[:, 2:]]))
