"""Single cases of onnxruntime's C++ tests of the operators of language models: what it refuses is refused, the rest is equal."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.cpu.operators.test_gather_blocks import operands as blocks_of
from tests.cpu.ort import ort_op

Inputs = Sequence[Array | None]
HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


REFUSALS: tuple[type[Exception], ...] = (
    OrtLiteError,
    *(
        x
        for x in vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
        if isinstance(x, type) and issubclass(x, Exception)
    ),
)
"""The errors of both runtimes."""


def draw(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(shape).standard_normal(shape, np.float32).astype(dtype)


def answer(api: Any, op_type: str, inputs: Inputs, attributes: dict[str, Any], **how: Any) -> list[Array] | None:
    """Return what a runtime computes; None if it refuses."""
    try:
        return ort_op(op_type, inputs, attributes, api=api, **how, **HOW)
    except REFUSALS:
        return None


def check(
    op_type: str,
    inputs: Inputs,
    attributes: dict[str, Any],
    *,
    taken: bool = True,
    rows: int | None = None,
    tolerance: float = 1e-5,
    **how: Any,
) -> None:
    """Compare with onnxruntime, which takes the case or not. rows: how many of a cache count."""
    want, got = (answer(api, op_type, inputs, attributes, **how) for api in (onnxruntime, ort_lite))
    assert (want is not None) == taken, "onnxruntime"
    assert (got is not None) == taken, "ort-lite"
    for theirs, ours in zip(want or [], got or [], strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if rows is not None and ours.ndim == 4:
            theirs, ours = theirs[:, :, :rows], ours[:, :, :rows]
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), tolerance, tolerance)


# --- GroupQueryAttention
CACHED = ("float32", "float32", "float32")
ONE_HEAD = {"num_heads": 1, "kv_num_heads": 1}
LENGTHS: list[tuple[bool, list[int], int, int, int | None, tuple[int, ...] | None]] = [
    (False, [-5], 1, 1, None, None),
    (False, [100], 1, 1, None, None),
    (False, [0, -3], 1, 1, None, None),
    (True, [0], 1, 1, None, None),
    (False, [-1], 2, 1, 1, None),
    (True, [1], 2, 1, 4, None),
    (False, [1], 5, 3, 4, None),
    (False, [50], 100, 1, 2, None),
    (False, [50], 100, 1, 0, None),
    (False, [2**31 - 1], 1, 1, None, None),
    (True, [3], 4, 1, 4, None),
    (False, [4], 4, 1, 4, None),
    (False, [0], 0, 1, None, None),
    (False, [0], -5, 1, None, None),
    (True, [0], 1, 1, None, (1, 1)),
    (True, [0, 0], 1, 1, None, (2, 1)),
    (True, [0, 0], 1, 1, None, (1, 2)),
    (False, [0, 0, 0, 0], 1, 1, None, (2, 2)),
    (False, [0, 0], 1, 1, None, (2,)),
    (False, [0, 0], 1, 1, None, (2, 1)),
    (False, [0], 1, 1, None, ()),
    (True, [0, 2], 3, 1, 4, None),
]
"""True if onnxruntime takes it, seqlens_k, total_sequence_length, new rows, rows of the past, the shape of seqlens_k."""


@pytest.mark.parametrize(("taken", "last", "total", "rows", "before", "shape"), LENGTHS)
def test_lengths(
    taken: bool, last: list[int], total: int, rows: int, before: int | None, shape: tuple[int, ...] | None
) -> None:
    batch = 1 if not taken and shape in ((2,), (2, 1)) else len(last)
    past = [None, None] if before is None else [draw(batch, 1, before, 8)] * 2
    own = [draw(batch, rows, 8)] * 3
    lengths = np.array(last, np.int32).reshape(shape if shape is not None else (batch,))
    inputs = [*own, *past, lengths, np.array([total], np.int32)]
    check("GroupQueryAttention", inputs, ONE_HEAD, taken=taken, outputs=CACHED)


@pytest.mark.parametrize(
    ("taken", "more"),
    [(True, {}), (True, {"causal": 0}), (False, {"causal": 2}), (False, {"causal": 0, "local_window_size": 1})],
)
def test_masks_of_both_directions(taken: bool, more: dict[str, int]) -> None:
    inputs = [draw(1, 2, 8), *[draw(1, 2, 8)] * 2, None, None, np.array([1], np.int32), np.array([2], np.int32)]
    check("GroupQueryAttention", inputs, ONE_HEAD | more, taken=taken, outputs=CACHED)


def test_weights_of_a_normalisation_are_refused() -> None:
    own, nothing = [draw(1, 1, 8)] * 3, [None] * 7
    inputs = [*own, None, None, np.zeros(1, np.int32), np.ones(1, np.int32), *nothing, *[np.ones(8, np.float32)] * 2]
    check("GroupQueryAttention", inputs, ONE_HEAD, taken=False, outputs=CACHED)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(
    ("batch", "rows", "before", "heads", "size"),
    [(1, 1, 8, (2, 1), 16), (1, 8, 8, (2, 1), 16), (1, 4, 16, (2, 1), 128), (1, 1, 16, (8, 1), 32), (3, 1, 8, (4, 2), 16)],
)
def test_keys_of_another_layer(batch: int, rows: int, before: int, heads: tuple[int, int], size: int, rotary: int) -> None:
    many, few = heads
    own = [draw(batch, rows, many * size), *[np.zeros((batch, 0, few * size), np.float32)] * 2]
    past = [draw(batch, few, before, size), draw(batch, few, before, size)]
    turns = [draw(before, size // 2)] * 2 if rotary else [None, None]
    inputs = [*own, *past, np.full(batch, before - 1, np.int32), np.array([before], np.int32), *turns]
    attributes = {"num_heads": many, "kv_num_heads": few, "do_rotary": rotary}
    check("GroupQueryAttention", inputs, attributes, outputs=CACHED)


def test_no_keys_at_all_are_refused() -> None:
    own = [draw(1, 4, 16), *[np.zeros((1, 0, 8), np.float32)] * 2]
    inputs = [*own, None, None, np.array([3], np.int32), np.array([4], np.int32)]
    check("GroupQueryAttention", inputs, {"num_heads": 2, "kv_num_heads": 1}, taken=False, outputs=CACHED)


@pytest.mark.parametrize(
    ("taken", "last", "total", "angles"),
    [(False, [10], 4, 4), (True, [3], 4, 8), (True, [3, 5], 6, 8), (False, [2, 10], 11, 4)],
)
def test_positions_beyond_the_angles_are_refused(taken: bool, last: list[int], total: int, angles: int) -> None:
    batch = len(last)
    own, past, turns = [draw(batch, 1, 16)] * 3, [draw(batch, 1, 16, 16)] * 2, [draw(angles, 8)] * 2
    inputs = [*own, *past, np.array(last, np.int32), np.array([total], np.int32), *turns]
    check("GroupQueryAttention", inputs, ONE_HEAD | {"do_rotary": 1}, taken=taken, outputs=CACHED)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [96, 128])
@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (2, 1), (1, 4)])
@pytest.mark.parametrize("shift", [None, 0, 32])
def test_positions_of_a_shifted_cache(
    shift: int | None, batch: int, rows: int, turned: int, interleaved: int, dtype: str
) -> None:
    """Rows are rotated by other positions than those at which they are appended. onnxruntime rounds queries of float16."""
    size, before, room = 128, 8, 32
    own = [draw(batch, rows, n * size, dtype=dtype) for n in (4, 2, 2)]
    past, turns = [draw(batch, 2, room, size, dtype=dtype)] * 2, [draw(128, turned // 2, dtype=dtype)] * 2
    end = np.full(batch, before + rows - 1, np.int32)
    inputs: list[Array | None] = [*own, *past, end, np.array([before + rows], np.int32), *turns]
    if shift is not None:
        inputs.append(np.arange(before, before + rows) + shift * np.arange(1, batch + 1)[:, None])
    attributes = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": interleaved}
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    check("GroupQueryAttention", inputs, attributes, outputs=[dtype] * 3, rows=before + rows, tolerance=tolerance)


def test_codes_without_scales_are_refused() -> None:
    own, past = [draw(1, 4, 16)] * 3, [np.zeros((1, 1, 4, 16), np.int8)] * 2
    inputs = [*own, *past, np.array([3], np.int32), np.array([4], np.int32)]
    attributes = ONE_HEAD | {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    check("GroupQueryAttention", inputs, attributes, taken=False, outputs=("float32", "int8", "int8"))


@pytest.mark.parametrize("smooth", [0, 1])
def test_padding_on_the_right_of_prompts(smooth: int) -> None:
    """Rows of padding have no meaning, but are finite."""
    lengths, heads, size = [4, 2, 6], 4, 16
    attributes = {"num_heads": heads, "kv_num_heads": 2, "do_rotary": 1, "smooth_softmax": smooth}
    turns, total = [draw(6, size // 2)] * 2, np.array([6], np.int32)
    inputs = [draw(3, 6, (heads + 4) * size), *[None] * 4, np.array(lengths, np.int32) - 1, total, *turns]
    results = [answer(api, "GroupQueryAttention", inputs, attributes, outputs=CACHED) for api in (onnxruntime, ort_lite)]
    assert results[0] is not None and results[1] is not None and np.isfinite(results[1][0]).all()
    for b, end in enumerate(lengths):
        np.testing.assert_allclose(results[1][0][b, :end], results[0][0][b, :end], 1e-5, 1e-5)
        np.testing.assert_allclose(results[1][1][b, :, :end], results[0][1][b, :, :end], 1e-6, 1e-6)


@pytest.mark.parametrize("squared", [False, True])
def test_a_cache_that_the_model_computes_may_grow(squared: bool) -> None:
    """The past is a slice of a larger tensor: its present may be longer than memory that is free."""
    past = "pk = Mul(k0, k0)  pv = Mul(v0, v0)" if squared else "pk = Identity(k0)  pv = Identity(v0)"
    cache, row = "float[2,1,2,past_len,32]", "float[1,1,64]"
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[1,1,128] q, {row} k,
        {row} v, {cache} keys, {cache} values, int32[1] last, int32 total) => (float[] y, float[] nk, float[] nv)
        <int64 layer = {{0}}, int64[1] axis = {{0}}> {{ k0 = Gather(keys, layer)  v0 = Gather(values, layer)  {past}
        y, a, b = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, pk, pv, last, total)
        nk = Unsqueeze(a, axis)  nv = Unsqueeze(b, axis) }}""").SerializeToString()
    options = onnxruntime.SessionOptions()
    options.enable_mem_reuse = False
    theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ours = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    for before, last, total in [(0, 0, 1), (1, 1, 2), (2, 2, 3), (1, 0, 1), (4, 3, 4)]:
        rows = {"q": draw(1, 1, 128), "k": draw(1, 1, 64), "v": draw(1, 1, 64)}
        caches = {name: draw(2, 1, 2, before, 32) for name in ("keys", "values")}
        feed = {**rows, **caches, "last": np.array([last], np.int32), "total": np.array(total, np.int32)}
        for want, got in zip(theirs.run(None, feed), ours.run(None, feed), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


# --- MultiHeadAttention
def _beams(batch: int, indirection: Array) -> list[Array | None]:
    own, past = [draw(batch, 1, 4)] * 3, [draw(batch, 1, 4, 4)] * 2
    return [*own, None, None, None, *past, np.array([2], np.int32), indirection]


def test_indirections_that_do_not_fit_are_refused() -> None:
    wrong = np.array([0, 2, 0, 0, 0, 0, 0, 0], np.int32).reshape(1, 2, 4)
    alone = np.array([0, 1, 0, 0, 0, 0, 0, 0], np.int32).reshape(2, 1, 4)
    for inputs in (_beams(2, wrong), _beams(3, np.zeros((1, 2, 4), np.int32)), _beams(2, alone)):
        check("MultiHeadAttention", inputs, {"num_heads": 1}, taken=False, outputs=CACHED)


def test_scores_with_a_mask_and_a_bias() -> None:
    inputs = [draw(1, 2, 8), *[draw(1, 2, 8)] * 2, None, np.array([[1, 0]], np.int32), draw(1, 1, 2, 2)]
    attributes = {"num_heads": 1, "mask_filter_value": -10000.0}
    check("MultiHeadAttention", inputs, attributes, outputs=("float32", "", "", "float32"))


@pytest.mark.parametrize(("batch", "rows", "keys"), [(0, 2, 2), (1, 0, 2), (1, 2, 0)])
def test_attention_without_rows(batch: int, rows: int, keys: int) -> None:
    check("MultiHeadAttention", [draw(batch, rows, 4), *[draw(batch, keys, 4)] * 2], {"num_heads": 1})


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("form", ["packed", "packed keys", "narrow values", "other lengths"])
def test_layouts_of_queries_and_keys(form: str, causal: int) -> None:
    """In causal attention to more keys than queries, the last query of onnxruntime sees keys behind it."""
    batch, rows, heads, size = 2, 3, 2, 16
    length = rows - 1 if causal else rows + 2
    inputs: Inputs = {
        "packed": [draw(batch, rows, heads, 3, size)],
        "packed keys": [draw(batch, rows, heads * size), draw(batch, rows, heads, 2, size)],
        "narrow values": [draw(batch, rows, heads * size), draw(batch, rows, heads * size), draw(batch, rows, heads * 8)],
        "other lengths": [draw(batch, rows, heads * size), *[draw(batch, length, heads * size)] * 2],
    }[form]
    attributes = {"num_heads": heads, "unidirectional": causal}
    if form in ("packed", "packed keys"):  # for which onnxruntime has no kernel on a CPU
        assert answer(onnxruntime, "MultiHeadAttention", inputs, attributes) is None
    else:
        check("MultiHeadAttention", inputs, attributes)


# --- GatherBlockQuantized
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int4", "uint4"])
@pytest.mark.parametrize(
    ("taken", "more"),
    [
        *((True, {"gather_axis": axis, "quantize_axis": along}) for axis, along in ((0, 2), (-3, -1))),
        *((False, {"block_size": size}) for size in (8, 17)),
        *((False, {"gather_axis": axis}) for axis in (3, -4)),
        *((False, {"quantize_axis": axis}) for axis in (3, -4)),
        *((False, {"bits": bits}) for bits in (1, 3, 5, 6, 7)),
    ],
    ids=str,
)
def test_options_of_a_gather(taken: bool, more: dict[str, int], dtype: str, zeros: bool) -> None:
    data, scales, points = blocks_of((2, 3, 4), dtype, 2, zeros)
    attributes = {"gather_axis": 0, "quantize_axis": 2, "block_size": 16, "bits": 4} | more
    inputs = [data, np.array([1], np.int32), scales, points]
    check("GatherBlockQuantized", inputs, attributes, taken=taken, constants=[k for k in (0, 2, 3) if inputs[k] is not None])


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize(("axis", "along"), list(itertools.product((0, 1, 2), (0, 1, 2))))
def test_scales_of_float16(axis: int, along: int, dtype: str) -> None:
    data, scales, points = blocks_of((2, 3, 17), dtype, along, True)
    assert scales is not None
    inputs = [data, np.array([[1], [0]], np.int64), scales.astype(np.float16), points]
    attributes = {"gather_axis": axis, "quantize_axis": along, "block_size": 16, "bits": 4}
    check("GatherBlockQuantized", inputs, attributes, constants=[0, 2, 3], outputs=("float16",))


@pytest.mark.parametrize("dtype", ["uint8", "int4", "uint4"])
def test_scales_that_do_not_fit_are_refused(dtype: str) -> None:
    data, scales, points = blocks_of((2, 3, 4), dtype, 2, True)
    assert scales is not None and points is not None
    inputs = [data, np.array([1], np.int32), scales[:, :2], points[:, :2]]
    attributes = {"quantize_axis": 2, "block_size": 16, "bits": 4}
    check("GatherBlockQuantized", inputs, attributes, taken=False, constants=[0, 2, 3])


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "int32", "uint32"])
def test_data_of_other_types_is_refused(dtype: str) -> None:
    inputs = [np.zeros((2, 3, 4), dtype), np.array([1], np.int32), np.ones((2, 3, 1), np.float32)]
    check("GatherBlockQuantized", inputs, {"quantize_axis": 2, "block_size": 16}, taken=False, constants=[0, 2])


