"""Products by weights with a scale for each block."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ort_lite import InferenceSession
from ort_lite_transforms.block_products import multiply_blocks
from tests.text_graphs import check

KINDS = {"int2": TensorProto.INT2, "uint2": TensorProto.UINT2, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
KINDS |= {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
SIGNATURE = "(float[M,32] x) => (float[M,2] y)"
ONES = ", ".join(["1, -2"] * 32)
CONSTANTS = f"<int8[32,2] w = {{{ONES}}}, float[2,2] s = {{0.5, 2, 0.25, 1}}, int8[2,2] z = {{1, 0, -3, 5}}>"
AFTER = "<uint8[2,2,16] w = {{{}}}, float[2,2] s = {{0.5, 0.25, 2, 1}}{}>"
LINEAR, PRODUCT = "a = DequantizeLinear<axis=0,block_size=16>(w, s, z)", "y = MatMul(x, a)"


def test_blocks_stay_packed() -> None:
    """Differences from zero points need no zero point, unless they have more bits than the integers."""
    before, product = (
        f"{{ {LINEAR} {PRODUCT} }}",
        "{{ y = com.microsoft.MatMulNBits<K=32,N=2,bits=8,block_size=16>(x, w, s{}) }}",
    )
    numbers = ", ".join(number for number in ("128", "132", "126", "121") for _ in range(16))
    after = AFTER.format(numbers, "")
    check(multiply_blocks, SIGNATURE, before, product.format(""), constants=CONSTANTS, after_constants=after)
    codes = ", ".join(["255"] * 32 + ["126"] * 32)
    after = AFTER.format(codes, ", uint8[4] z = {129, 125, 128, 133}")
    wide = CONSTANTS.replace("1, -2, ", "127, -2, ").replace("1, -2}", "127, -2}", 1)
    check(multiply_blocks, SIGNATURE, before, product.format(", z"), constants=wide, after_constants=after)


@pytest.mark.parametrize(
    ("signature", "body", "reason"),
    [
        (SIGNATURE, "{ a = DequantizeLinear<axis=1,block_size=2>(w, u) y = MatMul(x, a) }", "no blocks of 16"),
        (SIGNATURE, "{ a = DequantizeLinear<axis=1>(w, v) y = MatMul(x, a) }", "no blocks of 16"),
        ("(float[32] x) => (float[2] y)", f"{{ {LINEAR} {PRODUCT} }}", "not known to have rows"),
        ("(float[M,32] x, float[2,2] f) => (float[M,2] y)", f"{{ {LINEAR.replace('s,', 'f,')} {PRODUCT} }}", "not constant"),
        ("(float[M,32] x) => (float[M,2] y, float[32,2] a)", f"{{ {LINEAR} {PRODUCT} }}", "a has other readers"),
    ],
)
def test_other_weights_stay(signature: str, body: str, reason: str) -> None:
    constants = CONSTANTS[:-1] + f", float[32,1] u = {{{', '.join(['2'] * 32)}}}, float[2] v = {{1, 2}}>"
    check(multiply_blocks, signature, body, constants=constants, skip=reason)


def blocks_model(kind: str, depth: int, size: int, zeros: bool, dtype: str) -> Any:
    """Return a product by weights (depth, 5), and x and y for it."""
    random = np.random.default_rng([depth, size])
    bits = int(kind[-1])
    low = 0 if kind.startswith("u") else -(1 << (bits - 1))
    codes, points = (random.integers(low, low + (1 << bits), (rows, 5)) for rows in (depth, -(-depth // size)))
    scales = random.uniform(0.1, 1, points.shape).astype(dtype)
    x = random.standard_normal((2, 3, depth)).astype(dtype)
    floats = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensors = [
        helper.make_tensor("w", KINDS[kind], codes.shape, codes.reshape(-1).tolist()),
        helper.make_tensor("s", floats, scales.shape, scales.reshape(-1).tolist()),
        *([helper.make_tensor("z", KINDS[kind], points.shape, points.reshape(-1).tolist())] if zeros else []),
    ]
    names = [tensor.name for tensor in tensors]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["a"], axis=0, block_size=size),
        helper.make_node("MatMul", ["x", "a"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, floats, [None, None, width]) for name, width in (("x", depth), ("y", 5))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    numbers = (codes - (np.repeat(points, size, 0)[:depth] if zeros else 0)) * np.repeat(scales.astype(float), size, 0)[:depth]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    return model, x, x.astype(float) @ numbers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("depth", "size"), [(64, 16), (96, 32), (50, 16), (16, 128)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_are_those_of_the_floats(kind: str, depth: int, size: int, zeros: bool, dtype: str) -> None:
    model, x, want = blocks_model(kind, depth, size, zeros, dtype)
    session = InferenceSession(model, providers=["CPUExecutionProvider"])
    assert "few_bits" in {choice.taken for choice in session.explain(kernels=True).kernels.values()}
    (got,) = session.run(None, {"x": x})
    tolerance = 1e-5 if dtype == "float32" else 5e-3
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())
