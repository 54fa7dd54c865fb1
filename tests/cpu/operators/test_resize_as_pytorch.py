"""Resize as PyTorch's exporter writes it, for 60 sizes and scales: onnxruntime's results, which are PyTorch's (decision 0076)."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.cpu.ort import both

SIZES = (1, 2, 3, 5, 7, 10, 13, 15)
SCALES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5, 1.7, 2.0, 2.5, 3.0)
BY_SCALES = [(n, scale) for n, scale in product(SIZES, SCALES) if math.floor(np.float32(n) * np.float32(scale)) > 0]
BY_SIZES = [(n, size) for n, size in product(SIZES, (1, 2, 3, 4, 6, 9, 11, 17)) if n != size]
EXPORTED = [
    ("nearest", "asymmetric", "floor"),
    ("linear", "half_pixel", "floor"),
    ("cubic", "half_pixel", "floor"),
    ("linear", "align_corners", "floor"),
    ("cubic", "align_corners", "floor"),
]
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def compare(mode: str, how: str, nearest: str, scales: bool) -> None:
    feeds: dict[str, Any] = {}
    nodes = []
    attributes = f'mode="{mode}", coordinate_transformation_mode="{how}", nearest_mode="{nearest}"'
    for k, (n, to) in enumerate(BY_SCALES if scales else BY_SIZES):
        feeds[f"x{k}"] = np.random.default_rng(k).standard_normal((1, 1, n, 3)).astype(np.float32)
        constant = f"c{k} = Constant<value=float[4] {{1.0, 1.0, {float(to)}, 1.0}}>()"
        if not scales:
            constant = f"c{k} = Constant<value=int64[4] {{1, 1, {to}, 3}}>()"
        given = f"x{k}, , c{k}" if scales else f"x{k}, , , c{k}"
        nodes.append(f"{constant} y{k} = Resize<{attributes}>({given})")
    for (n, to), ours, theirs in zip(BY_SCALES if scales else BY_SIZES, *both(nodes, feeds, 19), strict=True):
        if mode == "cubic" and ours.shape[2] == n:
            continue  # onnxruntime copies, PyTorch and ONNX interpolate
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=f"{n} by {to}")


def test_there_are_60_of_each() -> None:
    assert min(len(BY_SCALES), len(BY_SIZES)) >= 60


@pytest.mark.parametrize("scales", [True, False], ids=["scales", "sizes"])
@pytest.mark.parametrize(("mode", "how", "nearest"), EXPORTED)
def test_what_the_exporter_writes(mode: str, how: str, nearest: str, scales: bool) -> None:
    compare(mode, how, nearest, scales)


@pytest.mark.parametrize("scales", [True, False], ids=["scales", "sizes"])
@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("how", COORDINATES)
def test_nearest_positions_are_onnxruntimes(how: str, nearest: str, scales: bool) -> None:
    compare("nearest", how, nearest, scales)


def test_a_size_that_stays_is_copied_in_a_model_with_free_dimensions() -> None:
    """Whether 6 by 1.1 is 6 is known in the run alone."""
    from ort_lite import InferenceSession
    from tests.cpu.ort import text_model

    text = 'c = Constant<value=float[4] {1.0, 1.0, 1.1, 1.0}>() y = Resize<mode="linear">(x, , c)'
    session = InferenceSession(text_model(text, "float[1, 1, N, 3] x", "float[1, 1, M, 3] y", 19))
    x = np.random.default_rng(0).standard_normal((1, 1, 6, 3)).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    assert session.run(None, {"x": np.concatenate([x, x], 2)})[0].shape == (1, 1, 13, 3)
