"""GroupQueryAttention with a cache of codes, against onnxruntime and NumPy."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

HEADS, KV_HEADS, SIZE = 6, 2, 16


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def pack(codes: Array, bits: int) -> Array:
    """Return codes (..., D) as bytes (..., D * bits / 8)."""
    if bits == 8:
        return codes.astype(np.int8)
    shifted = (codes + 8).astype(np.uint8)
    packed: Array = shifted[..., ::2] | shifted[..., 1::2] << 4
    return packed


def unpack(x: Array, bits: int) -> Array:
    if bits == 8:
        return x.astype(np.float32)
    return np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], -1).astype(np.float32) - 8


def quantize(x: Array, scales: Array, bits: int) -> Array:
    top = 2 ** (bits - 1)
    codes: Array = np.clip(np.rint(x * (1 / scales)), -top, top - 1)
    return codes


def feeds(rows: int, total: int, lengths: list[int], room: int, bits: int, kind: str, dtype: str = "float32") -> list[Any]:
    batch, top = len(lengths), 2 ** (bits - 1) - 1
    q, k, v = (draw(batch, rows, n * SIZE, seed=seed).astype(dtype) for seed, n in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    shape = (KV_HEADS * SIZE,) if kind == "PER_CHANNEL" else (1,)
    scales = [np.random.default_rng(seed).uniform(2.0, 3.0, shape).astype(np.float32) / top for seed in (5, 6)]
    codes = np.random.default_rng(7).integers(-top - 1, top + 1, (2, batch, KV_HEADS, room, SIZE))
    past = [pack(x, bits) for x in codes]
    last = np.array(lengths, np.int32) - 1
    return [q, k, v, *past, last, np.array([total], np.int32), *[None] * 5, *scales]


def attend(inputs: list[Any], bits: int, present: list[Array]) -> Array:
    """Return the attention of the queries to the numbers that the present's codes stand for."""
    q, last, total = inputs[0].astype(np.float32), inputs[5], int(inputs[6][0])
    batch, rows, _ = q.shape
    queries = q.reshape(batch, rows, HEADS, SIZE).transpose(0, 2, 1, 3)
    numbers = []
    for x, scales in zip(present, inputs[12:14], strict=True):
        each = scales.reshape(1, KV_HEADS, 1, SIZE) if scales.size > 1 else scales
        numbers.append(np.repeat(unpack(x, bits) * each, HEADS // KV_HEADS, 1))
    found = np.zeros((batch, HEADS, rows, SIZE), np.float32)
    for b in range(batch):
        start = last[b] + 1 - rows if total > rows else 0
        for i in range(rows):
            seen = start + i + 1
            scores = np.einsum("hd,htd->ht", queries[b, :, i], numbers[0][b, :, :seen]) / np.sqrt(SIZE)
            shares = np.exp(scores - scores.max(1, keepdims=True))
            found[b, :, i] = np.einsum("ht,htd->hd", shares / shares.sum(1, keepdims=True), numbers[1][b, :, :seen])
    return found.transpose(0, 2, 1, 3).reshape(batch, rows, -1)


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("rows", "total", "lengths", "room"),
    [(4, 4, [4], 4), (21, 21, [21, 21], 30), (1, 20, [20, 7], 24), (1, 90, [90], 89), (20, 70, [70], 70)],
)
def test_forms(rows: int, total: int, lengths: list[int], room: int, bits: int, kind: str) -> None:
    inputs = feeds(rows, total, lengths, room, bits, kind)
    how = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    found = run_op("GroupQueryAttention", inputs, how, outputs=3, **HOW)
    want = ort_op("GroupQueryAttention", inputs, how, outputs=("float32", inputs[3].dtype.name, inputs[3].dtype.name), **HOW)
    for b, length in enumerate(lengths):
        for got, wanted in zip(found[1:], want[1:], strict=True):
            np.testing.assert_array_equal(got[b, :, :length], wanted[b, :, :length])
    np.testing.assert_allclose(found[0], attend(inputs, bits, found[1:]), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found[0], want[0], rtol=0, atol=0.05)  # onnxruntime may multiply queries as codes too


def test_float16_queries_sinks_and_windows() -> None:
    inputs = feeds(1, 20, [20, 7], 24, 8, "PER_TENSOR", "float16")
    inputs[11] = draw(HEADS).astype(np.float16)
    how = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    how |= {"kv_cache_bit_width": 8, "local_window_size": 5, "softcap": 3.0}
    found = run_op("GroupQueryAttention", inputs, how, outputs=3, **HOW)
    want = ort_op("GroupQueryAttention", inputs, how, outputs=("float16", "int8", "int8"), **HOW)
    np.testing.assert_allclose(found[0].astype(np.float32), want[0].astype(np.float32), rtol=0, atol=0.05)


REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"k_quant_type": "PER_TENSOR"}, "k_quant_type 'PER_TENSOR' with v_quant_type 'NONE'"),
    ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 2}, "kv_cache_bit_width 2"),
    ({}, "scales without k_quant_type"),
    ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4}, "a past of int8"),
]


@pytest.mark.parametrize(("attributes", "reason"), REJECTED)
def test_caches_that_are_rejected(attributes: dict[str, Any], reason: str) -> None:
    inputs = feeds(1, 5, [5], 8, 8, "PER_TENSOR")
    if attributes.get("kv_cache_bit_width") == 4:
        inputs[3:5] = [x[..., : SIZE // 2] for x in inputs[3:5]]
    with pytest.raises(NotSupported, match=reason):
        run_op("GroupQueryAttention", inputs, {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}, outputs=3, **HOW)
