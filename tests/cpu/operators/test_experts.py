"""MoE and QMoE of com.microsoft, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) / 2).astype(dtype)


def check(op_type: str, *inputs: Array | None, tolerance: float = 2e-5, **attributes: Any) -> None:
    """Compare with onnxruntime."""
    assert inputs[0] is not None
    dtype = inputs[0].dtype.name
    want = ort_op(op_type, inputs, attributes, outputs=(dtype,), **HOW)
    tolerance = tolerance if dtype == "float32" else 4e-3
    check_op(op_type, *inputs, expected=want, rtol=tolerance, atol=tolerance, **attributes, **HOW)


ACTIVATIONS: list[dict[str, Any]] = [
    {},
    {"activation_type": "gelu"},
    {"activation_type": "silu"},
    {"activation_type": "identity"},
    {"activation_type": "swiglu", "swiglu_fusion": 1},
    {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.5},
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("attributes", ACTIVATIONS)
@pytest.mark.parametrize(("lead", "k", "normalize"), [((1,), 2, 1), ((2, 19), 1, 0), ((33,), 4, 0), ((2, 8), 3, 1)])
def test_moe(lead: tuple[int, ...], k: int, normalize: int, attributes: dict[str, Any], dtype: str) -> None:
    experts, hidden, inter = 4, 24, 15
    fused = 2 if attributes.get("activation_type") == "swiglu" else 1
    x, router = draw(*lead, hidden, dtype=dtype), draw(int(np.prod(lead)), experts, dtype=dtype)
    first, second = draw(experts, fused * inter, hidden, dtype=dtype), draw(experts, hidden, inter, dtype=dtype)
    b1, b2 = draw(experts, fused * inter, dtype=dtype), draw(experts, hidden, dtype=dtype)
    biases = (b1, b2) if k > 1 else (None, None)
    how = {"k": k, "normalize_routing_weights": normalize, **attributes}
    check("MoE", x, router, first, biases[0], second, biases[1], **how)


FORMS: list[tuple[int, int, int]] = [
    (8, 0, 0),
    (8, 0, 1),
    (8, 16, 0),
    (8, 16, 1),
    (4, 0, 0),
    (4, 0, 1),
    (4, 16, 0),
    (4, 32, 1),
    (2, 0, 1),
    (2, 16, 1),
]


def draw_codes(experts: int, n: int, k: int, bits: int, size: int, zeros: int, dtype: str) -> tuple[Array, Array, Array | None]:
    """Draw weights, scales and zero points, those of blocks for each row, otherwise for each expert."""
    random = np.random.default_rng([bits, n, k])
    weights = random.integers(0, 256, (experts, n, k * bits // 8), dtype=np.uint8)
    blocks = -(-k // size) if size else 1
    scales = (random.uniform(0.5, 1, (experts, n, *((blocks,) if size else ()))) / 2**bits).astype(dtype)
    shape = (experts, n, -(-blocks * bits // 8)) if size else (experts, -(-n * bits // 8))
    return weights, scales, random.integers(0, 256, shape, dtype=np.uint8) if zeros else None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("bits", "size", "zeros"), FORMS)
@pytest.mark.parametrize("attributes", ACTIVATIONS[2:5])
def test_qmoe(bits: int, size: int, zeros: int, attributes: dict[str, Any], dtype: str) -> None:
    experts, hidden, inter, tokens = 4, 96, 64, 11
    fused = 2 if attributes.get("activation_type") == "swiglu" else 1
    x, router = draw(tokens, hidden, dtype=dtype), draw(tokens, experts, dtype=dtype)
    first = draw_codes(experts, fused * inter, hidden, bits, size, zeros, dtype)
    second = draw_codes(experts, hidden, inter, bits, size, zeros, dtype)
    b1, b2 = draw(experts, fused * inter, dtype=dtype), draw(experts, hidden, dtype=dtype)
    how = {"k": 2, "expert_weight_bits": bits, **({"block_size": size} if size else {}), **attributes}
    inputs = [x, router, *first[:2], b1, *second[:2], b2, None, None, None, first[2], second[2]]
    check("QMoE", *inputs, tolerance=2e-4, **how)


@pytest.mark.parametrize("normalize", [0, 1])
def test_shares_of_their_own(normalize: int) -> None:
    x, router, shares = draw(1, 5, 32), draw(5, 3), np.abs(draw(5, 3, seed=1))
    shares[2] = 0
    first, second = draw_codes(3, 16, 32, 8, 0, 0, "float32"), draw_codes(3, 32, 16, 8, 0, 0, "float32")
    inputs = [x, router, *first[:2], None, *second[:2], *[None] * 7, shares]
    check("QMoE", *inputs, k=2, expert_weight_bits=8, normalize_routing_weights=normalize, activation_type="silu")


REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"activation_type": "relu2"}, "activation_type 'relu2'"),
    ({"activation_type": "swiglu"}, "swiglu without swiglu_fusion 1"),
    ({"activation_type": "geglu", "swiglu_fusion": 2}, "geglu without swiglu_fusion 1"),
    ({"use_sparse_mixer": 1, "k": 1}, "use_sparse_mixer with k 1"),
    ({"swiglu_limit_after_activation": 1}, "swiglu_limit_after_activation"),
]


@pytest.mark.parametrize(("attributes", "reason"), REJECTED)
def test_forms_of_other_devices_are_rejected(attributes: dict[str, Any], reason: str) -> None:
    inputs = [draw(3, 8), draw(3, 2), draw(2, 4, 8), None, draw(2, 8, 4)]
    with pytest.raises(NotSupported, match=reason):
        run_op("MoE", inputs, attributes, outputs=1, **HOW)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gates_of_gelu(dtype: str) -> None:
    """Compare with NumPy: onnxruntime has them for other devices alone."""
    x, router, first, second = draw(5, 8), draw(5, 3), draw(3, 2 * 4, 8, seed=1), draw(3, 8, 4, seed=2)
    inputs = [array.astype(dtype) for array in (x, router, first, second)]
    x, router, first, second = (array.astype(np.float32) for array in inputs)
    inner = np.einsum("tk,enk->ten", x, first)
    gate, value = inner[..., ::2], inner[..., 1::2]
    gelu = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    shares = np.exp(router) / np.exp(router).sum(-1, keepdims=True)
    want = np.einsum("te,ten,ekn->tk", shares, gelu * value, second).astype(dtype)
    how: dict[str, Any] = {"k": 3, "activation_type": "geglu", "swiglu_fusion": 1, **HOW}
    tolerance = 2e-5 if dtype == "float32" else 4e-3
    check_op("MoE", *inputs[:3], None, inputs[3], expected=[want], rtol=tolerance, atol=tolerance, **how)


def test_experts_that_are_too_few() -> None:
    with pytest.raises(InvalidArgument, match="k is 3, with 2 experts"):
        run_op("MoE", [draw(3, 8), draw(3, 2), draw(2, 4, 8), None, draw(2, 8, 4)], {"k": 3}, outputs=1, **HOW)


def test_logits_that_are_not_finite() -> None:
    """A token whose shares are NaN gets no expert, as in onnxruntime."""
    router = draw(4, 3)
    router[1] = np.nan
    router[2, 1] = np.inf
    router[3, :2] = -np.inf
    check("MoE", draw(4, 8), router, draw(3, 4, 8), None, draw(3, 8, 4), None, k=2)


@pytest.mark.parametrize("attributes", ACTIVATIONS)
def test_tokens_that_are_not_finite(attributes: dict[str, Any]) -> None:
    """Relu makes NaN 0 here, as in onnxruntime."""
    fused = 2 if attributes.get("activation_type") == "swiglu" else 1
    x = draw(3, 8)
    x[0, 3], x[1, 2] = np.nan, np.inf
    check("MoE", x, draw(3, 2), draw(2, fused * 4, 8), None, draw(2, 8, 4), None, k=2, **attributes)


def test_equal_logits_go_to_the_last_experts() -> None:
    check("MoE", draw(4, 8), np.zeros((4, 5), np.float32), draw(5, 4, 8), None, draw(5, 8, 4), None, k=2)


def test_no_tokens() -> None:
    (y,) = run_op("MoE", [draw(0, 8), draw(0, 2), draw(2, 4, 8), None, draw(2, 8, 4)], {}, outputs=1, **HOW)
    assert y.shape == (0, 8)
