"""Attention and rotary embeddings of both domains compared with the CPU provider: every form of operands, masks and pasts."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.operators.attention import attention
from ort_lite_xla.registry import XlaOp

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import ProviderError
from ort_lite.load.load import load
from tests.single_node import CPU, MICROSOFT, Single, close, compare, ramp

XLA = XLAExecutionProvider.name

Q, KV = (2, 4, 3, 8), (2, 2, 5, 8)
NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def flat(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)


# --- Attention of ONNX
BOOLS = ramp((3, 5)) > -0.5
ADDEND = np.where(BOOLS, ramp((3, 5)), -np.inf).astype(np.float32)
CLOSED = np.array([[True] * 5, [False] * 5, [True] * 5])


@pytest.mark.parametrize(
    ("more", "attributes"),
    [
        ([], {}),
        ([], {"is_causal": 1, "scale": 0.3}),
        ([], {"left_window_size": 1, "right_window_size": 0, "softcap": 1.5}),
        ([BOOLS], {}),
        ([CLOSED], {}),
        ([ADDEND], {"is_causal": 1}),
        ([ramp((2, 1, 3, 5))], {}),
        ([ramp((4, 1, 4))], {}),
        ([None, ramp((2, 2, 6, 8)), ramp((2, 2, 6, 8))], {"is_causal": 1}),
        ([ramp((3, 11)), ramp((2, 2, 6, 8)), ramp((2, 2, 6, 8))], {"left_window_size": 4}),
        ([None, None, None, ints(5, 3)], {"is_causal": 1}),
        ([None, None, None, ints(4, 0)], {}),
        ([], {"softmax_precision": 11}),
    ],
    ids=str,
)
@pytest.mark.parametrize("three", [False, True])
def test_attention(more: list[Array | None], attributes: dict[str, Any], three: bool) -> None:
    heads = [ramp(Q), ramp(KV), ramp(KV) + 0.1]
    counts = {"q_num_heads": 4, "kv_num_heads": 2} if three else {}
    operands = [*(flat(x) if three else x for x in heads), *more]
    opset = 25 if any("window" in name for name in attributes) else 24
    compare(XLA, "Attention", operands, {**attributes, **counts}, opset=opset, outputs=[True] * (3 if len(more) == 3 else 1))


@pytest.mark.parametrize("mode", range(4))
def test_scores_at_every_stage(mode: int) -> None:
    rules = {"qk_matmul_output_mode": mode, "softcap": 0.7, "is_causal": 1}
    compare(XLA, "Attention", [ramp(Q), ramp(KV), ramp(KV), ADDEND], rules, outputs=[True] * 4)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_attention_of_16_bits_is_rounded_once(dtype: Any) -> None:
    compare(XLA, "Attention", [ramp(shape, dtype) for shape in (Q, KV, (2, 2, 5, 3))], {"is_causal": 1})


@pytest.mark.parametrize("shape", [(2, 2, 0, 8), (0, 2, 5, 8)], ids=str)
def test_no_keys_give_zeros_and_no_samples_nothing(shape: tuple[int, ...]) -> None:
    (got,) = Single("Attention", [ramp((shape[0], *Q[1:])), ramp(shape), ramp(shape)], {}).run(XLA)
    assert np.array_equal(got, np.zeros((shape[0], *Q[1:]), np.float32))


PADDED: dict[int, tuple[int | str, ...]] = {
    0: ("B", 4, "S", 8),
    1: ("B", 2, "T", 8),
    2: ("B", 2, "T", 8),
    3: ("B", 1, "S", "T"),
}


@pytest.mark.parametrize(
    ("masked", "attributes", "programs"),
    [(True, {}, 1), (True, {"is_causal": 1}, 1), (False, {}, 2), (False, {"scale": 2.0}, 2)],
)
@pytest.mark.parametrize("kind", [np.bool_, np.float32])
def test_a_mask_lets_lengths_share_a_program(masked: bool, attributes: dict[str, Any], programs: int, kind: type) -> None:
    def case(rows: int, length: int) -> Single:
        mask: list[Array] = [(ramp((2, 1, rows, length)) > -0.8).astype(kind)] if masked else []
        operands = [ramp((2, 4, rows, 8)), ramp((2, 2, length, 8)), ramp((2, 2, length, 8)), *mask]
        return Single("Attention", operands, attributes, dims={k: dim for k, dim in PADDED.items() if k < 3 or masked})

    session = case(5, 7).session(XLA)
    for sizes in ((5, 7), (6, 8)):
        single = case(*sizes)
        (got,), (want,) = session.run(None, single.feeds), single.run(CPU)
        close(got, want)
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == programs


def test_causal_rows_see_no_padding() -> None:
    dims = dict.fromkeys(range(3), (2, 2, "S", 8))
    session = Single("Attention", [ramp((2, 2, 5, 8))] * 3, {"is_causal": 1}, dims=dims).session(XLA)
    for rows in (5, 6):
        single = Single("Attention", [ramp((2, 2, rows, 8))] * 3, {"is_causal": 1})
        close(session.run(None, single.feeds)[0], single.run(CPU)[0])
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == 1


# --- Attention and MultiHeadAttention of com.microsoft
MASKS = [None, ints(3, 5), ints(3, 5, 1, 0), ints(3, 5, 0, 0, 3, 8, 0, 3), ints(1, 1, 0, 1, 1, 1, 1, 1, 0, 1).reshape(2, 5)]


@pytest.mark.parametrize("mask", [*MASKS, (ramp((2, 5, 5)) > 0).astype(np.int64)], ids=str)
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1, "mask_filter_value": -1.0, "scale": 0.4}], ids=str)
def test_attention_of_projections(mask: Array | None, attributes: dict[str, Any]) -> None:
    mask = None if mask is None else mask.astype(np.int32)
    operands = [ramp((2, 5, 6)), ramp((6, 24)), ramp((24,)), mask]
    compare(XLA, f"{MICROSOFT}.Attention", operands, {"num_heads": 2, **attributes})


def test_attention_of_projections_behind_a_past() -> None:
    operands = [ramp((2, 3, 6)), ramp((6, 24)), None, None, ramp((2, 2, 2, 4, 4)), ramp((1, 2, 3, 7))]
    compare(XLA, f"{MICROSOFT}.Attention", operands, {"num_heads": 2, "unidirectional": 1}, outputs=[True] * 2)
    sizes = {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 6]}
    compare(XLA, f"{MICROSOFT}.Attention", [ramp((2, 3, 6)), ramp((6, 22)), ramp((22,))], sizes)


SEPARATE = [ramp((2, 3, 8)), ramp((2, 5, 8)), ramp((2, 5, 6))]
FORMS: list[list[Array | None]] = [
    [*SEPARATE],
    [*SEPARATE, ramp((22,)), ints(4, 5).astype(np.int32)],
    [ramp((2, 3, 2, 3, 4))],
    [ramp((2, 3, 8)), ramp((2, 5, 2, 2, 4))],
    [ramp((2, 3, 8)), ramp((2, 2, 5, 4)), ramp((2, 2, 5, 4)), None, None, ramp((2, 1, 3, 5))],
    [ramp((2, 3, 8)), ramp((2, 3, 8)), ramp((2, 3, 8)), None, None, None, ramp((2, 2, 4, 4)), ramp((2, 2, 4, 4))],
]


@pytest.mark.parametrize("operands", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}], ids=str)
def test_multi_head_attention(operands: list[Array | None], attributes: dict[str, Any]) -> None:
    compare(XLA, f"{MICROSOFT}.MultiHeadAttention", operands, {"num_heads": 2, **attributes}, outputs=[True] * 4)


# --- GroupQueryAttention
HEADS = {"num_heads": 4, "kv_num_heads": 2}
TABLES = [ramp((20, 8)), ramp((20, 8)) + 0.2]
PROMPT, STEP, LATER, ROOM = (2, 5, 0, [5, 3], 5), (2, 1, 9, [10, 7], 10), (1, 5, 9, [14], 14), (2, 1, 16, [10, 7], 10)
CASES = pytest.mark.parametrize("case", [PROMPT, STEP, LATER, ROOM, (2, 5, 12, [5, 5], 5)], ids=str)


def grouped(case: Any, packed: bool = False, dtype: Any = np.float32) -> list[Array | None]:
    """Queries, keys, values, their past, the last keys, the longest length."""
    batch, rows, past, lengths, total = case
    own: list[Array | None] = [ramp((batch, rows, 64), dtype), *(ramp((batch, rows, 32), dtype) + k for k in range(2))]
    if packed:
        own = [ramp((batch, rows, 128), dtype), None, None]
    cache = [ramp((batch, 2, past, 16), dtype) + k for k in range(2)] if past else [None, None]
    return [*own, *cache, np.array(lengths, np.int32) - 1, np.array(total, np.int32)]


def check_grouped(inputs: list[Array | None], outputs: int = 3, **attributes: Any) -> None:
    how: dict[str, Any] = {"outputs": [True] * outputs, "constants": [6]}
    compare(XLA, f"{MICROSOFT}.GroupQueryAttention", inputs, {**HEADS, **attributes}, **how)


@CASES
@pytest.mark.parametrize(
    "attributes",
    [{}, {"local_window_size": 3}, {"causal": 0}, {"softcap": 1.5, "scale": 0.3}, {"smooth_softmax": 1}],
    ids=str,
)
def test_grouped_queries(case: Any, attributes: dict[str, Any]) -> None:
    check_grouped(grouped(case), **attributes)


@CASES
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_grouped_queries_are_rotated(case: Any, packed: bool, interleaved: int) -> None:
    operands = [*grouped(case, packed), *TABLES]
    check_grouped(operands, do_rotary=1, rotary_interleaved=interleaved)
    positions = np.arange(case[0] * case[1]).reshape(case[:2])[:, ::-1].copy() % 5 + 1
    check_grouped([*operands, positions], do_rotary=1)


@CASES
def test_grouped_queries_with_biases_sinks_and_scores(case: Any) -> None:
    bias = [None, None, None, ramp((1, 4, case[1], case[4]))]
    check_grouped([*grouped(case), *bias, ramp((4,))])
    for stage in (1, 2):
        check_grouped([*grouped(case), *bias], outputs=4, qk_output=stage)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("case", [PROMPT, STEP], ids=str)
def test_grouped_queries_of_16_bits(case: Any, dtype: Any) -> None:
    """The CPU provider has none, so float32 is what they are compared with."""
    operands = [*grouped(case, dtype=dtype), *(table.astype(dtype) for table in TABLES)]
    widened = [x.astype(np.float32) if x is not None and x.dtype == dtype else x for x in operands]
    narrow, wide = (
        Single(f"{MICROSOFT}.GroupQueryAttention", x, {**HEADS, "do_rotary": 1}, outputs=[True] * 3, constants=[6]).run(XLA)
        for x in (operands, widened)
    )
    for got, want in zip(narrow, wide, strict=True):
        assert got.dtype == dtype
        close(got, want.astype(dtype))


DECODER = """(float[B,1,64] q, float[B,1,32] k, float[B,1,32] v, float[B,2,P,16] pk, float[B,2,P,16] pv, int64[B,T] mask)
=> (float[B,1,64] y, float[B,2,Q,16] k_, float[B,2,Q,16] v_)
<int64[1] axis = {1}, int64 one = {1}> {
    lengths = ReduceSum<keepdims = 0>(mask, axis) last_ = Sub(lengths, one) last = Cast<to = 6>(last_)
    shape = Shape(mask) total_ = Gather(shape, one) total = Cast<to = 6>(total_)
    y, k_, v_ = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, pk, pv, last, total)
}"""


def test_tokens_share_a_program_while_caches_have_room() -> None:
    text = f'<ir_version: 10, opset_import: ["": 18, "{MICROSOFT}": 1]> main {DECODER}'
    model = onnx.parser.parse_model(text).SerializeToString()
    session, cpu = (ort_lite.InferenceSession(model, providers=[provider]) for provider in (XLA, CPU))
    feeds = {name: ramp((2, 1, width)) for name, width in (("q", 64), ("k", 32), ("v", 32))}
    caches = {name: ramp((2, 2, 16, 16)) for name in ("pk", "pv")}
    for total in (9, 10, 11, 12):
        mask = np.ones((2, total), np.int64)
        mask[1, 4:] = 0
        got, want = (made.run(None, {**feeds, **caches, "mask": mask}) for made in (session, cpu))
        for a, b in zip(got, want, strict=True):
            close(a, b)
        caches = {"pk": got[1], "pv": got[2]}
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == 1


# --- RotaryEmbedding
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
@pytest.mark.parametrize("dtype", [np.float32, *NARROW], ids=str)
def test_rotary_embedding(interleaved: int, turned: int, dtype: Any) -> None:
    rules, half = {"interleaved": interleaved, "rotary_embedding_dim": turned, "num_heads": 3}, (turned or 8) // 2
    tables, ids = [ramp((9, half), dtype), ramp((9, half), dtype) + 1], ints(0, 3, 8, 2, 2, 7).reshape(2, 3)
    if dtype == np.float32:
        compare(XLA, "RotaryEmbedding", [ramp((2, 3, 24)), *(ramp((2, 3, half)) + k for k in range(2))], rules)
        for positions in (ids, ints(4)):
            compare(XLA, f"{MICROSOFT}.RotaryEmbedding", [ramp((2, 3, 24)), positions, *tables], rules)
        compare(XLA, f"{MICROSOFT}.RotaryEmbedding", [ramp((2, 3, 3, 8)), ids, *tables], rules)
    four = Single("RotaryEmbedding", [ramp((2, 3, 3, 8), dtype), *tables, ids], rules)
    wide = Single("RotaryEmbedding", [ramp((2, 3, 3, 8), dtype).astype("f"), *(x.astype("f") for x in tables), ids], rules)
    close(four.run(XLA)[0], wide.run(CPU)[0].astype(dtype))


@pytest.mark.parametrize("held", [[], [3]])
def test_rows_are_padded_if_their_positions_are_open_too(held: list[int]) -> None:
    def case(rows: int) -> Single:
        operands = [ramp((2, 3, rows, 8)), *(x[:, :4].copy() for x in TABLES), np.arange(2 * rows).reshape(2, rows)]
        return Single("RotaryEmbedding", operands, {}, constants=held, dims={0: (2, 3, "S", 8), 3: (2, "S")})

    session = case(5).session(XLA)
    for rows in (5,) if held else (5, 6):
        close(session.run(None, case(rows).feeds)[0], case(rows).run(CPU)[0])
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == 1


# --- Reasons
@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "reason"),
    [
        (
            "Attention",
            [ramp(Q), ramp(KV), ramp(KV), None, ramp(KV), ramp(KV), ints(1, 1)],
            {},
            "nonpad_kv_seqlen beside a past",
        ),
        ("Attention", [ramp(Q), ramp(KV), ramp(KV)], {"qk_matmul_output_mode": 5}, "qk_matmul_output_mode 5"),
        ("Attention", [ramp(Q), ramp(KV), ramp(KV)], {"softmax_precision": 10}, "softmax_precision is of fewer bits"),
        (f"{MICROSOFT}.GroupQueryAttention", grouped(STEP), HEADS, "contents: the contents of 'x6' must follow from constants"),
        (f"{MICROSOFT}.GroupQueryAttention", grouped(STEP), {**HEADS, "do_rotary": 1}, "do_rotary without cos_cache"),
        (
            f"{MICROSOFT}.Attention",
            [ramp((2, 3, 6)), ramp((6, 24)), ramp((24,))],
            {"num_heads": 2, "do_rotary": 1},
            "do_rotary",
        ),
        (f"{MICROSOFT}.RotaryEmbedding", [ramp((2, 3, 8)), ints(0), *TABLES], {"is_packed_batching": 1}, "is_packed_batching"),
    ],
)
def test_reasons(op_type: str, inputs: list[Array | None], attributes: dict[str, Any], reason: str) -> None:
    assert reason in Single(op_type, inputs, attributes).reason(XLA)


# --- cuDNN
def by_xla(*operands: Any, implementation: str, **rules: Any) -> Any:
    """JAX's own attention with the operands of cuDNN's."""
    assert implementation == "cudnn"
    return ATTENTION(*operands, **rules)


ATTENTION = jax.nn.dot_product_attention
HALF_Q, HALF_KV = (ramp(shape, np.float16) for shape in ((2, 4, 3, 16), (2, 2, 5, 16)))


@pytest.mark.parametrize(
    ("more", "attributes"),
    [([], {"is_causal": 1}), ([BOOLS], {}), ([CLOSED], {"scale": 0.5}), ([ADDEND.astype(np.float16)], {"is_causal": 1})],
    ids=str,
)
def test_cudnn_gets_operands_in_its_order(
    monkeypatch: pytest.MonkeyPatch, more: list[Array], attributes: dict[str, Any]
) -> None:
    monkeypatch.setattr(jax.nn, "dot_product_attention", by_xla)
    single = Single("Attention", [HALF_Q, HALF_KV, HALF_KV, *more], attributes)
    node = load(single.model).graph.nodes[0]
    (want,) = single.run(CPU)
    with jax.enable_x64(True):
        got, *_ = attention(XlaOp(node, {}, jnp, vendor=True), *map(jnp.asarray, single.feeds.values()))
    close(np.asarray(got), want)


def test_cudnn_is_called_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX asks for its version while it lowers; it is said to be there."""
    fused = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(fused, "cuda_versions", SimpleNamespace(cudnn_get_version=lambda: 91100))
    node = load(Single("Attention", [HALF_Q, HALF_KV, HALF_KV], {"is_causal": 1}).model).graph.nodes[0]
    with jax.enable_x64(True):
        for vendor in (False, True):
            traced = jax.jit(partial(attention, XlaOp(node, {}, jnp, vendor))).trace(HALF_Q, HALF_KV, HALF_KV)
            text = traced.lower(lowering_platforms=("cuda",)).as_text()
            assert ("__cudnn$fmhaSoftmax" in text) == vendor


def test_cudnn_needs_a_gpu() -> None:
    with pytest.raises(ProviderError, match="attention is 'cudnn'; expected xla, or cudnn if device is gpu"):
        XLAExecutionProvider(device="cpu", attention="cudnn")
