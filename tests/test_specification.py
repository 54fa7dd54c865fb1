"""docs/specification.md and the tests that are named after its rows say the same."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "specification.md"
Rows = dict[str, set[str]]
"""Row -> the files of its tests."""


def rows_of(page: str) -> Rows:
    """Raises ValueError for a row that the page has twice."""
    found: Rows = {}
    for row, tests in re.findall(r"^\| (\d+\.\d+) \|.*\| ([^|]*) \|$", page, re.MULTILINE):
        if row in found:
            raise ValueError(f"row {row} twice")
        found[row] = {Path(link).as_posix().removeprefix("../") for link in re.findall(r"\]\(([^)]+)\)", tests)}
    return found


def rows_of_tests() -> Rows:
    found: Rows = defaultdict(set)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for part, row in re.findall(r"^def test_spec_(\d+)_(\d+)_", file.read_text(encoding="utf-8"), re.MULTILINE):
            found[f"{part}.{row}"].add(file.relative_to(ROOT).as_posix())
    return found


def test_rows_and_tests_agree() -> None:
    page, tests = rows_of(PAGE.read_text(encoding="utf-8")), rows_of_tests()
    assert sorted(page.keys() - tests.keys()) == [], "rows without a test"
    assert sorted(tests.keys() - page.keys()) == [], "tests of no row"
    wrong = {row: sorted(tests[row]) for row in page if page[row] != tests[row]}
    assert wrong == {}, "the page names other files than these"


def test_rows_are_numbered_without_gaps() -> None:
    rows = [tuple(map(int, row.split("."))) for row in rows_of(PAGE.read_text(encoding="utf-8"))]
    assert len({part for part, _ in rows}) == 5
    counts = {part: sum(1 for other, _ in rows if other == part) for part, _ in rows}
    assert rows == [(part, row) for part in sorted(counts) for row in range(1, counts[part] + 1)]
