"""SECURITY.md: each statement in a table names a test that is there, in short sentences and standard terms."""

import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "SECURITY.md"
ROW = re.compile(r"^\| (?P<statement>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
HEADS = ("What holds", "---")
ROWS = {
    row["statement"].strip(): re.findall(r"`([^`]+)`", row["tests"])
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))
    if row["statement"].strip() not in HEADS
}


def test_there_are_rows() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("statement", ROWS)
def test_a_statement_names_tests_that_are_there(statement: str) -> None:
    assert statement.endswith(".")
    assert ROWS[statement]
    assert [path for path in ROWS[statement] if not (ROOT / path).is_file()] == []
    assert [path for path in ROWS[statement] if "def test_" not in (ROOT / path).read_text(encoding="utf-8")] == []
