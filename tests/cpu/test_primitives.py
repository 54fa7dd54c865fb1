"""Kernels that lowering itself needs."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ort_lite.native import Spec
from ort_lite_cpu.kernels.primitives import CHUNK, copy_by_strides, swap
from tests.native.calls import call

ELEMENTS = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(0, 40), st.integers(0, 70), st.integers(1, 4))
def test_swap_transposes_any_matrices_and_shares_them(outer: int, rows: int, columns: int, parts: int) -> None:
    x = np.arange(outer * rows * columns, dtype=np.uint32).reshape(outer, rows, columns)
    y = np.full((outer, columns, rows), 2**32 - 1, np.uint32)
    for part in range(parts):
        assert call(Spec(swap, ("u32", "u32"), {"of_bytes": False}), [x, y], [outer, rows, columns], part, parts) == 0
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.parametrize("columns", [1, 33])
def test_parts_share_the_rows_of_a_swap_of_few_columns(columns: int) -> None:
    rows, parts = 2 * CHUNK + 37, 3
    x = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    y = np.zeros((columns, rows), np.uint32)
    written = []
    for part in range(parts):
        assert call(Spec(swap, ("u32", "u32"), {"of_bytes": False}), [x + 1, y], [1, rows, columns], part, parts) == 0
        written.append(np.count_nonzero(y))
    np.testing.assert_array_equal(y, x.T + 1)
    assert 0 < written[0] < written[1] < y.size


@pytest.mark.parametrize("name", ELEMENTS)
def test_swap_of_elements_of_any_size(name: str) -> None:
    x = np.random.default_rng(0).integers(0, 255, (2, 19, 37)).astype(ELEMENTS[name])
    y = np.zeros((2, 37, 19), ELEMENTS[name])
    assert call(Spec(swap, (name, name), {"of_bytes": name == "u8"}), [x, y], [2, 19, 37]) == 0
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@settings(max_examples=80)
@given(st.lists(st.integers(0, 9), min_size=6, max_size=6), st.booleans(), st.integers(1, 5))
@example([1, 1, 1, 1, 40, 100], True, 3)
@example([1, 1, 1, 1, 1, 400], False, 3)
def test_parts_copy_each_element_once_whatever_the_loops(loops: list[int], dense: bool, parts: int) -> None:
    wide = np.arange(1, 2 * np.prod(loops) + 1, dtype=np.uint32).reshape(*loops[:-1], 2 * loops[-1])
    x = wide[..., : loops[-1]] if dense else wide[..., ::2]
    y = np.zeros(loops, np.uint32) if dense else np.zeros(loops[::-1], np.uint32).transpose()
    copies = np.zeros_like(y)
    spec = Spec(copy_by_strides, ("u32", "u32"), {"dense": dense})
    numbers = [*loops, 0, *(step // 4 for step in x.strides), 0, *(step // 4 for step in y.strides)]
    for part in range(parts):
        y[...] = 0
        assert call(spec, [x, y], numbers, part, parts) == 0
        copies += y
    np.testing.assert_array_equal(copies, x)


@pytest.mark.parametrize(("lines", "length"), [(1, 4000), (2, 4000), (40, 100)])
def test_parts_share_a_copy_of_one_row(lines: int, length: int) -> None:
    x, y = np.ones(lines * length, np.uint32), np.zeros(lines * length, np.uint32)
    spec, written = Spec(copy_by_strides, ("u32", "u32"), {"dense": True}), []
    view = [0, 0, 0, 0, 0, length, 1]
    for part in range(3):
        assert call(spec, [x, y], [1, 1, 1, 1, lines, length, *view, *view], part, 3) == 0
        written.append(np.count_nonzero(y))
    assert [lines * length // 4 < some for some in np.diff([0, *written])] == [True] * 3
