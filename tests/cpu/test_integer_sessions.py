"""Operators on bytes through sessions, on every target that runs here: equal to exact sums and to the formulas of their results."""

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from tests.cpu.byte_products import HERE, PAIRS, SIGNS, bytes_of, exact, wrap
from tests.cpu.integer_models import CONVOLUTIONS, PAIRS_OF_SIGNS, Convolution, convolutions, matmuls

TARGETS = [*HERE, *PAIRS]
SIZES = [(1, 1, False), (3, 20, True), (64, 33, False), (65, 31, True), (130, 65, False), (700, 32, True)]
ROWS = (1, 4, 5, 17, 33, 70)


def session(data: bytes, target: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    return ort_lite.InferenceSession(data, options, providers=[("CPUExecutionProvider", {"target": target})])


def results(made: ort_lite.InferenceSession, feeds: dict[str, Array]) -> dict[str, Array]:
    names = [value.name for value in made.get_outputs()]
    return {name: np.asarray(value) for name, value in zip(names, made.run(None, feeds), strict=True)}


def quantized(total: Array, factor: Array, zero: Array) -> Array:
    """Return sums times a factor in float32, rounded half to even, plus the zero point, saturated."""
    limits = np.iinfo(zero.dtype)
    scaled = np.rint(total.astype(np.float32) * factor).astype(np.float64)
    return np.asarray(np.clip(scaled + float(zero), limits.min, limits.max).astype(zero.dtype))


@pytest.mark.parametrize(("k", "n", "wide"), SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_products(target: str, k: int, n: int, wide: bool) -> None:
    model = matmuls(k, n, wide)
    made, given = session(model.data, target), model.constants
    for m in ROWS:
        feeds = {"f": np.random.default_rng(m).standard_normal((m, k)).astype(np.float32)}
        for sign in SIGNS:
            feeds |= {f"a_{sign}": bytes_of(m, k, seed=m, dtype=sign), f"rows_{sign}": bytes_of(m, 1, seed=2, dtype=sign)}
        got = results(made, feeds)
        factor = given["sa"] * given["sb"]
        for left, right in PAIRS_OF_SIGNS:
            end, a, b, zero = f"{left}_{right}", feeds[f"a_{left}"], given[f"b_{right}"], given[f"za_{left}"]
            away = given[f"zb_{right}"]
            total = exact(a, b, zero, away)
            np.testing.assert_array_equal(got[f"x_{end}"], total)
            np.testing.assert_array_equal(got[f"c_{end}"], exact(a, b, zero, given[f"zc_{right}"]))
            np.testing.assert_array_equal(got[f"r_{end}"], exact(a, b, feeds[f"rows_{left}"], away))
            np.testing.assert_array_equal(got[f"y_{end}"], quantized(total, factor / given["sy"], zero))
            sums = wrap(total.astype(np.float64) + given["addends"])
            np.testing.assert_array_equal(got[f"g_{end}"], quantized(sums, factor / given["sy"], zero))
            np.testing.assert_array_equal(got[f"h_{end}"], sums.astype(np.float32) * factor)
        for sign in SIGNS:
            total = exact(got["q"], given[f"b_{sign}"], got["z"], given[f"zb_{sign}"])
            want = total.astype(np.float32) * (got["s"] * given["sb"]) + given["bias"]
            np.testing.assert_array_equal(got[f"d_{sign}"], want)


def convolve(x: Array, w: Array, case: Convolution) -> Array:
    """Return the convolution in float64, which is exact."""
    top, left, bottom, right = case.pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, :: case.stride, :: case.stride]
    batch, _, h, wide, *taps = windows.shape
    grouped = windows.reshape(batch, case.groups, -1, h, wide, *taps)
    filters = w.astype(np.float64).reshape(case.groups, -1, *w.shape[1:])
    return np.asarray(np.einsum("ngchwij,gocij->ngohw", grouped, filters, optimize=True).reshape(batch, -1, h, wide))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_convolutions(target: str, name: str, wide: bool) -> None:
    model, case = convolutions(name, wide), CONVOLUTIONS[name]
    given, feeds = model.constants, {f"x_{sign}": bytes_of(*case.image, seed=5, dtype=sign) for sign in SIGNS}
    got = results(session(model.data, target), feeds)
    factor = ((given["sx"] * given["sw"]) / given["sy"]).reshape(-1, 1, 1)
    for left, right in PAIRS_OF_SIGNS:
        x, w, zero = feeds[f"x_{left}"], given[f"w_{right}"], given[f"zx_{left}"]
        total = convolve(x.astype(np.int32) - zero, w.astype(np.int32) - given[f"zw_{right}"], case)
        np.testing.assert_array_equal(got[f"c_{left}_{right}"], wrap(total))
        sums = wrap(total + given["bias"].reshape(-1, 1, 1))
        np.testing.assert_array_equal(got[f"y_{left}_{right}"], quantized(sums, factor, zero))
