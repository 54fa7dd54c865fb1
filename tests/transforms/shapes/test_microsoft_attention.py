"""Attention in com.microsoft: caches, packed operands, unknown sizes. Tests of kernels run the usual forms."""

from typing import Any

import pytest

from ort_lite.graph import TensorType
from ort_lite.inference import ContentsUnknown, Info
from tests.transforms.shapes.checking import infer, numbers, tensor, text

MS = "com.microsoft"


def test_queries_packed_with_keys_and_values() -> None:
    found = infer("MultiHeadAttention", tensor("float32", "B", "S", 2, 3, 4), outputs=2, domain=MS, num_heads=2)
    assert [text(y) for y in found] == ["float32[B, S, 8]", "float32[B, 2, S, 4]"]


def test_the_scores_of_grouped_queries_are_as_long_as_what_is_seen() -> None:
    q, kv, cache = tensor("float32", 1, 3, 16), tensor("float32", 1, 3, 8), tensor("float32", 1, 1, 10, 8)
    operands = [q, kv, kv, cache, cache, tensor("int32", 1), numbers(8)]
    found = infer("GroupQueryAttention", *operands, outputs=4, domain=MS, num_heads=2, kv_num_heads=1)
    assert [text(y) for y in found[2:]] == ["float32[1, 1, 10, 8]", "float32[1, 2, 3, 8]"]


def test_the_length_of_the_cache_is_asked_for() -> None:
    q, kv, cache = tensor("float32", 1, 3, 16), tensor("float32", 1, 3, 8), tensor("float32", 1, 1, "P", 8)
    operands = [q, kv, kv, cache, cache, tensor("int32", 1), tensor("int32")]
    found = infer("GroupQueryAttention", *operands, outputs=2, domain=MS, num_heads=2, kv_num_heads=1)
    assert text(found[1]) == "float32[1, 1, max(P, y0#1), 8]"
    with pytest.raises(ContentsUnknown):
        infer("GroupQueryAttention", *operands, domain=MS, strict=True, num_heads=2, kv_num_heads=1)


def test_the_first_cache_is_as_long_as_the_new_rows() -> None:
    q, kv = tensor("float32", "B", "S", 16), tensor("float32", "B", "S", 8)
    operands = [q, kv, kv, None, None, tensor("int32", "B"), tensor("int32")]
    found = infer("GroupQueryAttention", *operands, outputs=3, domain=MS, strict=True, num_heads=2, kv_num_heads=1)
    assert [text(y) for y in found[1:]] == ["float32[B, 1, S, 8]", "float32[B, 1, S, 8]"]


def test_a_quantised_cache_packs_its_head_size() -> None:
    q, kv, cache = tensor("float32", "B", "S", 16), tensor("float32", "B", "S", 8), tensor("uint8", "B", 1, 10, 4)
    operands = [q, kv, kv, cache, cache, tensor("int32", "B"), numbers(12)]
    found = infer("GroupQueryAttention", *operands, outputs=3, domain=MS, num_heads=2, kv_num_heads=1, kv_cache_bit_width=4)
    assert [text(y) for y in found] == ["float32[B, S, 16]", "uint8[B, 1, 12, 4]", "uint8[B, 1, 12, 4]"]


def test_a_cache_of_a_sliding_window_keeps_its_length() -> None:
    q, kv, cache = tensor("float32", "B", "S", 16), tensor("float32", "B", "S", 8), tensor("float32", "B", 1, 10, 8)
    operands = [q, kv, kv, cache, cache, tensor("int32", "B"), numbers(12)]
    found = infer("GroupQueryAttention", *operands, outputs=3, domain=MS, num_heads=2, kv_num_heads=1, sliding_window_cache=1)
    assert [text(y) for y in found[1:]] == ["float32[B, 1, 10, 8]", "float32[B, 1, 10, 8]"]


def test_embeddings() -> None:
    ids, table = tensor("int32", "B", "S"), tensor("float32", 10, 4)
    found = infer("EmbedLayerNormalization", ids, ids, table, table, table, outputs=3, domain=MS)
    assert [text(y) for y in found] == ["float32[B, S, 4]", "int32[B]", "float32[B, S, 4]"]
    bytes_ = tensor("uint8", 10, 4)
    assert text(infer("QEmbedLayerNormalization", ids, ids, bytes_, domain=MS)[0]) == "float32[B, S, 4]"


def test_quantised_and_sparse_forms() -> None:
    x, w, one = tensor("uint8", "B", "S", 8), tensor("int8", 8, 24), tensor("float32")
    found = infer("QAttention", x, w, tensor("float32", 24), one, one, outputs=2, domain=MS, num_heads=2)
    assert [text(y) for y in found] == ["float32[B, S, 8]", "float32[2, B, 2, S, 4]"]
    q, cache = tensor("float32", "B", "S", 32), tensor("float32", "B", 1, "M", 8)
    (y,) = infer("SparseAttention", q, None, None, cache, cache, domain=MS, num_heads=2, kv_num_heads=1)
    assert text(y) == "float32[B, S, 16]"


def test_states_and_caches_of_unknown_ranks_have_a_type_without_a_past() -> None:
    x = Info(TensorType("float16", None))
    heads: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    found = infer("LinearAttention", x, x, x, None, x, x, outputs=2, domain=MS, **heads)
    found += infer("LinearAttention", x, x, x, None, x, x, outputs=2, **heads)
    operands = [x, x, x, None, None, tensor("int32", 2), tensor("int32", 1)]
    found += infer("GroupQueryAttention", *operands, outputs=4, domain=MS, num_heads=2, kv_num_heads=2)
    assert [one.dtype for one in found] == ["float16"] * 8
