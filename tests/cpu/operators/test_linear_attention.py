"""LinearAttention and CausalConvWithState, of both domains."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

MICROSOFT = "com.microsoft"
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
SIZE, WIDTH = 3, 70
LAYOUTS = (
    "state_channels_last",
    "state_length",
    "state_update_capacity",
    "input_channels",
    "input_channel_offset",
)
"""Attributes of com.microsoft's CausalConvWithState that ask for another order in memory."""


def operands(heads: int, kv_heads: int, steps: int = 4) -> list[Array]:
    widths = heads * SIZE, kv_heads * SIZE, kv_heads * WIDTH
    return [ramp((2, steps, width), low=-0.5, high=0.5) for width in widths]


def gates(rule: str, kv_heads: int, each: bool, steps: int = 4) -> list[Array | None]:
    decay = ramp((2, steps, kv_heads * (SIZE if each else 1)), low=-1, high=0) if "gated" in rule else None
    beta = ramp((2, steps, kv_heads if each else 1), low=0, high=1) if "delta" in rule else None
    return [decay, beta]


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (3, 1)], ids=str)
@pytest.mark.parametrize("each", [False, True])
def test_every_rule_matches_the_reference(rule: str, heads: tuple[int, int], each: bool) -> None:
    past = ramp((2, heads[1], SIZE, WIDTH)) if each else None
    attributes: dict[str, Any] = {"update_rule": rule, "q_num_heads": heads[0], "kv_num_heads": heads[1], "outputs": 2}
    inputs = [*operands(*heads), past, *gates(rule, heads[1], each)]
    check_op("LinearAttention", *inputs, opset=27, **attributes, **TOLERANCE)


def test_a_scale_and_a_single_step() -> None:
    inputs = [*operands(2, 2, steps=1), None, *gates("gated_delta", 2, True, steps=1)]
    check_op("LinearAttention", *inputs, opset=27, scale=0.7, q_num_heads=2, kv_num_heads=2, **TOLERANCE)


@pytest.mark.parametrize("heads", [(2, 4, 4), (2, 2, 4), (2, 1, 4), (4, 2, 4), (4, 1, 2)], ids=str)
def test_microsofts_may_have_fewer_queries_or_keys_than_values(heads: tuple[int, int, int]) -> None:
    queries, keys, values = heads
    own = [operands(queries, values)[0], operands(queries, keys)[1], operands(queries, values)[2]]
    inputs = [*own, ramp((2, values, SIZE, WIDTH)), *gates("gated_delta", values, True)]
    attributes: dict[str, Any] = {"q_num_heads": queries, "kv_num_heads": values}
    want = ort_op("LinearAttention", inputs, attributes, opset=1, domain=MICROSOFT, outputs=["float32"] * 2)
    check_op("LinearAttention", *inputs, domain=MICROSOFT, opset=1, outputs=2, expected=want, **attributes, **TOLERANCE)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta"])
def test_inputs_that_the_rule_does_not_use_are_ignored(rule: str) -> None:
    inputs = [*operands(2, 2), ramp((2, 2, SIZE, WIDTH)), *gates("gated_delta", 2, False)]
    attributes: dict[str, Any] = {"update_rule": rule, "q_num_heads": 2, "kv_num_heads": 2}
    want = ort_op("LinearAttention", inputs, attributes, opset=1, domain=MICROSOFT, outputs=["float32"] * 2)
    check_op("LinearAttention", *inputs, domain=MICROSOFT, opset=1, outputs=2, expected=want, **attributes, **TOLERANCE)
    alone = [
        x if x is None or used else None for x, used in zip(inputs, (1, 1, 1, 1, rule == "gated", rule == "delta"), strict=True)
    ]
    check_op(
        "LinearAttention",
        *inputs,
        opset=27,
        outputs=2,
        expected=run_op("LinearAttention", alone, attributes, opset=27, outputs=2),
        **attributes,
    )


