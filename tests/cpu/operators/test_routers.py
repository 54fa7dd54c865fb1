"""MoEGroupRouter, against onnxruntime."""

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op


def logits(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng([*shape]).normal(size=shape).astype(dtype)


def run_model(
    op_type: str, inputs: list[Array], attributes: dict[str, Any], *, constants: list[int], outputs: tuple[str, ...]
) -> list[Any]:
    """Return the outputs of a model of one node, of which some are left out."""
    names = [f"in{k}" for k in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(n, to_onnx(from_numpy(a.dtype)), a.shape) for n, a in zip(names, inputs, strict=True)
    ]
    initializers = [numpy_helper.from_array(inputs[k], names[k]) for k in constants]
    results = [f"out{k}" if dtype else "" for k, dtype in enumerate(outputs)]
    wanted = [helper.make_tensor_value_info(n, to_onnx(d), None) for n, d in zip(results, outputs, strict=True) if d]
    node = helper.make_node(op_type, names, results, domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", [i for k, i in enumerate(infos) if k not in constants], wanted, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    feeds = {n: a for k, (n, a) in enumerate(zip(names, inputs, strict=True)) if k not in constants}
    return list(ort_lite.InferenceSession(model).run(None, feeds))


def check(x: Array, bias: Array, **attributes: Any) -> None:
    dtype = x.dtype.name
    want = ort_op("MoEGroupRouter", [x, bias], attributes, outputs=(dtype,), **HOW)
    how: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3} if dtype == "float16" else {}
    check_op("MoEGroupRouter", x, bias, expected=want, **how, **attributes, **HOW)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"top_k": 1},
        {"top_k": 3, "router_sentinel": -50.0},
        {"top_k": 2, "n_group": 4, "topk_group": 2},
        {"top_k": 5, "n_group": 4, "topk_group": 2, "group_topk": 1},
        {"top_k": 8, "n_group": 8, "topk_group": 3, "group_topk": 9},
    ],
)
@pytest.mark.parametrize("lead", [(5,), (2, 3), (0,)])
def test_taken_experts(lead: tuple[int, ...], attributes: dict[str, Any], dtype: str) -> None:
    check(logits(*lead, 8, dtype=dtype), 0.3 * logits(8), **attributes)


def test_equal_and_infinite_scores() -> None:
    rows = np.zeros((3, 8), np.float32)
    rows[1, 2], rows[2, :] = np.inf, -np.inf
    check(rows, np.zeros(8, np.float32), top_k=3, n_group=4, topk_group=2)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("projected", [False, True])
def test_all_scores(projected: bool, constant: bool, dtype: str) -> None:
    inputs = [logits(5, 256 if projected else 8, dtype=dtype), logits(8)]
    if projected:
        inputs.append((0.1 * logits(8, 256)).astype(dtype))
    how: dict[str, Any] = {"constants": [2] if constant and projected else [], "outputs": ("", "float32", "float32")}
    want = ort_op("MoEGroupRouter", inputs, {"top_k": 2}, **how, **HOW)
    got = run_model("MoEGroupRouter", inputs, {"top_k": 2}, **how)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("attributes", [{"top_k": 9}, {"top_k": 2, "n_group": 3}, {"top_k": 2, "n_group": 2, "topk_group": 3}])
def test_numbers_that_do_not_fit(attributes: dict[str, Any]) -> None:
    with pytest.raises(NotSupported, match="8 experts in"):
        run_op("MoEGroupRouter", [logits(2, 8), logits(8)], attributes, outputs=1, **HOW)