# --- MoE and QMoE
def test_more_experts_than_there_are_are_refused() -> None:
    swiglu = {"k": 3, "activation_type": "swiglu", "swiglu_fusion": 1}
    check("MoE", [draw(1, 4), draw(1, 2), draw(2, 16, 4), None, draw(2, 4, 8)], swiglu, taken=False)
    first, second = np.zeros((2, 16, 4), np.uint8), np.zeros((2, 4, 8), np.uint8)
    inputs = [draw(1, 4), draw(1, 2), first, draw(2, 16), None, second, draw(2, 4)]
    check("QMoE", inputs, swiglu | {"expert_weight_bits": 8}, taken=False)


def test_third_weights_and_odd_columns_of_qmoe_are_refused() -> None:
    first, second, third = (np.zeros((2, n, 4), np.uint8) for n in (16, 8, 8))
    inputs = [draw(1, 8), draw(1, 2), first, draw(2, 16), None, second, draw(2, 8), None, third, draw(2, 8)]
    attributes = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": 4}
    check("QMoE", inputs, attributes, taken=False)
    inputs = [
        draw(1, 6),
        draw(1, 2),
        np.zeros((2, 8, 1), np.uint8),
        draw(2, 8),
        None,
        np.zeros((2, 6, 2), np.uint8),
        draw(2, 6),
    ]
    check("QMoE", inputs, {"k": 2, "expert_weight_bits": 2}, taken=False)