def test_keys_without_numbers_leave_zeros() -> None:
    inputs = [np.zeros((2, 4, 0), np.float32)] * 2 + [ramp((2, 4, 2 * WIDTH))]
    attributes: dict[str, Any] = {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2, "scale": 1.0}
    y, state = run_op("LinearAttention", inputs, attributes, opset=27, outputs=2)
    assert y.shape == (2, 4, 2 * WIDTH) and not y.any() and state.shape == (2, 2, 0, WIDTH)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("columns", "message"),
    [(3 * SIZE, "3 heads of keys for 4 of values"), (8 * SIZE, "8 heads of keys"), (SIZE + 1, "4 columns of keys do not make")],
)
def test_heads_of_keys_that_do_not_fit_are_refused(columns: int, message: str, fixed: bool) -> None:
    own = operands(2, 4)
    inputs = [own[0], ramp((2, 4, columns)), own[2], None, *gates("gated_delta", 4, True)]
    with pytest.raises(InvalidArgument, match=message):
        run_op("LinearAttention", inputs, {"q_num_heads": 2, "kv_num_heads": 4}, opset=1, domain=MICROSOFT, fixed=fixed)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"update_rule": "other"}, "update_rule 'other'"),
        ({"update_rule": "gated"}, "decay is missing"),
        ({"update_rule": "delta"}, "beta is missing"),
        ({"update_rule": "linear", "kv_num_heads": 3}, "2 heads of queries for 3 of keys"),
        ({"update_rule": "linear", "q_num_heads": -2, "kv_num_heads": -2}, "-2 heads of queries for -2 of keys"),
    ],
    ids=str,
)
def test_what_no_rule_says_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("LinearAttention", operands(2, 2), {"q_num_heads": 2, "kv_num_heads": 2, **attributes}, opset=27)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_state_may_have_another_type_than_the_queries(dtype: str) -> None:
    past = ramp((2, 2, SIZE, WIDTH)).astype(to_numpy(dtype))
    attributes: dict[str, Any] = {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2}
    inputs = operands(2, 2)
    y, state = run_op("LinearAttention", [*inputs, past], attributes, opset=27, outputs=2)
    want_y, want = run_op("LinearAttention", [*inputs, past.astype(np.float32)], attributes, opset=27, outputs=2)
    assert np.array_equal(y, want_y)
    assert state.dtype == past.dtype
    assert np.array_equal(state, want.astype(past.dtype))


@pytest.mark.parametrize("length", [1, 3, 20])
@pytest.mark.parametrize("taps", [1, 4])
@pytest.mark.parametrize("past", [False, True])
def test_convolutions_go_on_from_their_state(length: int, taps: int, past: bool) -> None:
    inputs = [ramp((2, 3, length)), ramp((3, 1, taps)), ramp((3,)) if past else None, ramp((2, 3, taps - 1)) if past else None]
    check_op("CausalConvWithState", *inputs, opset=27, outputs=2, **TOLERANCE)
    check_op("CausalConvWithState", *inputs, opset=27, activation="silu", **TOLERANCE)


@pytest.mark.parametrize("length", [1, 9])
def test_microsofts_convolutions_may_be_dilated(length: int) -> None:
    inputs, attributes = (
        [ramp((2, 3, length)), ramp((3, 1, 4)), ramp((3,)), ramp((2, 3, 6))],
        {"dilation": 2, "activation": "swish"},
    )
    want = ort_op("CausalConvWithState", inputs, attributes, opset=1, domain=MICROSOFT, outputs=["float32"] * 2)
    how: dict[str, Any] = {"domain": MICROSOFT, "opset": 1, "outputs": 2, **TOLERANCE}
    check_op("CausalConvWithState", *inputs, expected=want, **attributes, **how)


@pytest.mark.parametrize("last", [0, 1])
def test_weights_that_are_not_finite_meet_the_zeros_before_the_first_step(last: int) -> None:
    """As in Conv, whose padding is multiplied."""
    x, w = ramp((1, 7, 2) if last else (1, 2, 7)), np.array([[[np.nan, 1, 2]], [[1, np.inf, 2]]], np.float32)
    want = ort_op("CausalConvWithState", [x, w], {"channels_last": last}, opset=1, domain=MICROSOFT, outputs=["float32"] * 2)
    assert np.all(np.isnan(np.moveaxis(want[0], 2 if last else 1, 1)[0, 0]))
    check_op("CausalConvWithState", x, w, expected=want, domain=MICROSOFT, opset=1, outputs=2, channels_last=last)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("length", [1, 4, 9])
