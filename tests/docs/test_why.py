"""Figures on the page "Why ort-lite" are those of the page on performance."""

from tests.docs.pages import ROOT


def table(text: str) -> list[list[str]]:
    """The cells of the first table."""
    lines = text[text.index("\n| ") + 1 :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def test_the_ratios_are_those_that_were_measured() -> None:
    measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    head, *rows = table(measured[measured.index("## Side by side") :])
    ratios = {(cpu, row[0]): ratio for row in rows for cpu, ratio in zip(head[1:], row[1:], strict=True)}
    names, *shown = table((ROOT / "docs" / "why.md").read_text(encoding="utf-8"))
    assert [row[0] for row in shown] == head[1:], "docs/why.md has a row for each CPU of docs/performance.md"
    for cpu, *cells in shown:
        assert cells == [ratios[cpu, name] for name in names[1:]], f"docs/why.md: {cpu}"
