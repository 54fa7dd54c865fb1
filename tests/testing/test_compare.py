"""How the kit compares results, and what it says of the first difference."""

import numpy as np
import pytest

from ort_lite.testing.differences import compare

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        ([1.0, NAN, INF], [1.0005, NAN, INF], None),
        (
            [1.0, 2.0],
            [1.0, 2.1],
            "output 0 (float32) differs: at (1,): got 2.0, expected 2.1 (accepted with rtol and atol of 0.032)",
        ),
        (
            [NAN, 2.0],
            [NAN, 2.1],
            "output 0 (float32) differs: at (1,): got 2.0, expected 2.1 (accepted with rtol and atol of 0.032)",
        ),
        ([INF, NAN], [INF, 3.0], "output 0 (float32) differs: at (1,): got nan, expected 3.0"),
        ([1.0], [1.0, 2.0], "output 0 is float32[1], expected float32[2]"),
        ([], [], None),
    ],
)
def test_floats_are_compared_within_the_tolerance(got: list[float], wanted: list[float], text: str | None) -> None:
    assert compare([np.array(got, np.float32)], [np.array(wanted, np.float32)], 1e-3, 1e-5) == text


def test_integers_types_and_numbers_of_outputs_are_compared_exactly() -> None:
    one, two = np.array([1]), np.array([2])
    assert compare([one], [two], 1, 1) == "output 0 (int64) differs: at (0,): got 1, expected 2"
    assert compare([one], [one.astype(np.int32)], 1, 1) == "output 0 is int64[1], expected int32[1]"
    assert compare([one], [one, two], 1, 1) == "1 outputs, expected 2"


def test_the_tolerance_is_the_callers() -> None:
    assert compare([np.array([1.0])], [np.array([1.1])], 0.2, 0) is None
