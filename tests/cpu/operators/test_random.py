"""RandomNormal, RandomUniform, those Like another tensor, Bernoulli and Multinomial."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array, to_onnx
from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite_cpu.operators import dropout
from ort_lite_cpu.options import CPUOptions
from tests.cpu.check import op_program, run_op, text_program

MANY = 40_000


def drawn(op: str, inputs: list[Array], seed: float | None = 1.0, **attributes: Any) -> Array:
    """With a seed: after checks that a second run and three threads give the same."""
    if seed is None:
        [once] = op_program(op, inputs, attributes)(inputs)
        return np.asarray(once)
    attributes["seed"] = seed
    [got] = run_op(op, inputs, attributes)
    [shared] = run_op(op, inputs, attributes, threads=3)
    assert np.array_equal(got, shared)
    return np.asarray(got)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_fill_the_interval_evenly(dtype: str) -> None:
    x = drawn("RandomUniform", [], shape=[4, MANY // 4], dtype=to_onnx(dtype), low=-2.0, high=6.0)
    assert x.shape == (4, MANY // 4) and x.dtype == dtype and x.min() >= -2 and x.max() <= 6
    counts, _ = np.histogram(x, bins=16, range=(-2, 6))
    expected = MANY / 16
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-squared of 15 degrees of freedom: 1 in 10,000 is larger


def test_normal_numbers_have_the_moments_of_the_distribution() -> None:
    z = (drawn("RandomNormal", [], shape=[MANY], mean=3.0, scale=2.0).astype(np.float64) - 3) / 2
    assert abs(z.mean()) < 4 / MANY**0.5 and abs(z.var() - 1) < 4 * (2 / MANY) ** 0.5
    assert abs((z**3).mean()) < 4 * (15 / MANY) ** 0.5 and abs((z**4).mean() - 3) < 4 * (96 / MANY) ** 0.5


def test_a_seed_of_the_process_makes_sessions_alike() -> None:
    text = "(float[9] x) => (float[9] y, float[9] z) { y = RandomNormalLike(x) z = RandomUniformLike(x) }"
    x = np.zeros(9, np.float32)

    def two_runs(seed: int | None) -> list[Array]:
        program = text_program(text, options=CPUOptions(seed=seed))
        return [array for _ in range(2) for array in program([x])]

    first, again, other, none = two_runs(3), two_runs(3), two_runs(4), two_runs(None)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other) and not np.array_equal(first, none) and not np.array_equal(first[:2], first[2:])


def test_neighbours_are_independent() -> None:
    x = drawn("RandomUniform", [], shape=[MANY]).astype(np.float64) - 0.5
    assert abs((x[1:] * x[:-1]).mean() * 12) < 4 / MANY**0.5
    assert abs((x[2:] * x[:-2]).mean() * 12) < 4 / MANY**0.5


def test_another_seed_gives_other_numbers() -> None:
    one, two = (drawn("RandomUniform", [], seed=seed, shape=[100]) for seed in (1.0, 2.0))
    assert not np.intersect1d(one, two).size


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
def test_without_a_seed_no_two_runs_are_alike(op: str) -> None:
    program = op_program(op, [], {"shape": [100]})
    runs = [program([])[0] for _ in range(3)] + [drawn(op, [], seed=None, shape=[100])]
    assert len(np.unique(np.concatenate(runs))) == 400


def test_random_integers_are_refused() -> None:
    with pytest.raises(InvalidGraph, match=r"RandomUniform 'node': output 0 \(output, 'out0'\) is tensor\(int32\)"):
        run_op("RandomUniform", [], {"shape": [2], "dtype": to_onnx("int32")})


def test_only_the_shape_of_another_tensor_counts() -> None:
    for like in (np.array(["a", "b"], object), np.array([1j, 2])):
        [got] = run_op("RandomUniformLike", [like], {"dtype": to_onnx("float32"), "seed": 1.0})
        assert got.shape == (2,) and got.dtype == np.float32


def test_weights_are_a_matrix() -> None:
    with pytest.raises(InvalidArgument, match="has rank 3; it should have 2"):
        run_op("Multinomial", [np.zeros((1, 2, 3), np.float32)], {"sample_size": 4})


@pytest.mark.parametrize("ratio", [0.0, 0.3])
def test_dropout_draws_the_same_numbers_in_slices(ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropout, "CHEAP", 5)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    inputs = [x, np.array(ratio, np.float32), np.array(True)]
    y, mask = run_op("Dropout", inputs, {"seed": 3}, outputs=2, opset=22)
    expected = np.random.RandomState(3).uniform(0, 1.0, x.shape) >= np.float32(ratio)
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(y, (expected * x * (1.0 / (1.0 - float(np.float32(ratio))))).astype(np.float32))
