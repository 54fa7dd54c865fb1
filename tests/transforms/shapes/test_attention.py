"""Attention."""

import pytest

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import check, floats, infer, tensor, text


def test_the_past_comes_before_the_present() -> None:
    q, k, v = floats(2, 3, 4, 8), floats(2, 3, 6, 8), floats(2, 3, 6, 5)
    past = [floats(2, 3, 9, 8), floats(2, 3, 9, 5)]
    check("Attention", q, k, v, None, *past, outputs=4)
    named = [tensor("float32", "B", 3, "S", 8)] * 3
    cache = tensor("float32", "B", 3, "P", 8)
    present = infer("Attention", *named, None, cache, cache, outputs=2)[1]
    assert text(present) == "float32[B, 3, P + S, 8]"


def test_inputs_of_rank_3_need_a_number_of_heads() -> None:
    with pytest.raises(ShapeInferenceError, match="q_num_heads should be given"):
        infer("Attention", *[tensor("float32", "B", "S", 8)] * 3)
    with pytest.raises(ShapeInferenceError, match="rank 3 or 4"):
        infer("Attention", *[tensor("float32", "B", 8)] * 3)


def test_linear_attention_keeps_a_state() -> None:
    q, k, v = (tensor("float32", "B", "T", size) for size in (32, 16, 12))
    found = infer("LinearAttention", q, k, v, outputs=2, version=27, q_num_heads=4, kv_num_heads=2)
    assert [text(y) for y in found] == ["float32[B, T, 24]", "float32[B, 2, 8, 6]"]
    microsoft = "com.microsoft"
    found = infer("LinearAttention", q, k, v, outputs=2, domain=microsoft, state_window=3, q_num_heads=2, kv_num_heads=4)
    assert [text(y) for y in found] == ["float32[B, T, 12]", "float32[3, B, 4, 16, 3]"]
