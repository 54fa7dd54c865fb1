"""Integer products and convolutions whose sizes lie around those of register tiles, with exact expectations."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array
from tests.emulation.work import Outputs, Work

BYTES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
SIZES = [
    (m, k, n) for m in (1, 2, 3, 5, 8, 9, 12, 13, 25, 40) for k, n in ((1, 3), (7, 8), (8, 9), (24, 16), (63, 21), (256, 40))
]
SIZES.append((700, 2001, 9))  # more rows than a block of scratch holds
DEPTHS = [1, 4, 7, 8, 33, 200]


def integers() -> Iterator[Work]:
    """Products with right operands as feeds and as weights, those that end as bytes, and convolutions, of all signednesses."""
    for left, right in product(BYTES, BYTES):
        yield _fed(left, right)
        for k in DEPTHS:
            yield _weighted(left, right, k)
            yield _convolved(left, right, k)
    for left in BYTES:
        yield _quantized(left)


def _ramp(dtype: str, *shape: int, seed: int = 0) -> Array:
    whole: Array = np.random.default_rng([seed, *shape]).integers(0, 256, shape).astype(np.uint8).view(dtype)
    return whole


def _work(
    name: str,
    op_type: str,
    feeds: Sequence[dict[str, Array]],
    constants: dict[str, Array],
    expected: Sequence[Array],
    **attributes: Any,
) -> Work:
    """A node whose inputs are `feeds` and `constants`, named in their order."""
    kinds = {x: helper.np_dtype_to_tensor_dtype(value.dtype) for x, value in feeds[0].items()}
    inputs = [helper.make_tensor_value_info(x, kind, [None] * feeds[0][x].ndim) for x, kind in kinds.items()]
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(expected[0].dtype), None)
    weights = [numpy_helper.from_array(value, x) for x, value in constants.items()]
    names = sorted([*kinds, *constants])
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def check(results: Sequence[Outputs]) -> None:
        for [got], wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)

    return Work(f"integers {name}", model.SerializeToString(), list(feeds), check, threads=2)


def _sums(a: Array, b: Array, zero: int, away: Array | int) -> Array:
    total: Array = (a.astype(np.int32) - zero) @ (b.astype(np.int32) - away)
    return total


def _fed(left: str, right: str) -> Work:
    feeds = [{"a": _ramp(left, m, k), "b": _ramp(right, k, n, seed=1)} for m, k, n in SIZES]
    zeros = {"c": np.array(7, left), "d": np.array(100, right)}
    return _work(f"{left} {right} fed", "MatMulInteger", feeds, zeros, [_sums(each["a"], each["b"], 7, 100) for each in feeds])


def _weighted(left: str, right: str, k: int) -> Work:
    b, away = _ramp(right, k, 29, seed=1), _ramp(right, 29, seed=2)
    feeds = [{"a": _ramp(left, m, k)} for m in (1, 2, 4, 9, 11, 12, 13, 30)]
    constants = {"b": b, "c": np.array(3, left), "d": away}
    expected = [_sums(each["a"], b, 3, away.astype(np.int32)) for each in feeds]
    return _work(f"{left} {right} weight of {k}", "MatMulInteger", feeds, constants, expected)


def _quantized(left: str) -> Work:
    """Scales are powers of two, so the scaled sums are exact, and a half is one."""
    b, one = _ramp("int8", 64, 24, seed=1), np.array(1, np.float32)
    feeds = [{"a": _ramp(left, m, 64)} for m in (1, 3, 9, 12, 25)]
    zeros = {"c": np.array(5, left), "f": np.array(0, np.int8), "h": np.array(10, left)}
    constants = {"b": one, "d": b, "e": one, "g": np.array(1024, np.float32), **zeros}
    limits = np.iinfo(np.dtype(left))
    expected = [np.clip(np.rint(_sums(each["a"], b, 5, 0) / 1024) + 10, limits.min, limits.max).astype(left) for each in feeds]
    return _work(f"{left} to bytes", "QLinearMatMul", feeds, constants, expected)


def _convolved(left: str, right: str, channels: int) -> Work:
    """A window of 3 x 3 with padding, whose value is the zero point."""
    w, zero = _ramp(right, 10, channels, 3, 3, seed=1), 9
    feeds = [{"a": _ramp(left, 1, channels, *size)} for size in ((3, 3), (5, 17), (9, 12))]
    expected = []
    for each in feeds:
        x = np.pad(each["a"].astype(np.int64) - zero, [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        expected.append(np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64), optimize=True).astype(np.int32))
    constants = {"b": w, "c": np.array(zero, left)}
    return _work(f"{left} {right} window of {channels}", "ConvInteger", feeds, constants, expected, pads=[1] * 4)
