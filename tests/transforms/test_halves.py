"""float16 becomes the float32 that NumPy gives it."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite_transforms import halves

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def same(array: Array) -> bool:
    found, expected = halves.widen(array), array.astype(np.float32)
    return found.shape == expected.shape and found.dtype == np.float32 and found.tobytes() == expected.tobytes()


def test_every_number_keeps_its_value_and_its_sign() -> None:
    numbers = EVERY[~np.isnan(EVERY)]
    assert same(numbers)
    assert same(np.tile(numbers, 3)[::-1])


def test_every_nan_stays_one_with_its_sign() -> None:
    nans = EVERY[np.isnan(EVERY)]
    found = halves.widen(nans)
    assert np.isnan(found).all()
    assert np.array_equal(np.signbit(found), np.signbit(nans))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (halves._PART,), (halves._PART + 1,), (2, halves._PART, 2)])
def test_shapes(shape: tuple[int, ...]) -> None:
    assert same(np.random.default_rng(0).standard_normal(shape).astype(np.float16))


def test_strided_arrays() -> None:
    assert same(np.random.default_rng(0).standard_normal((40, 60)).astype(np.float16)[::2, ::-3].T)


def test_infinities_in_a_later_part() -> None:
    array = np.ones(2 * halves._PART, np.float16)
    array[[5, -5]] = np.inf, -np.inf
    assert same(array)


def test_threads_that_count_subnormal_numbers_as_0_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "_SUBNORMAL", np.float32(0))
    monkeypatch.setattr(halves, "_REBIAS", np.float32(0))
    assert same(np.array([6e-5, 1e-5, 0.5], np.float16))
