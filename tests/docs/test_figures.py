"""Figures that the first pages state are those of the sources."""

import re

import pytest

from ort_lite.testing import CHECKS
from tests.benchmarks.rows import row_names
from tests.docs.pages import ROOT

STATED = {"checks": len(CHECKS), "models and operators": len(row_names())}


@pytest.mark.parametrize(
    ("page", "thing"), [("README.md", "checks"), ("docs/why.md", "checks"), ("docs/why.md", "models and operators")]
)
def test_a_count_is_that_of_the_sources(page: str, thing: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    counts = re.findall(rf"(\d+) {thing}\b", text)
    assert counts
    assert set(counts) == {str(STATED[thing])}, f"{page}: {thing}"
