"""GroupQueryAttention of padded chunks, in caches of a window, and to caches that another layer fills, against onnxruntime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import run_op
from tests.cpu.operators.test_quantized_cache import pack
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
HEADS, KV_HEADS, SIZE = 4, 2, 32
PADDED = 16


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def operands(rows: int, room: int, ends: Sequence[int], total: int, used: Sequence[int] = (), *, fresh: int = -1) -> list[Any]:
    """Return queries, new rows (`fresh`, or as many as queries), a past, the numbers of keys, and, if given, of valid new rows."""
    batch, new = len(ends), rows if fresh < 0 else fresh
    own = [draw(batch, rows, HEADS * SIZE), *(draw(batch, new, KV_HEADS * SIZE, seed=seed) for seed in (1, 2))]
    past = [draw(batch, KV_HEADS, room, SIZE, seed=seed) for seed in (3, 4)]
    found = [*own, *past, np.array(ends, np.int32) - 1, np.array(total, np.int32), *[None] * 10]
    if used:
        found[PADDED] = np.array(used, np.int32)
    return found


def rotated(inputs: list[Any], ids: Array | None = None) -> list[Any]:
    return [*inputs[:7], draw(200, SIZE // 2, seed=5), draw(200, SIZE // 2, seed=6), ids, *inputs[10:]]


def coded(inputs: list[Any], bits: int, kind: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the inputs with a past of codes, and the attributes that say so."""
    rng = np.random.default_rng(7)
    pasts = [pack(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), x.shape), bits) for x in inputs[3:5]]
    scales = [rng.uniform(0.1, 0.2, KV_HEADS * SIZE if kind == "PER_CHANNEL" else 1).astype(np.float32) for _ in range(2)]
    return [*inputs[:3], *pasts, *inputs[5:12], *scales, *inputs[14:]], {
        "kv_cache_bit_width": bits,
        "k_quant_type": kind,
        "v_quant_type": kind,
    }


def resident(end: int, room: int, window: int) -> int:
    """Return how many of `end` keys are in a window, as onnxruntime's documentation has it."""
    if end <= room:
        return end
    step = room - window + 1
    return end - step * -(-(end - room) // step)


def check(inputs: list[Any], atol: float = 2e-5, **attributes: Any) -> None:
    """Compare rows that are no padding, and rows of the caches that are keys, with onnxruntime's; open and fixed dimensions."""
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}
    types = [inputs[0].dtype.name, inputs[3].dtype.name, inputs[3].dtype.name]
    want = ort_op("GroupQueryAttention", inputs, attributes, outputs=types, **HOW)
    ends, room = inputs[5] + 1, inputs[3].shape[2]
    evicts, window = attributes.get("sliding_window_cache"), attributes.get("local_window_size", 0)
    used = [inputs[0].shape[1]] * len(ends) if inputs[PADDED] is None else inputs[PADDED]
    for fixed, threads in ((False, 1), (True, 1), (False, 3)):
        got = run_op("GroupQueryAttention", inputs, attributes, outputs=3, fixed=fixed, threads=threads, **HOW)
        for b, end in enumerate(ends):
            keys = resident(int(end), room, window) if evicts else end
            np.testing.assert_allclose(got[0][b, : used[b]], want[0][b, : used[b]], rtol=1e-4, atol=atol)
            for k in (1, 2):
                np.testing.assert_allclose(got[k][b, :, :keys], want[k][b, :, :keys], rtol=1e-5, atol=1e-6)
        assert [x.shape for x in got] == [x.shape for x in want]


CHUNKS = [
    (4, 16, [7, 3], 8, [4, 3]),
    (4, 16, [7, 3, 16], 16, [2, 0, 4]),
    (4, 6, [7, 3], 9, [3, 3]),
    (1, 8, [3, 3], 8, [1, 0]),
    (20, 32, [20, 11], 20, [20, 11]),
    (150, 330, [190, 70], 200, [20, 70]),
]
"""Rows, room of the past, keys, total_sequence_length, and rows that are no padding."""


@pytest.mark.parametrize("case", CHUNKS, ids=str)
@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 3, "softcap": 2.0}], ids=str)
def test_chunks_with_padding(case: Any, attributes: dict[str, Any]) -> None:
    check(operands(*case), **attributes)
    check(rotated(operands(*case)), do_rotary=1, **attributes)


