"""A small sample of `python -m tests.hostile.cancel_everything`, and its list of what may be late."""

import pytest

from tests.hostile.cancel_everything import LATE, REMAINING, Row, in_child
from tests.hostile.growth import Way, grown, operators, ways

BUSY = 2.0
"""Seconds that a busy machine may add."""


def test_every_operator_with_a_kernel_has_a_case() -> None:
    from ort_lite_cpu.operators import FAMILIES

    public = {(domain, op_type) for domain, op_type in FAMILIES if domain in ("", "ai.onnx.ml", "com.microsoft")}
    assert sorted(public - operators().keys()) == []


def test_a_case_grows_in_its_sizes_its_contents_and_its_attributes() -> None:
    [seed, *_] = operators()["", "AveragePool"]
    draft = grown(seed, Way("all sizes", True, True), 4)
    assert draft is not None
    assert "kernel_shape" in draft.attributes
    assert {way.what for way in ways(seed)} >= {"all sizes", "kernel_shape"}
    assert grown(seed, Way("all sizes", True, True), 1 << 20) is None


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "op_type"), [("", "TopK"), ("", "SplitToSequence")])
def test_a_sample_of_operators_ends_in_time(domain: str, op_type: str) -> None:
    rows = list(in_child((domain, op_type), 0.3, 1, patience=100))
    assert rows
    assert [str(row) for row in rows if row.problem or row.late > BUSY] == []
    assert any(row.cancelled for row in rows)


def test_what_may_be_late_is_listed_with_a_bound_and_a_reason() -> None:
    assert all(bound > LATE and reason for bound, reason in REMAINING.values())
    late = Row("Relu", late=9.0, again=1.1 * LATE)
    assert late.is_late
    assert all(not late._replace(operator=name).is_late for name in REMAINING)
