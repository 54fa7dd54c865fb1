"""Broadcasting of symbolic shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ort_lite.inference import broadcast, merge
from ort_lite.shapes import evaluate, minimum, select, symbol

A, B, C = symbol("A"), symbol("B"), symbol("C")


class TestBroadcast:
    @given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=3))
    def test_symbols_give_what_numpy_gives(self, shapes: hnp.BroadcastableShapes) -> None:
        values = {f"{k}.{axis}": dim for k, shape in enumerate(shapes.input_shapes) for axis, dim in enumerate(shape)}
        named = [tuple(symbol(f"{k}.{axis}") for axis in range(len(shape))) for k, shape in enumerate(shapes.input_shapes)]
        assert tuple(evaluate(dim, values) for dim in broadcast(*named)) == shapes.result_shape
        assert broadcast(*shapes.input_shapes) == shapes.result_shape

    @given(st.integers(0, 3), st.integers(0, 3))
    def test_a_merged_dim_is_the_one_that_is_not_1(self, a: int, b: int) -> None:
        if a in (1, b) or b == 1:
            assert evaluate(merge(A, B), {"A": a, "B": b}) == merge(a, b) == (b if a == 1 else a)
        else:
            with pytest.raises(ValueError, match="do not broadcast"):
                merge(a, b)

    def test_a_number_is_taken_for_what_an_open_dim_will_be(self) -> None:
        assert merge(A, 4) == merge(4, A) == 4
        assert merge(A, 1) == merge(1, A) == A
        assert merge(A, B + 2) == merge(B + 2, A) == B + 2

    def test_merging_again_changes_nothing(self) -> None:
        both = merge(A, B)
        assert merge(both, A) == merge(both, B) == merge(A, both) == merge(B, both) == both
        three = merge(both, C)
        assert merge(three, A) == merge(three, B) == merge(three, C) == three

    def test_a_dim_that_is_1_with_another_is_not_chosen_from(self) -> None:
        assert merge(A, minimum(A, 512)) == merge(minimum(A, 512), A) == A


def test_a_choice_between_a_dim_and_something_else_is_no_merge() -> None:
    chosen = select(symbol("c"), A, B)
    assert merge(chosen, A) != chosen