def test_positions_and_biases_of_chunks() -> None:
    inputs = rotated(operands(4, 16, [7, 3], 8, [2, 3]), np.array([[9, 2, 1000, 1000], [0, 5, 3, -4]]))
    inputs[10] = draw(2, HEADS, 4, 8)
    inputs[11] = draw(HEADS)
    check(inputs, do_rotary=1)


WINDOWS = [
    (1, 8, [9, 7, 8, 30], 30, []),
    (12, 8, [12, 12], 12, []),
    (4, 8, [13], 13, []),
    (4, 8, [12, 3, 8], 12, [3, 3, 0]),
    (20, 8, [33, 20, 4], 40, [19, 20, 4]),
    (1, 8, [9, 9, 1], 9, [1, 0, 1]),
]
"""As CHUNKS; the past is a window."""


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@pytest.mark.parametrize("window", [8, 6, 1])
def test_windows(case: Any, window: int) -> None:
    attributes = {"sliding_window_cache": 1, "local_window_size": window}
    check(operands(*case), **attributes)
    inputs = rotated(operands(*case))
    rows, total = case[0], case[3]
    inputs[10], inputs[11] = draw(1, HEADS, rows, total), draw(HEADS)
    check(inputs, do_rotary=1, **attributes)
    inputs[10] = draw(len(case[2]), 1, rows, total)
    check(inputs, do_rotary=1, **attributes)


@pytest.mark.parametrize("case", WINDOWS[:5], ids=str)
def test_float16_in_windows_and_chunks(case: Any) -> None:
    for rows, attributes in ((case, {"sliding_window_cache": 1, "local_window_size": 6}), (CHUNKS[0], {})):
        inputs = [x.astype(np.float16) if x is not None and x.dtype == np.float32 else x for x in operands(*rows)]
        check(inputs, atol=2e-3, **attributes)


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 4, 20])
def test_codes_in_windows_and_chunks(rows: int, bits: int, kind: str) -> None:
    inputs, attributes = coded(operands(rows, 8, [27, 20], 27, [rows, rows - 1]), bits, kind)
    check(inputs, atol=0.05, sliding_window_cache=1, local_window_size=6, **attributes)  # onnxruntime may multiply codes
    inputs, attributes = coded(operands(rows, 32, [27, 20], 27, [rows, rows - 1]), bits, kind)
    check(inputs, atol=0.05, **attributes)


@pytest.mark.parametrize("bits", [0, 8])
def test_steps_of_any_size_leave_the_same_window(bits: int) -> None:
    """The layout depends on the number of keys alone. One session runs steps of one row and of several."""
    room, window, count = 7, 5, 23
    whole, codes = operands(count, room, [count], count), dict[str, Any]()
    if bits:
        whole, codes = coded(whole, bits, "PER_CHANNEL")
    session = windowed_session(whole, {"sliding_window_cache": 1, "local_window_size": window, **codes})
    outcomes = []
    for sizes in ([1] * count, [4, 9, 1, 9], [count]):
        past, end, rows = whole[3:5], 0, []
        for size in sizes:
            part = slice(end, end + size)
            end += size
            last = [np.array([end - 1], np.int32), np.array(end, np.int32)]
            inputs = [*(x[:, part] for x in whole[:3]), *past, *last, *whole[7:10], draw(1, 1, count, count)[:, :, part, :end]]
            feeds = {f"in{k}": x for k, x in enumerate([*inputs, *whole[11:]]) if x is not None}
            y, *past = session.run(None, feeds)
            rows.append(y)
        kept = resident(end, room, window)
        outcomes.append([np.concatenate(rows, 1), *(x[:, :, :kept] for x in past)])
    for other in outcomes[1:]:
        for got, want in zip(other, outcomes[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def windowed_session(inputs: list[Any], attributes: dict[str, Any]) -> ort_lite.InferenceSession:
    """Return a session of one node with a bias, whose numbers of rows and keys are open."""
    named = {f"in{k}": x for k, x in enumerate(inputs) if x is not None} | {"in10": draw(1, 1, 1, 1)}
    names = [f"in{k}" if f"in{k}" in named else "" for k in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, to_onnx(from_numpy(x.dtype)), [f"{name}_{axis}" for axis in range(x.ndim)])
        for name, x in named.items()
    ]
    types = ["float32", inputs[3].dtype, inputs[3].dtype]
    results = [helper.make_tensor_value_info(f"out{k}", to_onnx(from_numpy(np.dtype(x))), None) for k, x in enumerate(types)]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["out0", "out1", "out2"],
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        **attributes,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, results), opset_imports=imports, ir_version=10)
    return ort_lite.InferenceSession(model)


