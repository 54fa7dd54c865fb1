"""GatedDeltaNet, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

TOKENS, HEADS, OUTS, SIZE, WIDTH = 6, 2, 4, 3, 5
OFFSETS = np.array([0, 2, 6], np.int32)


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def operands(rule: str, dtype: str = "float32", *, packed: bool = False, fades: tuple[int, ...] = ()) -> list[Array | None]:
    """Return the inputs up to the state."""
    q, k, v = (draw(TOKENS, HEADS, SIZE, dtype=dtype, seed=s) for s in (0, 1)), None, None
    query, key = q
    value = draw(TOKENS, OUTS, WIDTH, dtype=dtype)
    heads: list[Array | None] = [query, key, value]
    if packed:
        heads = [np.concatenate([x.reshape(TOKENS, -1) for x in (query, key, value)], -1), k, v]
    decay = -abs(draw(TOKENS, OUTS, *fades, dtype=dtype)) if "gated" in rule else None
    beta = abs(draw(TOKENS, OUTS, dtype=dtype)) / 2 if "delta" in rule else None
    return [*heads, OFFSETS, decay, beta, draw(2, OUTS, WIDTH, SIZE)]


def check(inputs: list[Array | None], outputs: int = 2, **attributes: Any) -> None:
    assert inputs[0] is not None
    dtype = inputs[0].dtype.name
    kinds = (dtype, "float32", "float32")[:outputs]
    want = ort_op("GatedDeltaNet", inputs, attributes, outputs=kinds, **HOW)
    how: dict[str, Any] = {"rtol": 4e-3, "atol": 4e-3} if dtype == "float16" else {"rtol": 1e-5, "atol": 1e-5}
    check_op("GatedDeltaNet", *inputs, expected=want, outputs=outputs, **how, **attributes, **HOW)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_rules(rule: str, packed: bool, dtype: str) -> None:
    check(operands(rule, dtype, packed=packed), update_rule=rule, qk_l2_norm=1)
    check(operands(rule, dtype, packed=packed), update_rule=rule, scale=0.3)


@pytest.mark.parametrize("gate", ["none", "softplus", "qwen", "sigmoid", "kda"])
def test_short_keys_are_divided_by_more_than_their_norm(gate: str) -> None:
    """onnxruntime adds 1e-6 to the sum of squares where the gate is a sigmoid, else 1e-12."""
    inputs = operands("gated_delta")
    assert inputs[1] is not None
    inputs[1] *= np.float32(1e-3)
    check(inputs if gate == "none" else [*inputs, draw(OUTS), draw(OUTS)], qk_l2_norm=1, gate_activation=gate)


@pytest.mark.parametrize("fades", [(), (SIZE,)])
@pytest.mark.parametrize("gate", ["softplus", "qwen", "sigmoid", "kda"])
@pytest.mark.parametrize("bias", [(OUTS,), (OUTS, SIZE), (OUTS * SIZE,)])
def test_gates(bias: tuple[int, ...], gate: str, fades: tuple[int, ...]) -> None:
    if len(bias) + bias[0] > 1 + OUTS and not fades:
        bias = (OUTS,)
    inputs = [*operands("gated_delta", fades=fades), draw(OUTS), draw(*bias)]
    check(inputs, gate_activation=gate, beta_activation="sigmoid", gate_lower_bound=-3.0)


def test_uniform_requests_and_ranks() -> None:
    inputs = operands("gated_delta")
    inputs[3] = None
    check(inputs)
    check([None if x is None else x if k == 6 else x.reshape(2, 3, *x.shape[1:]) for k, x in enumerate(inputs)])


def test_without_state_and_with_empty_requests() -> None:
    inputs = operands("gated_delta")
    check([*inputs[:6], None])
    inputs[3] = np.array([0, 0, 6], np.int32)
    check(inputs)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("fades", [(), (SIZE,)])
def test_captured_steps(fades: tuple[int, ...], packed: bool) -> None:
    inputs = [*operands("gated_delta", fades=fades, packed=packed), None, None, np.array([2, 3], np.int32)]
    check(inputs, 3, state_update_capacity=2)
    check([*inputs, np.array([0], np.int32)], 3, state_update_capacity=3)


@pytest.mark.parametrize("offsets", [(0, 4, 3, 6), (0, 4, 5), (1, 6), (0, 70, 6)])
def test_offsets_that_are_no_requests(offsets: tuple[int, ...]) -> None:
    inputs = operands("gated_delta")
    inputs[3], inputs[6] = np.array(offsets, np.int32), None
    with pytest.raises(InvalidArgument, match="of 6 tokens; expected ranges in order"):
        run_op("GatedDeltaNet", inputs, {}, outputs=2, **HOW)


@pytest.mark.parametrize(
    ("rule", "attributes", "message"),
    [
        ("linear", {"update_rule": "gated"}, "decay is missing"),
        ("delta", {"update_rule": "linear"}, "beta is not for"),
        ("gated_delta", {"gate_activation": "softplus"}, "without a_log"),
        ("gated_delta", {"state_update_capacity": 2}, "without capture_count"),
        ("gated_delta", {"update_rule": "other"}, "update_rule 'other'"),
    ],
)
def test_what_is_rejected(rule: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("GatedDeltaNet", operands(rule), attributes, outputs=2, **HOW)
