"""The providers on the page for their authors pass the conformance kit themselves."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from ort_lite.testing import CHECKS, GeneratedModels, Kit
from ort_lite.testing.report import run

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
            ("import", "from", "class", "def", "@", "FUNCTIONS", "SIZED", "SYMBOLS", "registry", "pools", "for domain")
        ):
            exec(example.source, names)
    return names


@pytest.fixture(scope="module")
def models() -> GeneratedModels:
    """Fewer models than by default, which all providers of the page share."""
    return GeneratedModels(most=120)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_of_the_page_passes_the_kit(
    name: str, page: dict[str, Any], models: GeneratedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    kit = Kit(page[name], OPERATORS, models=models)
    findings = [finding for check in CHECKS.values() for finding in run(check, kit)]
    capsys.readouterr()  # one of them says when it makes and releases a state
    assert findings == []
    assert kit.positive_cases


def test_the_page_shows_what_there_is_to_show() -> None:
    assert len(PROVIDERS) >= 10
