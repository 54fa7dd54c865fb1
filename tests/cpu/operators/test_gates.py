"""The gates of language models in com.microsoft, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

TYPES = ("float32", "float16")
TOLERANCES = {"float32": 2e-6, "float16": 2e-3}
"""By element type. onnxruntime rounds some intermediate results to 16 bits, and sums in another order."""


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def check(op_type: str, *inputs: Array | None, outputs: int = 1, **attributes: Any) -> None:
    """Compare with onnxruntime."""
    assert inputs[0] is not None
    dtype = inputs[0].dtype.name
    want = ort_op(op_type, inputs, attributes, outputs=(dtype,) * outputs, **HOW)
    tolerance = TOLERANCES[dtype]
    check_op(op_type, *inputs, expected=want, outputs=outputs, rtol=tolerance, atol=tolerance, **attributes, **HOW)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 5), (0, 4)])
def test_gated_add(lead: tuple[int, ...], dtype: str) -> None:
    x, y = draw(*lead, 7, dtype=dtype), draw(*lead, 7, dtype=dtype, seed=1)
    check("GatedAdd", x, y, draw(*lead, 1, dtype=dtype))


def test_weights_of_the_gate_are_rejected() -> None:
    with pytest.raises(NotSupported, match="gate_weight"):
        run_op("GatedAdd", [draw(2, 4), draw(2, 4), draw(2, 3), draw(3, 1)], {}, outputs=1, **HOW)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", [{}, {"activation": "swish"}, {"activation": "sigmoid", "epsilon": 1e-3}])
@pytest.mark.parametrize(("shape", "size"), [((2, 3, 24), 8), ((5, 17), 17), ((9,), 3), ((0, 8), 4)])
def test_gated_rms_norm(shape: tuple[int, ...], size: int, activation: dict[str, Any], dtype: str) -> None:
    check("GatedRMSNorm", draw(*shape, dtype=dtype), draw(size, dtype=dtype), draw(*shape, dtype=dtype, seed=1), **activation)


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_gated_rms_norm_of_what_is_not_finite(activation: str) -> None:
    x = np.array([[-2.8e30, 1, 2, -2.8e30], [3, -3e38, 1, np.inf], [-np.inf, 1, 2, np.nan]], np.float32)
    check("GatedRMSNorm", x, draw(4), x, activation=activation)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [None, (12,), (3, 4), (4,)])
@pytest.mark.parametrize(("shape", "attributes"), [((2, 5, 3, 4), {}), ((2, 5, 12), {"num_branches": 3, "epsilon": 1e-2})])
def test_branchwise_rms_norm(shape: Any, attributes: Any, scale: Any, dtype: str) -> None:
    check("BranchwiseRMSNorm", draw(*shape, dtype=dtype), None if scale is None else draw(*scale, dtype=dtype), **attributes)


def test_scale_of_another_type() -> None:
    check("BranchwiseRMSNorm", draw(2, 3, 4, dtype="float16"), draw(3, 4))
    check("ScaledSiLU", draw(2, 3, dtype="float16"), np.array(1.5, np.float32))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (37,), (2, 3, 5), (0, 3)])
def test_scaled_silu(shape: tuple[int, ...], dtype: str) -> None:
    x = np.asarray(4 * draw(*shape), dtype)
    check("ScaledSiLU", x)
    check("ScaledSiLU", x, alpha=0.3)
    check("ScaledSiLU", x, np.array(1.7, dtype), alpha=0.3)


@pytest.mark.parametrize("dtype", TYPES)
def test_silu_of_extremes(dtype: str) -> None:
    check("ScaledSiLU", np.array([0, -0.0, 60, -60, 300, -300, np.nan, np.inf], dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 5, 3), (7,), (1, 0, 4)])
def test_linear_attention_gate(shape: tuple[int, ...], dtype: str) -> None:
    a, b = (30 * draw(*shape)).astype(dtype), draw(*shape, dtype=dtype, seed=1)
    bias, scale = draw(shape[-1]), draw(shape[-1], seed=2)
    check("LinearAttentionGate", a, bias, scale)
    check("LinearAttentionGate", a, bias, scale, b, outputs=2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("x", "gate", "attributes"),
    [
        ((2, 5, 3, 4), (2, 5, 3), {}),
        ((2, 5, 3, 4), (2, 5, 3, 1), {"reduction_scale": 0.5}),
        ((2, 5, 3, 4), (2, 5, 3, 4), {}),
        ((2, 5, 12), (2, 5, 12), {"num_branches": 3}),
        ((2, 5, 12), (2, 5, 3), {"num_branches": 3}),
        ((6, 3, 1), (6, 3), {}),
        ((0, 3, 4), (0, 3), {}),
    ],
)
def test_pre_mix(x: Any, gate: Any, attributes: Any, dtype: str) -> None:
    check("HyperConnectionPreMix", draw(*x, dtype=dtype), draw(*gate, dtype=dtype), **attributes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(
    ("x", "gate", "attributes"),
    [
        ((2, 5, 3, 4), (2, 5, 3), {}),
        ((2, 5, 3, 4), (2, 5, 3, 1), {}),
        ((2, 5, 3, 4), (2, 5, 3, 4), {}),
        ((2, 5, 12), (2, 5, 3), {"num_branches": 3}),
    ],
)
def test_post_mix(x: Any, gate: Any, attributes: Any, mixed: bool, dtype: str) -> None:
    mix = draw(2, 5, 3, 3, dtype=dtype) if mixed else None
    check(
        "HyperConnectionPostMix", draw(*x, dtype=dtype), draw(2, 5, 4, dtype=dtype), draw(*gate, dtype=dtype), mix, **attributes
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 3, 2, 16), (1, 1, 4, 7), (2, 0, 2, 4)])
def test_engram_gate(shape: tuple[int, int, int, int], dtype: str) -> None:
    batch, steps, count, n = shape
    key, query = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype, seed=1)
    value, *scales = draw(batch, steps, n, dtype=dtype), *(draw(count, n, dtype=dtype, seed=k) for k in range(3))
    check("EngramGate", key, query, value, *scales[:2])
    check("EngramGate", key, query, value, *scales, outputs=2, epsilon=1e-3)
    check("EngramGate", key, -key, 0 * value, *scales, outputs=2)