@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("past", [False, True])
def test_channels_may_come_last(past: bool, taps: int, dilation: int, length: int, dtype: str) -> None:
    inputs = [ramp((2, length, 5), dtype), ramp((5, 1, taps), dtype), ramp((5,), dtype) if past else None]
    inputs.append(ramp((2, (taps - 1) * dilation, 5), dtype) if past else None)
    attributes = {"channels_last": 1, "dilation": dilation, "activation": "silu" if past else "none"}
    want = ort_op("CausalConvWithState", inputs, attributes, opset=1, domain=MICROSOFT, outputs=[dtype] * 2)
    how: dict[str, Any] = {"domain": MICROSOFT, "opset": 1, "outputs": 2, "constants": [1]}
    how |= TOLERANCE if dtype == "float32" else {"rtol": 2e-3, "atol": 2e-3}
    check_op("CausalConvWithState", *inputs, expected=want, **attributes, **how)


@pytest.mark.parametrize(
    ("attributes", "outputs", "message"),
    [
        ({"channels_last": 2}, 2, "channels_last 2"),
        *(({name: 1 + (name == "state_length")}, 2, f"{name} [12]") for name in LAYOUTS),
        *(({"dilation": dilation}, 2, f"dilation {dilation}") for dilation in (-1, 0, 2**62)),
        ({"activation": "relu"}, 2, "activation 'relu'"),
        ({}, 3, "an output state_update"),
    ],
    ids=str,
)
def test_convolutions_that_are_refused(attributes: dict[str, Any], outputs: int, message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op(
            "CausalConvWithState", [ramp((2, 3, 9)), ramp((3, 1, 5))], attributes, domain=MICROSOFT, opset=1, outputs=outputs
        )


def test_a_state_of_no_rows_is_there() -> None:
    [_, state] = run_op("CausalConvWithState", [ramp((2, 3, 9)), ramp((3, 1, 1))], {}, opset=27, outputs=2)
    assert state.shape == (2, 3, 0)
    assert state.dtype == np.float32


# --- What a model may bring
def linear(changes: dict[int, Array | None], **more: Any) -> None:
    inputs = [*operands(2, 2), ramp((2, 2, SIZE, WIDTH)), *gates("gated_delta", 2, True)]
    inputs = [changes.get(k, x) for k, x in enumerate(inputs)]
    run_op("LinearAttention", inputs, {"q_num_heads": 2, "kv_num_heads": 2}, opset=27, **more)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({4: ramp((2, 4, 4))}, "decay, .* is 4[,;] it should be 2 or 6"),
        ({4: ramp((2, 3, 2))}, "decay, .* is 3, but T is 4"),
        ({5: ramp((2, 4, 3))}, "beta, .* is 3[,;] it should be 1 or 2"),
        ({5: ramp((1, 4, 2))}, "beta, .* is 1, but B is 2"),
        ({3: ramp((2, 2, SIZE, 7))}, r"value, .* is 140, but kv_num_heads\*F is 14"),
        ({2: ramp((2, 3, 2 * WIDTH))}, "value, .* is 3, but T is 4"),
        ({1: ramp((2, 4, 2 * SIZE + 1))}, r"key, .* is 7, but kv_num_heads\*E is 6"),
    ],
)
def test_operands_that_do_not_fit_are_refused(changes: dict[int, Array | None], message: str, fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=message):
        linear(changes, fixed=fixed)


@pytest.mark.parametrize("fixed", [False, True])
def test_states_and_biases_of_convolutions_that_do_not_fit_are_refused(fixed: bool) -> None:
    inputs = [ramp((2, 3, 9)), ramp((3, 1, 4))]
    with pytest.raises(InvalidArgument, match=r"weight, .* is 2, but C is 3"):
        run_op("CausalConvWithState", [inputs[0], ramp((2, 1, 4))], {}, opset=27, fixed=fixed)
    with pytest.raises(InvalidArgument, match=r"bias, .* is 2, but C is 3"):
        run_op("CausalConvWithState", [*inputs, ramp((2,))], {}, opset=27, fixed=fixed)
    with pytest.raises(InvalidArgument, match=r"past_state, .* is 2, but K-1 is 3"):
        run_op("CausalConvWithState", [*inputs, None, ramp((2, 3, 2))], {}, opset=27, fixed=fixed)
