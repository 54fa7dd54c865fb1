"""Every registration has a line in lateness.txt, and a sample of cancelled runs ends early."""

import pytest

from tests.cancellation.growth import Way, cases, grown, ways
from tests.cancellation.lateness import KNOWN, LATE, WORKLOADS, Row, Runs
from tests.cancellation.lateness_table import delay_ms, read
from tests.cancellation.registrations import COMPLEX, STRINGS, Registration, registrations
from tests.case_server import Outcome

LONG, EARLY, TRIES = 0.6, 0.4, 4
"""Seconds after which a run of the sample is cancelled at the latest; share of its time; runs of which one must be early."""
SAMPLE = """
    AveragePool Conv Dropout Einsum GRU MatMul NonMaxSuppression TopK Unique
    Cast:strings Loop RegexFullMatch:strings SequenceMap StringConcat:strings StringNormalizer:strings StringSplit:strings
    Unique:strings ai.onnx.ml.CastMap com.microsoft.Sampling com.microsoft.Tokenizer:strings
"""


def check_early(name: str) -> None:
    """Cancel a run after a tenth of its time, and check that it ends before the share EARLY of it. Both grow on a busy machine."""
    runs = Runs(WORKLOADS[name][0]())
    runs.time(0.05)  # compiles what only a run compiles
    alone, _ = runs.time(LONG)
    shares: list[float] = []
    while not shares or (min(shares) >= EARLY and len(shares) < TRIES):
        shares.append(runs.time(0.1 * alone)[0] / alone)
    assert min(shares) < EARLY, f"the run takes {alone:.2f} s or more; cancelled, these shares of it: {shares}"


CASES = {name: lambda name=name: check_early(name) for name in SAMPLE.split()}


@pytest.mark.parametrize("name", CASES)
def test_a_cancelled_run_ends_early(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=60, megabytes=4096) == ""


def test_every_registration_has_a_line() -> None:
    names = {str(one) for one in registrations()}
    lines = read()
    assert sorted(names - lines.keys()) == [], "measure it: python -m tests.cancellation OPERATOR --write"
    assert sorted(lines.keys() - names) == [], "nothing is registered by that name any more"


def test_no_line_is_later_than_the_bound_or_what_is_known() -> None:
    bounds = {name: bound for name, (bound, _) in KNOWN.items()}
    late = [text for name, texts in read().items() for text in texts if delay_ms(text) > 1000 * bounds.get(name, LATE)]
    assert late == []


def test_what_may_be_late_is_listed_with_a_bound_and_a_reason() -> None:
    assert all(bound > LATE and reason for bound, reason in KNOWN.values())
    assert KNOWN.keys() <= {str(one) for one in registrations()}
    assert Row("Relu", late=1.1 * LATE).is_late
    assert all(not Row(name, late=bound).is_late for name, (bound, _) in KNOWN.items())


def test_a_case_grows_in_its_sizes_its_contents_and_its_attributes() -> None:
    [seed, *_] = cases()[Registration("", "AveragePool")]
    draft = grown(seed, Way("all sizes", True, True), 4)
    assert draft is not None
    assert "kernel_shape" in draft.attributes
    assert {way.what for way in ways(seed)} >= {"all sizes", "kernel_shape"}
    assert grown(seed, Way("all sizes", True, True), 1 << 20) is None


def test_a_registration_has_a_workload_or_cases_of_its_kind() -> None:
    names = {str(one) for one in registrations()}
    assert WORKLOADS.keys() <= names
    assert names - WORKLOADS.keys() <= {str(one) for one in cases()}
    assert {
        Registration("", "Gather"),
        Registration("", "Gather", STRINGS),
        Registration("", "Gather", COMPLEX),
    } <= cases().keys()
