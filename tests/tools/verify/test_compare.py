"""How far two results are apart: differences, ulps, NaN, tolerances by type."""

import json
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ort_lite.tools.verify.compare import TensorReport, Tolerance, compare
from ort_lite.tools.verify.settings import Verification

EXACT = Tolerance()


def one(got: Any, expected: Any, tolerance: Tolerance = EXACT) -> TensorReport:
    (found,) = compare("t", got, expected, lambda dtype: tolerance)
    return found


def ulps_between(a: float, b: float, dtype: Any) -> int:
    """Steps of nextafter from one to the other."""
    low, high = sorted((dtype(a), dtype(b)))
    count = 0
    while low < high:
        low, count = np.nextafter(low, dtype(np.inf)), count + 1
    return count


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("start", [0.0, -0.0, 1.0, -1.0, 1e-7, 3.0])
def test_ulps_are_steps_to_the_next_number(dtype: Any, steps: int, start: float) -> None:
    x = np.array([start], dtype)
    y = x.copy()
    for _ in range(steps):
        y = np.nextafter(y, dtype(-np.inf))
    assert one(y, x).greatest_ulps == steps == ulps_between(y[0], x[0], dtype)


def test_ulps_span_the_whole_range_of_a_type() -> None:
    greatest = np.array([np.finfo(np.float64).max])
    assert one(-greatest, greatest).greatest_ulps == 2 * (0x7FF0000000000000 - 1)
    near = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert one(near, np.array([1.0, 2.015625], ml_dtypes.bfloat16)).greatest_ulps == 1


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.randoms())
def test_integers_are_subtracted_exactly(values: list[int], random: Any) -> None:
    others = [random.choice([v, max(v - 1, -(2**63)), -v - 1]) for v in values]
    found = one(np.array(values, np.int64), np.array(others, np.int64))
    assert found.greatest_ulps == max(abs(a - b) for a, b in zip(values, others, strict=True))
    assert found.wrong == sum(a != b for a, b in zip(values, others, strict=True))


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=6))
def test_any_floats_are_judged_element_by_element(pairs: list[tuple[float, float]]) -> None:
    tolerance = Tolerance(rtol=0.5, atol=1.0)
    got, expected = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    found = one(got, expected, tolerance)

    def beyond(a: float, b: float) -> Fraction:
        return abs(Fraction(a) - Fraction(b)) - 1 - abs(Fraction(b)) / 2

    def off(a: float, b: float) -> bool:
        if not (np.isfinite(a) and np.isfinite(b)):
            return not (a == b or (np.isnan(a) and np.isnan(b)))
        return beyond(a, b) > 0

    finite = [pair for pair in pairs if np.isfinite(pair).all()]
    assume(all(beyond(*pair) == 0 or abs(beyond(*pair)) > Fraction(1, 10**12) for pair in finite))  # float64 tells them apart

    assert found.wrong == sum(off(a, b) for a, b in pairs)
    assert found.nans == sum(np.isnan(a) and not np.isnan(b) for a, b in pairs)
    assert found.infs == sum(np.isinf(a) and not np.isinf(b) for a, b in pairs)
    if found.wrong:
        assert found.index is not None and off(*pairs[found.index[0]])
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_worst_element_has_its_index_and_values() -> None:
    got, expected = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
    got[1, 2], got[0, 1], expected[0, 1] = 3, 1.5, 1.25
    found = one(got, expected)
    assert (found.index, found.got, found.expected, found.greatest_difference) == ((1, 2), 3.0, 1.0, 2.0)
    assert found.greatest_relative == 2.0 and found.wrong == 2 and not found.ok
    assert str(found).startswith("'t' float32[2, 3] 2 of 6 elements off, worst at [1, 2]: got 3.0, the CPU 1.0, 2 apart")
    assert str(one(got, got)) == "'t' float32[2, 3] equal"


@pytest.mark.parametrize(
    ("got", "expected", "wrong"),
    [
        (np.array([True, False]), np.array([True, True]), 1),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 1),
        (np.array([1 + 2j, 1], np.complex64), np.array([1 + 2j, 1j], np.complex64), 2),
        (np.array([1, 7], ml_dtypes.int4), np.array([1, -8], ml_dtypes.int4), 1),
        (np.array([1, 2], ml_dtypes.float8_e4m3fn), np.array([1, 3], ml_dtypes.float8_e4m3fn), 1),
        (np.array([0, 2**64 - 1], np.uint64), np.array([0, 2**64 - 2], np.uint64), 1),
        (np.array([], np.float32), np.array([], np.float32), 0),
        (np.array(1.0), np.array(2.0), 1),
    ],
    ids=lambda x: str(getattr(x, "dtype", x)),
)
def test_every_kind_of_tensor_is_compared(got: Any, expected: Any, wrong: int) -> None:
    assert one(got, expected).wrong == wrong
    assert one(expected, expected).ok


def test_types_shapes_and_lengths_that_differ_are_no_numbers() -> None:
    x = np.zeros(3, np.float32)
    assert one(x, x.astype(np.float64)).mismatch == "is float32[3], the CPU's float64[3]"
    assert one(x[:2], x).mismatch == "is float32[2], the CPU's float32[3]"
    assert one([x], [x, x]).mismatch == "has 1 elements, the CPU's 2"
    assert one({"a": 1.0}, {"b": 1.0}).mismatch == "has keys ['a'], the CPU's ['b']"
    assert one(None, x).mismatch == "is None on one side alone"
    assert compare("t", None, None, lambda dtype: EXACT) == []
    assert [found.name for found in compare("t", [x, {"k": 1.0}], [x, {"k": 1.0}], lambda dtype: EXACT)] == [
        "t[0]",
        "t[1]['k']",
    ]


def test_the_default_tolerance_grows_with_the_greatest_element() -> None:
    tolerance = Verification().tolerance("float32")
    large, small = np.array([1000, 0], np.float32), np.array([1, 0], np.float32)
    noise = np.array([0, 5e-3], np.float32)
    assert one(large + noise, large, tolerance).ok
    assert not one(small + noise, small, tolerance).ok
    assert Verification(rtol=1.0).tolerance("int32") == EXACT
    assert Verification(rtol=1.0).tolerance("float16") == Tolerance(1.0, 0.0)


def test_reports_of_several_calls_keep_the_worst() -> None:
    x = np.zeros(2, np.float32)
    first, second = one(x + np.float32(1), x), one(x + np.array([0, 2], np.float32), x)
    merged = first.merge(second)
    assert (merged.wrong, merged.elements, merged.index, merged.greatest_difference) == (3, 4, (1,), 2.0)
    assert second.merge(first) == merged
