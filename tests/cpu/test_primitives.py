"""Kernels that lowering itself needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.native import Spec
from ort_lite_cpu.kernels.primitives import swap
from ort_lite_cpu.kernels.square import SIZE, SIZE_OF_BYTES
from tests.native.calls import call

ELEMENTS = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 40), st.integers(0, 70), st.integers(1, 4))
def test_swap_transposes_any_matrices_and_shares_them(outer: int, rows: int, columns: int, parts: int) -> None:
    x = np.arange(outer * rows * columns, dtype=np.uint32).reshape(outer, rows, columns)
    y = np.full((outer, columns, rows), 2**32 - 1, np.uint32)
    for part in range(parts):
        assert call(Spec(swap, ("u32", "u32"), {"size": SIZE}), [x, y], [outer, rows, columns], part, parts) == 0
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.parametrize("name", ELEMENTS)
def test_swap_of_elements_of_any_size(name: str) -> None:
    x = np.random.default_rng(0).integers(0, 255, (2, 19, 37)).astype(ELEMENTS[name])
    y = np.zeros((2, 37, 19), ELEMENTS[name])
    statics = {"size": SIZE_OF_BYTES if name == "u8" else SIZE}
    assert call(Spec(swap, (name, name), statics), [x, y], [2, 19, 37]) == 0
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))
