"""Attention: every form of heads, masks, causality, windows, past keys and values, and what becomes of the scores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from onnx import TensorProto, helper
from onnx.inliner import inline_selected_functions
from onnx.reference import ReferenceEvaluator

from ort_lite import InferenceSession, SessionOptions
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidData
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op

Shape = tuple[int, ...]
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 2e-5, "opset": 25}


KERNELS = pytest.mark.parametrize("kernel", ["attend_few", "attend"])


def qkv(
    batch: int, heads: int, kv_heads: int, rows: int, length: int, size: int, values: int, dtype: str = "float32"
) -> list[Array]:
    """(batch, heads, rows, size) each."""
    shapes = [(batch, heads, rows, size), (batch, kv_heads, length, size), (batch, kv_heads, length, values)]
    return [ramp(shape, dtype) for shape in shapes]


def flat(x: Array) -> Array:
    """(B, H, S, D) -> (B, S, H * D)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)


@pytest.mark.parametrize("kernel", ["", "attend_few", "attend"])
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (5, 1)], ids=str)
@pytest.mark.parametrize(
    ("rows", "length", "size", "values"),
    [(1, 1, 4, 4), (1, 130, 8, 24), (3, 70, 5, 3), (4, 33, 8, 40), (70, 70, 16, 16), (65, 7, 3, 5), (0, 4, 4, 4), (2, 0, 4, 4)],
    ids=str,
)
def test_any_number_of_rows_keys_and_heads(
    heads: tuple[int, int], rows: int, length: int, size: int, values: int, kernel: str
) -> None:
    want = None if length else np.zeros((2, heads[0], rows, values), "f")
    check_op("Attention", *qkv(2, *heads, rows, length, size, values), expected=want, pin=kernel, **TOLERANCE)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "rows", "candidates", "taken"),
    [
        (12, 12, 1, {"attend_few", "attend"}, "attend_few"),
        (12, 12, 8, {"attend_few", "attend"}, "attend_few"),
        (12, 12, 128, {"attend_few", "attend"}, "attend"),
        (8, 2, 4, {"attend_few", "attend"}, "attend_few"),
        (8, 2, 32, {"attend_few", "attend"}, "attend"),
        (12, 12, "S", {"attend_few", "attend", "attend-by-rows"}, "attend-by-rows"),
        (5, 1, 1, {"attend_few", "attend"}, "attend_few"),
    ],
)
def test_candidates(heads: int, kv_heads: int, rows: int | str, candidates: set[str], taken: str) -> None:
    shape, keys = f"float[1,{heads},{rows},64]", f"float[1,{kv_heads},512,64]"
    text = f'<ir_version: 10, opset_import: ["": 23]> g ({shape} q, {keys} k, {keys} v) => ({shape} y)'
    model = onnx.parser.parse_model(text + " { [node] y = Attention(q, k, v) }")
    choice = InferenceSession(model, providers=["CPUExecutionProvider"]).explain(kernels=True).kernels["node"]
    assert {*choice.costs} == candidates and choice.taken == taken
    fixed = {} if rows == "S" else {"attend-by-rows": "the number of query rows is known"}
    assert choice.rejected == fixed


def test_many_keys_have_scratch_for_one_tile_of_scores_in_each_part() -> None:
    check_op("Attention", *qkv(1, 2, 2, 40, 30_000, 4, 4), pin="attend", **TOLERANCE)


def test_long_attention_has_parts_that_another_thread_can_take_over(tmp_path: Path) -> None:
    shape, results, parts = "float[1,3,500,64]", [], []
    text = f'<ir_version: 10, opset_import: ["": 23]> g ({shape} q, {shape} k, {shape} v) => ({shape} y)'
    model = onnx.parser.parse_model(text + " { y = Attention(q, k, v) }")
    feeds = dict(zip("qkv", qkv(1, 3, 3, 500, 500, 64, 64), strict=True))
    for threads in (1, 2, 3):
        options = SessionOptions()
        options.intra_op_num_threads, options.enable_profiling = threads, True
        options.profile_file_prefix = str(tmp_path / "profile")
        session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        results.append(session.run(None, feeds)[0])
        events = json.loads(Path(session.end_profiling()).read_text())
        parts += [e["args"]["parts"] for e in events if e["cat"] == "Kernel" and e["args"]["kernel"].startswith("attend")]
    assert parts == ["1", "8", "12"]
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.int32), results[0].view(np.int32))


