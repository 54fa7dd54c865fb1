"""Products of integers and of weights of few bits compared with the CPU provider, whose sums of integers are exact too."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ort_lite_xla import XLAExecutionProvider

from ort_lite.dtypes import Array
from tests.single_node import CPU, MICROSOFT, Single, close, compare, ramp

XLA = XLAExecutionProvider.name
SIGNED = pytest.mark.parametrize("types", [("u1", "u1"), ("u1", "i1"), ("i1", "u1"), ("i1", "i1")], ids=str)


def levels(shape: tuple[int, ...], dtype: str) -> Array:
    """Every byte may occur, the extremes do."""
    info = np.iinfo(dtype)
    found = np.random.default_rng(shape).integers(info.min, info.max + 1, shape).astype(dtype)
    found.flat[:2] = info.min, info.max
    return found


def scale(*shape: int) -> Array:
    return (np.random.default_rng(shape).random(shape) * 0.1 + 0.01).astype(np.float32)


# --- Matrices
@SIGNED
@pytest.mark.parametrize("a", [(3, 40), (2, 3, 40), (40,)], ids=str)
def test_sums_of_integers_are_exact(types: tuple[str, str], a: tuple[int, ...]) -> None:
    operands = [levels(a, types[0]), levels((40, 5), types[1])]
    zeros = [levels((2,), types[0])[1:].reshape(()), levels((5,), types[1])]
    compare(XLA, "MatMulInteger", operands, {})
    compare(XLA, "MatMulInteger", [*operands, *zeros], {})
    compare(XLA, "MatMulInteger", [*operands, None, zeros[1]], {})
    if len(a) == 2:
        compare(XLA, "MatMulInteger", [*operands, levels((3,), types[0])], {})


@SIGNED
def test_quantized_matrices(types: tuple[str, str]) -> None:
    a, b = levels((3, 40), types[0]), levels((40, 5), types[1])
    for left, right in ((scale(), scale()), (scale(3), scale(5))):
        zeros = [
            levels((max(x.size, 2),), kind)[: x.size].reshape(x.shape) for x, kind in zip((left, right), types, strict=True)
        ]
        result: list[Array | None] = [np.array(3.7, np.float32), np.array(3, types[0])]
        compare(XLA, "QLinearMatMul", [a, left, zeros[0], b, right, zeros[1], *result], {})
        compare(XLA, f"{MICROSOFT}.MatMulIntegerToFloat", [a, b, left, right, *zeros, ramp((5,))], {})


def test_a_matrix_that_is_quantized_first() -> None:
    b = [levels((40, 5), "i1"), scale(5), levels((5,), "i1"), ramp((5,))]
    compare(XLA, f"{MICROSOFT}.DynamicQuantizeMatMul", [ramp((2, 3, 40)), *b], {})
    compare(XLA, f"{MICROSOFT}.DynamicQuantizeMatMul", [ramp((2, 3, 40)), *b[:2]], {})


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("turned", [0, 1])
def test_gemm_of_quantized_matrices(turned: int, quantized: bool) -> None:
    a, b = (levels((40, 3) if turned else (3, 40), "u1"), levels((5, 40) if turned else (40, 5), "i1"))
    c = np.arange(5, dtype=np.int32) * 1000
    result: list[Array] = [np.array(3.7, np.float32), np.array(3, np.uint8)] if quantized else []
    operands = [a, scale(), np.array(7, np.uint8), b, scale(5), levels((5,), "i1"), c, *result]
    compare(XLA, f"{MICROSOFT}.QGemm", operands, {"transA": turned, "transB": turned, "alpha": 0.5})


PADDED: list[tuple[str, list[Array | None]]] = [
    ("MatMulInteger", [levels((40, 5), "i1"), np.array(9, np.uint8), levels((5,), "i1")]),
    (f"{MICROSOFT}.MatMulIntegerToFloat", [levels((40, 5), "i1"), scale(), scale(5), np.array(9, np.uint8)]),
    (f"{MICROSOFT}.DynamicQuantizeMatMul", [levels((40, 5), "i1"), scale(5)]),
]


@pytest.mark.parametrize(("op_type", "rest"), PADDED, ids=[op_type for op_type, _ in PADDED])
def test_rows_share_a_program(op_type: str, rest: list[Array | None]) -> None:
    def case(rows: int) -> Single:
        first = ramp((rows, 40)) + 1 if "Dynamic" in op_type else levels((rows, 40), "u1")
        return Single(op_type, [first, *rest], {}, dims={0: ("rows", 40)})

    session = case(5).session(XLA)
    for rows in (5, 6):
        close(session.run(None, case(rows).feeds)[0], case(rows).run(CPU)[0])
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == 1


# --- Convolutions
@SIGNED
@pytest.mark.parametrize(("channels", "group"), [(3, 1), (70, 1), (128, 2), (6, 6)])
def test_convolutions_of_integers_are_exact(types: tuple[str, str], channels: int, group: int) -> None:
    x, w = levels((2, channels, 7, 6), types[0]), levels((6, channels // group, 3, 3), types[1])
    zeros = [levels((2,), types[0])[1:].reshape(()), levels((6,), types[1])]
    rules = {"group": group, "pads": [1, 0, 1, 1], "strides": [2, 1]}
    compare(XLA, "ConvInteger", [x, w, *zeros], rules)
    bias, result = np.arange(6, dtype=np.int32) * 10000, [np.array(900.0, np.float32), np.array(3, types[0])]
    compare(XLA, "QLinearConv", [x, scale(), zeros[0], w, scale(6), zeros[1], *result, bias], rules)


# --- Weights of few bits
def weights(n: int, k: int, bits: int, size: int, zeros: str, grouped: bool) -> list[Array | None]:
    blocks = -(-k // size)
    points = {
        "none": None,
        "packed": levels((n, -(-blocks * bits // 8)), "u1"),
        "floats": (ramp((n, blocks)) + 1.5).astype(np.float32),
    }
    groups = np.random.default_rng(k).integers(0, blocks, k).astype(np.int32) if grouped else None
    return [levels((n, blocks, size * bits // 8), "u1"), scale(n, blocks), points[zeros], groups]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
@pytest.mark.parametrize(("grouped", "k"), [(False, 64), (False, 50), (True, 50)], ids=str)
def test_weights_of_few_bits(bits: int, zeros: str, grouped: bool, k: int) -> None:
    sizes = {"N": 7, "K": k, "bits": bits, "block_size": 16}
    for constants, a in ((range(1, 4), (3, k)), ((), (2, 1, k))):
        operands = [ramp(a), *weights(7, k, bits, 16, zeros, grouped), ramp((7,))]
        held = [index for index in constants if operands[index] is not None]
        single = Single(f"{MICROSOFT}.MatMulNBits", operands, sizes, constants=held)
        close(single.run(XLA)[0], single.run(CPU)[0], 1e-4)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_few_bits_for_activations_of_16(dtype: Any) -> None:
    """Weights are rounded to that type, sums are not."""
    sizes = {"N": 7, "K": 64, "bits": 4, "block_size": 16}
    operands = [ramp((3, 64)), *weights(7, 64, 4, 16, "packed", False)]
    narrow = [x.astype(dtype) if x is not None and x.dtype == np.float32 else x for x in operands]
    wide = [x.astype(np.float32) if x is not None and x.dtype == dtype else x for x in narrow]
    (got,), (want,) = (Single(f"{MICROSOFT}.MatMulNBits", x, sizes).run(p) for x, p in ((narrow, XLA), (wide, CPU)))
    assert got.dtype == dtype
    close(got / np.abs(want).max().astype(dtype), (want / np.abs(want).max()).astype(dtype))


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"bits": 3, "block_size": 16}, "weights of 3 bits"),
        ({"bits": 4, "block_size": 16, "weight_prepacked": 1}, "prepacked 1"),
    ],
)
def test_weights_that_are_not_supported(attributes: dict[str, int], reason: str) -> None:
    operands = [ramp((3, 64)), *weights(7, 64, attributes["bits"], 16, "none", False)]
    assert reason in Single(f"{MICROSOFT}.MatMulNBits", operands, {"N": 7, "K": 64, **attributes}).reason(XLA)
