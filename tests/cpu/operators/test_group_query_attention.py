"""GroupQueryAttention against onnxruntime: prompts, single steps, and several rows behind a past."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
HEADS, KV_HEADS, SIZE = 4, 2, 16
CACHES = [ramp((40, SIZE // 2)), ramp((40, SIZE // 2), low=0)]


def operands(batch: int, rows: int, past: int, lengths: Sequence[int], total: int, packed: bool = False) -> list[Array | None]:
    """Queries, keys, values, their past, one less than the lengths, the longest."""
    widths = [HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * SIZE]
    own: list[Array | None] = [ramp((batch, rows, width)) for width in widths]
    if packed:
        own = [ramp((batch, rows, sum(widths))), None, None]
    cache = [ramp((batch, KV_HEADS, past, SIZE)), ramp((batch, KV_HEADS, past, SIZE), low=0)] if past else [None, None]
    return [*own, *cache, np.array(lengths, np.int32) - 1, np.array(total, np.int32)]


def check(*inputs: Array | None, outputs: int = 3, **attributes: Any) -> None:
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}
    want = ort_op("GroupQueryAttention", inputs, attributes, outputs=["float32"] * outputs, **HOW)
    tolerance = {"rtol": 1e-4, "atol": 2e-5}
    check_op("GroupQueryAttention", *inputs, expected=want, outputs=outputs, **tolerance, **attributes, **HOW)


PROMPT, STEP, LATER = (2, 5, 0, [5, 3], 5), (2, 1, 9, [10, 7], 10), (1, 5, 9, [14], 14)


@pytest.mark.parametrize("case", [PROMPT, STEP, LATER, (2, 5, 12, [5, 5], 5), (2, 1, 16, [10, 7], 10)], ids=str)
@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 3}, {"causal": 0}, {"softcap": 1.5, "scale": 0.3}], ids=str)
def test_prompts_and_steps(case: Any, attributes: dict[str, Any]) -> None:
    check(*operands(*case), **attributes)


@pytest.mark.parametrize("case", [PROMPT, STEP, LATER], ids=str)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotation_by_position(case: Any, packed: bool, interleaved: int) -> None:
    batch, rows, past, lengths, total = case
    check(*operands(batch, rows, past, lengths, total, packed), *CACHES, do_rotary=1, rotary_interleaved=interleaved)


def test_positions_may_be_given() -> None:
    inputs = [*operands(*STEP), *CACHES]
    follow = run_op("GroupQueryAttention", inputs, attributes(do_rotary=1), outputs=2, **HOW)
    ids = np.array([[9], [6]])
    check_op("GroupQueryAttention", *inputs, ids, outputs=2, expected=follow, **attributes(do_rotary=1), **HOW)


@pytest.mark.parametrize("case", [PROMPT, LATER], ids=str)
def test_a_prompt_has_the_first_position_alone_given(case: Any) -> None:
    """The positions of the other rows, and of other sequences, follow from the first one."""
    ids = np.arange(case[0] * case[1]).reshape(case[0], case[1])[:, ::-1] % 5 + 1
    check(*operands(*case), *CACHES, ids, do_rotary=1)


def attributes(**more: Any) -> dict[str, Any]:
    return {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **more}


@pytest.mark.parametrize("case", [PROMPT, STEP], ids=str)
def test_biases_and_sinks(case: Any) -> None:
    rows, total = case[1], case[4]
    nothing = [None] * 3
    check(*operands(*case), *nothing, ramp((1, 1, rows, total)))
    check(*operands(*case), *nothing, ramp((2, HEADS, rows, total)))
    check(*operands(*case), *nothing, None, ramp((HEADS,)))
    for smooth in (1, 0, -1):  # -1, the default, is off
        check(*operands(*case), smooth_softmax=smooth)


@pytest.mark.parametrize("case", [PROMPT, (2, 1, 9, [10, 10], 10), (2, 1, 16, [10, 10], 10)], ids=str)
@pytest.mark.parametrize("stage", [1, 2])
def test_scores_before_and_after_the_softmax(case: Any, stage: int) -> None:
    batch, rows, past, _, total = case
    check(*operands(batch, rows, past, [total] * batch, total), outputs=4, qk_output=stage)


def test_lengths_that_do_not_fit_are_named() -> None:
    message = r"key 10 at position 1 of 'in5' is out of range \[0, 10\): 1 new rows end there"
    with pytest.raises(RuntimeException, match=message):
        run_op("GroupQueryAttention", operands(2, 1, 9, [10, 11], 10), attributes(), outputs=3, **HOW)
    with pytest.raises(InvalidArgument, match=r"seqlens_k, .* is 3, but B is 2"):
        run_op("GroupQueryAttention", operands(2, 5, 0, [5, 5, 5], 5), attributes(), outputs=3, **HOW)


@pytest.mark.parametrize("rows", [2, 5])
def test_lengths_that_a_prompt_cannot_have_are_refused(rows: int) -> None:
    for length in (-1000, -1, rows + 1, 2**31 - 2):
        wild = operands(3, rows, 0, [rows, length + 1, 1], rows)
        with pytest.raises(RuntimeException, match=rf"key {length} at position 1 of 'in5' is out of range \[0, {rows}\)"):
            run_op("GroupQueryAttention", wild, attributes(local_window_size=3), outputs=3, **HOW)


def changed(case: Any, changes: dict[int, Array | None]) -> list[Array | None]:
    inputs = [*operands(*case), *CACHES, *[None] * 8]
    return [changes.get(k, given) for k, given in enumerate(inputs)]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        (
            {3: ramp((2, 1, 9, SIZE)), 4: ramp((2, 1, 9, SIZE))},
            {},
            "past_key, .* is 1, but kv_num_heads is 2|past, .* is 1, but B is 2",
        ),
        ({4: ramp((2, KV_HEADS, 7, SIZE))}, {}, "past_value, .* is 7, but P is 9"),
        ({2: ramp((2, 1, KV_HEADS * 8))}, {}, r"value, .* is 16, but kv_num_heads\*E is 32"),
        ({0: ramp((2, 1, HEADS * SIZE + 1))}, {}, "65 columns do not make 4 heads"),
        ({6: np.array(-3, np.int32), 3: None, 4: None}, {}, "total_sequence_length is -3"),
        (
            {9: np.zeros((2, 2), np.int64)},
            {"do_rotary": 1},
            "position_ids, .* is 2, but S is 1|position_ids, .* is 2[,;] it should be 1",
        ),
        ({7: ramp((40, SIZE)), 8: ramp((40, SIZE))}, {"do_rotary": 1}, "32 of the 16 numbers of a head cannot be rotated"),
        ({11: ramp((HEADS + 1,))}, {}, "head_sink, .* is 5, but num_heads is 4"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[int, Array | None], more: dict[str, Any], message: str, fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_op("GroupQueryAttention", changed(STEP, changes), attributes(**more), outputs=3, fixed=fixed, **HOW)


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, {"kv_cache_bit_width": 8}, "kv_cache_bit_width 8 or scales without k_quant_type"),
        (dict.fromkeys((14, 15), ramp((SIZE,))), {}, "normalisation of queries and keys"),
        ({}, {"qk_output": 7}, "qk_output 7"),
        ({}, {"qk_output": 0}, "qk_output 0"),
        ({2: None}, {}, "keys without values"),
        ({7: None}, {"do_rotary": 1}, "do_rotary without cos_cache and sin_cache"),
        (dict.fromkeys((3, 4), ramp((2, KV_HEADS, 9, SIZE), "float16")), {}, "a past that is not of float32"),
    ],
)
def test_what_no_kernel_takes_is_refused(changes: dict[int, Array | None], more: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("GroupQueryAttention", changed(STEP, changes), attributes(**{"qk_output": 1} | more), outputs=4, **HOW)