@pytest.mark.parametrize("case", [(1, 9, [9], 9), (3, 9, [9], 9), (1, 12, [9, 7], 9), (3, 9, [7], 7), (9, 9, [9], 9)], ids=str)
def test_caches_of_another_layer(case: tuple[int, int, list[int], int]) -> None:
    """New keys and values of no rows leave the cache as it is."""
    check(operands(*case, fresh=0))
    check(rotated(operands(*case, fresh=0)), do_rotary=1, local_window_size=4)
    inputs, attributes = coded(operands(*case, fresh=0), 8, "PER_TENSOR")
    check(inputs, atol=0.05, **attributes)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ((4, 16, [7, 3], 8, [5, 3]), r"query_seqlens 5 at position 0 of 'in16' is out of range \[0, 4\]"),
        ((4, 16, [7, 3], 8, [4, 4]), r"query_seqlens 4 at position 1 of 'in16' is out of range \[0, 3\]"),
        ((4, 16, [7, 3], 8, [4, -1]), "query_seqlens -1 at position 1"),
        ((4, 16, [9, 3], 8, [4, 1]), "the last key 8 at position 0 of 'in5'"),
        ((4, 8, [7, 3], 8, [2, 3]), "query_seqlens 2 at position 0 .* leaves 5 earlier ones: the cache has room for 8"),
    ],
)
def test_chunks_that_do_not_fit(case: Any, message: str) -> None:
    with pytest.raises(RuntimeException, match=message):
        run_op("GroupQueryAttention", operands(*case), {"num_heads": HEADS, "kv_num_heads": KV_HEADS}, outputs=3, **HOW)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (operands(4, 16, [4], 4, fresh=2), {}, "2 new rows of keys for 4 rows of queries"),
        (operands(4, 16, [4], 4, [4], fresh=0), {}, "0 new rows of keys for 4 rows of queries"),
        (operands(4, 16, [4], 3, [4]), {}, "total_sequence_length is 3"),
        (operands(4, 16, [7], 8, [4, 4]), {}, "query_seqlens, .* is 2[,;] it should be 1|query_seqlens, .* is 2, but B is 1"),
        (operands(1, 6, [9], 9), {"sliding_window_cache": 1, "local_window_size": 8}, "has 6 rows, local_window_size is 8"),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_sizes_that_do_not_fit(inputs: list[Any], attributes: dict[str, Any], message: str, fixed: bool) -> None:
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}
    with pytest.raises(InvalidArgument, match=message):
        run_op("GroupQueryAttention", inputs, attributes, outputs=3, fixed=fixed, **HOW)


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({}, {"sliding_window_cache": 1}, "sliding_window_cache without local_window_size"),
        ({}, {"sliding_window_cache": 1, "local_window_size": 4, "qk_output": 1}, "the scores of a sliding_window_cache"),
        ({}, {"local_window_size": 4, "causal": 0}, "local_window_size without causal"),
        (dict.fromkeys((3, 4)), {"sliding_window_cache": 1, "local_window_size": 4}, "sliding_window_cache without .* a past"),
        ({PADDED: np.array([1], np.int32)}, {"causal": 0}, "query_seqlens without a past or causal"),
        ({PADDED: np.array([1], np.int32), 3: None, 4: None}, {}, "query_seqlens without a past or causal"),
    ],
)
def test_forms_that_are_rejected(changes: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    inputs = [changes.get(k, x) for k, x in enumerate(operands(1, 8, [8], 8))]
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}
    with pytest.raises(NotSupported, match=message):
        run_op("GroupQueryAttention", inputs, attributes, outputs=4 if "qk_output" in attributes else 3, **HOW)