def mask_like(shape: Shape, dtype: str) -> Array:
    """Bools, a quarter of them False; floats with as many -inf."""
    x = ramp(shape)
    return x > -0.75 if dtype == "bool" else np.where(x > -0.75, x, -np.inf).astype(dtype)


@KERNELS
@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "int32"])
@pytest.mark.parametrize(
    "shape", [(9,), (1, 9), (-1, 9), (4, 1, 9), (2, 1, -1, 9), (2, 4, -1, 9), (2, 1, 1, 9), (4, -1, 6)], ids=str
)
def test_masks_are_broadcast_and_those_too_short_close(shape: Shape, dtype: str, kernel: str) -> None:
    shape = tuple(5 if dim == -1 else dim for dim in shape)
    mask = ramp(shape, dtype) if dtype == "int32" else mask_like(shape, dtype)
    q, k, v = qkv(2, 4, 2, 5, 9, 4, 3)
    want = reference(q, k, v, mask) if dtype in ("float64", "int32") else None
    check_op("Attention", q, k, v, mask, expected=want, pin=kernel, **TOLERANCE)


def reference(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """With a mask that is added; keys beyond it are closed."""
    k, v = (np.repeat(x[:, :, : mask.shape[-1]], q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v, np.float32)


@KERNELS
@pytest.mark.parametrize("kind", ["bool", "float32", ""])
def test_a_query_that_sees_nothing_gives_zeros(kind: str, kernel: str) -> None:
    q, k, v = qkv(2, 2, 2, 3, 6, 4, 4)
    mask = mask_like((3, 6), kind) if kind else None
    if mask is not None:
        mask[1] = False if kind == "bool" else -np.inf
    lengths = None if kind else ints(0, 6)
    check_op("Attention", q, k, v, mask, None, None, lengths, pin=kernel, **TOLERANCE)


@KERNELS
@pytest.mark.parametrize("rows", [1, 3, 67])
@pytest.mark.parametrize("window", [(-1, -1), (0, -1), (2, 1), (-1, 2), (40, 0)], ids=str)
@pytest.mark.parametrize("causal", [0, 1])
def test_causality_and_windows(causal: int, window: tuple[int, int], rows: int, kernel: str) -> None:
    attributes = {
        "is_causal": causal,
        "pin": kernel,
        "left_window_size": window[0],
        "right_window_size": window[1],
        **TOLERANCE,
    }
    q, k, v = qkv(2, 4, 2, rows, rows + 2, 4, 4)
    check_op("Attention", q, k, v, **attributes)
    check_op("Attention", q, k, v, None, None, None, ints(rows + 2, max(rows - 1, 1)), **attributes)
    check_op("Attention", q, k, v, None, ramp((2, 2, 5, 4)), ramp((2, 2, 5, 4)), outputs=3, **attributes)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores_at_every_stage(mode: int) -> None:
    softcap = 1.5 if mode else 0.0  # the reference caps what the specification calls raw
    attributes = {"qk_matmul_output_mode": mode, "softcap": softcap, "is_causal": 1, "outputs": 4, **TOLERANCE}
    check_op("Attention", *qkv(2, 4, 2, 5, 7, 4, 3), mask_like((2, 1, 5, 7), "float32"), **attributes)


def test_raw_scores_are_not_capped() -> None:
    operands = qkv(2, 2, 2, 5, 7, 4, 3)
    capped, plain = (run_op("Attention", operands, {"softcap": cap}, opset=25, outputs=4) for cap in (0.5, 0.0))
    assert np.array_equal(capped[3], plain[3])
    assert not np.allclose(capped[0], plain[0])


def test_a_double_softmax_computes_in_doubles() -> None:
    q, k, v = qkv(1, 2, 2, 4, 5, 4, 3)
    [got] = run_op("Attention", [q, k, v], {"softmax_precision": TensorProto.DOUBLE}, opset=25)
    [exact] = run_op("Attention", [x.astype(np.float64) for x in (q, k, v)], {}, opset=25)
    assert np.array_equal(got, exact.astype(np.float32))


def by_function(inputs: Sequence[Array], attributes: dict[str, Any]) -> list[Array]:
    """What onnx.reference makes of the function that ONNX gives for Attention-23, operator by operator."""
    names, outputs = ["q", "k", "v", "mask", "past_key", "past_value"][: len(inputs)], ["y", "key", "value", "scores"]
    element = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    feeds = dict(zip(names, inputs, strict=True))
    graph = helper.make_graph(
        [helper.make_node("Attention", names, outputs, **attributes)],
        "main",
        [helper.make_tensor_value_info(name, element, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    inlined = inline_selected_functions(model, [("", "Attention")], exclude=False, inline_schema_functions=True)
    assert "Attention" not in {node.op_type for node in inlined.graph.node}
    return list(ReferenceEvaluator(inlined).run(None, feeds))


SIXTEEN: list[dict[str, Any]] = [
    {"is_causal": 1, "qk_matmul_output_mode": 0},
    {"softcap": 2.0, "scale": 0.3, "qk_matmul_output_mode": 2},
    {"softmax_precision": TensorProto.FLOAT, "qk_matmul_output_mode": 3},
]


@pytest.mark.parametrize("attributes", SIXTEEN, ids=["causal", "softcap", "softmax in float32"])
@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
@KERNELS
def test_sixteen_bits_are_rounded_where_an_operator_of_the_function_ends(
    kernel: str, dtype: type, attributes: dict[str, Any]
) -> None:
    past = [ramp((2, 2, 3, size)) for size in (8, 5)]
    inputs = [x.astype(dtype) for x in (*qkv(2, 4, 2, 5, 4, 8, 5), ramp((5, 7)), *past)]
    outputs = 3 if kernel == "attend_few" else 4  # it has no scores as a result
    want = by_function(inputs, attributes)[:outputs]
    check_op(
        "Attention", *inputs, expected=want, opset=23, outputs=outputs, rtol=0, atol=0, steps=True, pin=kernel, **attributes
    )


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_sixteen_bits_are_rounded_once(dtype: type) -> None:
    """As often as an exact result of float64 is, but where that is next to the middle between two numbers."""
    given: list[Array] = [x.astype(dtype) for x in qkv(2, 4, 2, 5, 9, 8, 5)]
    [exact] = run_op("Attention", [x.astype(np.float64) for x in given], {}, opset=23)
    [once] = run_op("Attention", given, {}, opset=23)
    assert (once == exact.astype(dtype)).mean() > 0.99


def test_the_softmax_of_float32_may_be_asked_to_round() -> None:
    q, k, v = qkv(1, 2, 2, 4, 5, 4, 3)
    check_op("Attention", q, k, v, softmax_precision=TensorProto.FLOAT16, **TOLERANCE)
    [got] = run_op("Attention", [q, k, v], {"softmax_precision": TensorProto.FLOAT16}, opset=25)
    [full] = run_op("Attention", [q, k, v], {}, opset=25)
    assert not np.array_equal(got, full)


def test_the_softmax_of_float64_may_be_asked_to_round() -> None:
    """The products around it stay what they are."""
    q, k, v = (x.astype(np.float64) for x in qkv(1, 2, 2, 4, 5, 4, 3))
    scores = (q @ k.swapaxes(2, 3) / 2).astype(np.float16)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = (powers / powers.sum(-1, keepdims=True, dtype=np.float32).astype(np.float16)).astype(np.float64) @ v
    [got] = run_op("Attention", [q, k, v], {"softmax_precision": TensorProto.FLOAT16}, opset=25)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_values_may_be_of_another_type() -> None:
    q, k, v = qkv(1, 2, 2, 4, 5, 4, 3)
    [got] = run_op("Attention", [q, k, v.astype(np.float64)], {}, opset=25)
    [exact] = run_op("Attention", [x.astype(np.float64) for x in (q, k, v)], {}, opset=25)
    assert np.array_equal(got, exact.astype(np.float32))


@settings(max_examples=30)
@given(
    sizes=st.tuples(*[st.integers(1, 3)] * 3, st.integers(1, 40), st.integers(1, 70), st.integers(1, 9), st.integers(1, 35)),
    causal=st.booleans(),
    lengths=st.booleans(),
    three=st.booleans(),
)
def test_any_attention_matches_the_reference(sizes: Sequence[int], causal: bool, lengths: bool, three: bool) -> None:
    batch, kv_heads, group, rows, length, size, values = sizes
    operands = qkv(batch, kv_heads * group, kv_heads, rows, length, size, values)
    counts = ints(*(1 + (7 * b + length) % length for b in range(batch))) if lengths else None
    heads: dict[str, Any] = {"q_num_heads": kv_heads * group, "kv_num_heads": kv_heads} if three else {}
    given_ = [flat(x) if three else x for x in operands]
    check_op("Attention", *given_, None, None, None, counts, is_causal=int(causal), **heads, **TOLERANCE)


def shaped(*shapes: Shape | None) -> list[Array | None]:
    return [None if shape is None else ramp(shape) for shape in shapes]


Q, KV = (2, 2, 4, 8), (2, 2, 6, 8)
TWO_HEADS = {"q_num_heads": 2, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (shaped((2, 3, 4, 8), KV, KV), {}, "3 query heads cannot share 2"),
        (shaped(Q, (2, 2, 6, 7), KV), {}, "K, .* is 7, but E is 8"),
        (shaped(Q, KV, (2, 2, 5, 8)), {}, "V, .* is 5, but S is 6"),
        (shaped(Q, (3, 2, 6, 8), (3, 2, 6, 8)), {}, "K, .* is 3, but B is 2"),
        (shaped(Q, KV, KV, (3, 6)), {}, "attn_mask, .* is 3[,;] it should broadcast to 4"),
        (
            shaped(Q, (2, 2, 0, 8), KV, None, (2, 2, 3, 8), (2, 2, 3, 8)),
            {},
            "V, .* is 6, but S is 0",
        ),
        (shaped(Q, KV, KV, None, (2, 2, 0, 8), (2, 2, 3, 8)), {}, "past_value, .* is 3, but P is 0"),
        (shaped(Q, KV, KV, None, (2, 2, 3, 7), (2, 2, 3, 8)), {}, "past_key, .* is 7, but E is 8"),
        (shaped(Q, KV, KV, None, (1, 2, 3, 8), (1, 2, 3, 8)), {}, "past_key, .* is 1, but B is 2"),
        ([*shaped(Q, KV, KV, None, None, None), ints(1, 2, 3)], {}, "nonpad_kv_seqlen, .* is 3, but B is 2"),
        (shaped(*[(2, 4, 9)] * 3), TWO_HEADS, "Q, .* is 9[,;] no multiple of Hq, which is 2 by the attribute q_num_heads"),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_what_does_not_fit_is_named(inputs: list[Array | None], attributes: dict[str, int], message: str, fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_op("Attention", inputs, attributes, opset=25, outputs=3 if len(inputs) == 6 else 1, fixed=fixed)


# --- What a model or a feed may bring
HUGE = 2**63 - 1


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("windows", [{"left_window_size": 2}, {"left_window_size": 2, "right_window_size": 1}, {}], ids=str)
def test_lengths_that_no_keys_have_are_refused(rows: int, windows: dict[str, int]) -> None:
    q, k, v = qkv(2, 2, 2, rows, 70, 4, 5)
    for length in (-1, 71, HUGE, -HUGE - 1):
        wild = [q, k, v, None, None, None, ints(70, length)]
        with pytest.raises(InvalidData, match=rf"the length {length} at position 1 of 'in6' is out of range \[0, 71\)"):
            run_op("Attention", wild, windows, opset=25)


def test_lengths_are_those_of_keys_without_a_past() -> None:
    past = ramp((2, 2, 3, 4))
    with pytest.raises(NotSupported, match="nonpad_kv_seqlen beside a past"):
        run_op("Attention", [*qkv(2, 2, 2, 4, 6, 4, 4), None, past, past, ints(1, 2)], {}, opset=25, outputs=3)


@pytest.mark.parametrize("rows", [1, 9])
def test_windows_wider_than_any_sequence_hide_nothing(rows: int) -> None:
    inputs = [*qkv(2, 2, 2, rows, 70, 4, 5), None, None, None, ints(70, 3)]
    [want] = run_op("Attention", inputs, {}, opset=25)
    [got] = run_op("Attention", inputs, {"left_window_size": HUGE, "right_window_size": HUGE - rows}, opset=25)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([ramp((2, 4, 8))] * 3, {"q_num_heads": -2, "kv_num_heads": -2}, "-2 heads"),
        ([ramp((2, 2, 4, 8))] * 3, {"qk_matmul_output_mode": 5}, "qk_matmul_output_mode 5"),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(inputs: list[Array | None], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("Attention", inputs, attributes, opset=25, outputs=4)


@KERNELS
def test_a_query_whose_scores_are_all_infinite_gives_nan(kernel: str) -> None:
    q, k, v = qkv(1, 2, 2, 3, 6, 4, 4)
    q[0, 0, 1], k[:] = -np.inf, np.abs(k) + 1
    got, *_ = run_op("Attention", [q, k, v], pin=kernel, opset=25)
    assert np.isnan(got[0, 0, 1]).all() and np.isfinite(got[0, 0, ::2]).all() and np.isfinite(got[0, 1]).all()


@pytest.mark.parametrize("rows", [1, 9, 70])
@pytest.mark.parametrize("before", [(0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("after", [(0, 2, 1, 3), (2, 0, 1, 3), (3, 0, 1, 2)], ids=str)
def test_heads_are_read_and_written_where_transposes_leave_them(before: Shape, after: Shape, rows: int) -> None:
    batch, heads, length, size = 2, 3, 9, 5
    shapes = [(batch, heads, rows, size), (batch, heads, length, size), (batch, heads, length, size)]
    places = np.argsort(before)
    feeds = {name: ramp([shape[axis] for axis in places]) for name, shape in zip("qkv", shapes, strict=True)}
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 25]> g
        (float[A,B,C,D] q, float[E,F,G,H] k, float[I,J,K,L] v) => (float[M,N,O,P] z) {{
            a = Transpose<perm={list(before)}>(q) b = Transpose<perm={list(before)}>(k) c = Transpose<perm={list(before)}>(v)
            y = Attention(a, b, c) z = Transpose<perm={list(after)}>(y) }}""")
    (got,) = InferenceSession(model).run(None, feeds)
    q, k, v = (feeds[name].transpose(before) for name in "qkv")
    want = reference(q, k, v, np.zeros(length, np.float32)).transpose(after)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0)], ids=str)
def test_heads_that_are_columns_are_read_in_logical_order(perm: Shape) -> None:
    rows, length, batch, heads, size = 5, 7, 2, 3, 4
    sizes = {"q": (batch, rows, heads * size), "k": (batch, length, heads * size), "v": (batch, length, heads * size)}
    feeds = {name: ramp([shape[axis] for axis in np.argsort(perm)]) for name, shape in sizes.items()}
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 25]> g
        (float[A,B,C] q, float[D,E,F] k, float[G,H,I] v) => (float[J,K,L] y) {{
            a = Transpose<perm={list(perm)}>(q) b = Transpose<perm={list(perm)}>(k) c = Transpose<perm={list(perm)}>(v)
            y = Attention<q_num_heads={heads}, kv_num_heads={heads}>(a, b, c) }}""")
    (got,) = InferenceSession(model).run(None, feeds)
    q, k, v = (feeds[name].transpose(perm).reshape(batch, -1, heads, size).swapaxes(1, 2) for name in "qkv")
    want = reference(q, k, v, np.zeros(length, np.float32)).swapaxes(1, 2).reshape(batch, rows, -1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)
