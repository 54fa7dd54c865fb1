"""The pages of the documentation and the blocks of code in them."""

import re
from collections.abc import Iterator
from pathlib import Path

from ort_lite.record import Record

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN_FILE = re.compile(r"# ([\w./-]+\.py)\n")


class Block(Record):
    """`language` "" is a block that names none; `line` is where its text begins."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str:
        """The file that a Python block is, or is taken from, by its first line; or ""."""
        found = SHOWN_FILE.match(self.text) if self.language == "python" else None
        return "" if found is None else found[1]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            line = text.count("\n", 0, fence.start()) + 2
            yield Block(page.relative_to(ROOT).as_posix(), line, fence[1], fence[2])


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each `$ command` of a console block, and the lines below it: what it prints, or "" where the page does not say."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] if block.language == "console" else ():
        found = re.match(r"((?:.*\\\n)*.*)\n", part)
        assert found is not None, block
        yield found[1], part[found.end() :]


def commands_of_tables(page: Path) -> list[str]:
    """The commands in tables with the columns "question" and "command"."""
    tables = re.findall(r"^\| question \| command \|\n((?:\|.*\n)+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [command for table in tables for command in re.findall(r"`([^`]+)` \|$", table, re.MULTILINE)]
