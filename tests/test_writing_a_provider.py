"""The providers on the page for their authors pass the conformance kit themselves."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from ort_lite.testing import check_provider

pytestmark = pytest.mark.slow
TEXT = (Path(__file__).parents[1] / "docs" / "writing-a-provider.md").read_text(encoding="utf-8")
OPERATORS = ["Abs", "Add", "GlobalAveragePool", "LeakyRelu", "Mul", "Neg"]
FAILING = ("CarelessExecutionProvider", "NarrowExecutionProvider")
PROVIDERS = [name for name in re.findall(r"^>>> class (\w+ExecutionProvider)", TEXT, re.MULTILINE) if name not in FAILING]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page defines, without the sessions that it makes."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(TEXT):
        if example.source.startswith(
            ("import", "from", "class", "def", "@", "FUNCTIONS", "SYMBOLS", "registry", "pools", "for domain")
        ):
            exec(example.source, names)
    return names


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_of_the_page_passes_the_kit(name: str, page: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    report = check_provider(page[name], operators=OPERATORS)
    capsys.readouterr()  # one of them says when it makes and releases a state
    assert report.passed, str(report)
    assert report.claimed


def test_the_page_shows_what_there_is_to_show() -> None:
    assert len(PROVIDERS) >= 10
