"""docs/glossary.md: few terms, each of them used in the code."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "glossary.md"
LINE = re.compile(r"- \*\*(.+?)\*\*: .+[.] \[([^]]+)\]\(([^)]+)\)")
"""A term, its definition, one link."""

LIMIT = 60
"""Terms of the page: whoever adds one above this finds a standard term instead, or removes another."""


def groups() -> Iterator[list[str]]:
    """Yield the lines of each list."""
    for part in re.split(r"^#+ .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if lines := [line for line in part.splitlines() if line.startswith("- ")]:
            yield lines


def entries() -> Iterator[tuple[str, str, Path]]:
    """Yield the term, the text of its link and the file that it leads to, for each line."""
    for group in groups():
        for line in group:
            match = LINE.fullmatch(line)
            assert match is not None, f"expected a term, its definition and a link: {line}"
            yield match[1], match[2], PAGE.parent / match[3]


def test_each_entry_links_to_a_file_by_its_name() -> None:
    assert [name for _, name, file in entries() if not file.is_file() or file.name != name] == []


def test_there_are_few_terms() -> None:
    terms = [term for term, _, _ in entries()]
    assert len(set(terms)) == len(terms) <= LIMIT


def test_terms_are_in_alphabetical_order() -> None:
    for group in groups():
        terms = [match[1].lower() for match in map(LINE.match, group) if match is not None]
        assert terms == sorted(terms)


def test_each_term_is_used_in_the_code() -> None:
    folders = ("ort_lite", "providers", "transforms")
    code = "\n".join(file.read_text(encoding="utf-8") for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    unused = [term for term, _, _ in entries() if not re.search(re.sub(r"\W+", r"[\\W_]*", term), code, re.IGNORECASE)]
    assert unused == []
