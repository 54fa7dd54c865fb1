"""MatMulBnb4, against onnxruntime. Where `transB` is 0, onnxruntime multiplies by other elements: the oracle is its document."""

from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op
from tests.hostile.building import operator_model

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
SIZES = {"N": 8, "K": 64, "block_size": 32, "quant_type": 1}


def weights(n: int, k: int, size: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(n * k)
    return rng.integers(0, 256, -(-n * k // 2), np.uint8), rng.uniform(0.1, 1, -(-n * k // size)).astype(np.float32)


@pytest.mark.parametrize("kind", [0, 1])
def test_every_code(kind: int) -> None:
    b, absmax = np.arange(256, dtype=np.uint8), np.linspace(-1, 3, 32, dtype=np.float32)
    attributes = {"N": 32, "K": 16, "block_size": 16, "quant_type": kind}
    a = np.eye(16, dtype=np.float32)
    want = ort_op("MatMulBnb4", [a, b, absmax], attributes, **HOW)
    check_op("MatMulBnb4", a, b, absmax, expected=want, constants=[1, 2], rtol=0, atol=0, **attributes, **HOW)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("rows", "n", "k", "size"),
    [((1,), 1, 16, 16), ((2,), 2, 93, 32), ((5,), 32, 64, 64), ((2, 3), 28, 123, 128), ((), 3, 32, 256), ((0,), 4, 16, 16)],
)
def test_products(rows: tuple[int, ...], n: int, k: int, size: int, kind: int) -> None:
    a = np.random.default_rng(k).standard_normal((*rows, k), np.float32)
    operands = [a, *weights(n, k, size)]
    attributes = {"N": n, "K": k, "block_size": size, "quant_type": kind}
    want = ort_op("MatMulBnb4", operands, {**attributes, "training_mode": 1}, **HOW)
    check_op("MatMulBnb4", *operands, expected=want, constants=[1, 2], **CLOSE, **attributes, **HOW)


@pytest.mark.parametrize(("n", "k"), [(12, 40), (40, 12), (16, 16)])
def test_weights_that_are_not_transposed(n: int, k: int) -> None:
    b, absmax = weights(n, k, 16)
    attributes = {"N": n, "K": k, "block_size": 16, "quant_type": 1}
    [dense] = ort_op("MatMulBnb4", [np.eye(k, dtype=np.float32), b, absmax], attributes, **HOW)
    a = ramp((2, 3, n))
    want = a @ dense.T
    check_op("MatMulBnb4", a, b, absmax, expected=want, constants=[1, 2], transB=0, **CLOSE, **attributes, **HOW)


def test_longer_weights_and_absmax() -> None:
    b, absmax = weights(8, 64, 32)
    operands = [ramp((3, 64)), np.pad(b, (0, 5)), np.pad(absmax, (0, 3))]
    want = ort_op("MatMulBnb4", operands, SIZES, **HOW)
    check_op("MatMulBnb4", *operands, expected=want, constants=[1, 2], **CLOSE, **SIZES, **HOW)


@pytest.mark.parametrize("constants", [[], [1, 2]], ids=["computed", "constant"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("index", [1, 2])
def test_operands_that_are_too_short_are_refused(index: int, fixed: bool, constants: list[int]) -> None:
    inputs: list[Array] = [ramp((3, 64)), *weights(8, 64, 32)]
    inputs[index] = inputs[index][1:]
    message = f"input {index} has {inputs[index].size} elements, expected {inputs[index].size + 1} or more"
    with pytest.raises(InvalidArgument, match=message):
        run_op("MatMulBnb4", inputs, SIZES, fixed=fixed, constants=constants, **HOW)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"block_size": 8}, "block_size 8; blocks are powers of two from 16 on"),
        ({"block_size": 48}, "block_size 48; blocks are"),
        ({"block_size": 0}, "block_size 0; blocks are"),
        ({"N": 0}, "N 0, K 64"),
        ({"quant_type": 2}, r"quant_type 2, takes 0 \(FP4\) and 1 \(NF4\)"),
    ],
    ids=str,
)
def test_what_no_kernel_takes_is_refused(more: dict[str, int], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        op_program("MatMulBnb4", [ramp((3, 64)), *weights(8, 64, 32)], {**SIZES, **more}, **HOW)


def test_sessions_check_the_depth() -> None:
    b, absmax = weights(12, 40, 16)
    attributes = {"N": 12, "K": 40, "block_size": 16, "quant_type": 0, **HOW}
    for transposed, depth in ((1, 40), (0, 12)):
        a = ramp((3, depth))
        model = operator_model("MatMulBnb4", [a, b, absmax], constants=[1, 2], transB=transposed, **attributes)
        session = ort_lite.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        assert session.run(None, {"in0": a})[0].shape == (3, 52 - depth)
        with pytest.raises(InvalidArgument, match=f"is 13, but {'K' if transposed else 'N'} is {depth}"):
            session.run(None, {"in0": ramp((3, 13))})
