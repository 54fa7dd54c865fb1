"""docs/glossary.md: every class that a face shows is in it, and links lead to where a class is."""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "glossary.md"
FACES = ("graph", "inference", "options", "plugins", "provider", "session", "shapes", "transform")
LINE = re.compile(r"- (?:\*\*(.+?)\*\*|`(\w+)`): .+[.] \[[^]]+\]\(([^)]+)\)")
"""An ordinary word or a class, what it is, one link."""


def groups() -> Iterator[list[str]]:
    """The lines of the lists, list by list."""
    for part in re.split(r"^#+ .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if lines := [line for line in part.splitlines() if line.startswith("- ")]:
            yield lines


def classes() -> dict[str, str]:
    """Name -> its file, of what faces show; errors are all in one file."""
    found = {}
    for face in FACES:
        module = import_module(f"ort_lite.{face}")
        for name in module.__all__:
            shown = getattr(module, name)
            if inspect.isclass(shown) and not issubclass(shown, Exception):
                file = sys.modules[shown.__module__].__file__
                assert file is not None
                found[name] = Path(file).relative_to(ROOT).as_posix()
    return found


def test_every_line_is_a_word_what_it_is_and_a_link_to_a_file() -> None:
    lines = [line for group in groups() for line in group]
    assert len(lines) > 100
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    links = [match[3] for match in map(LINE.match, lines) if match is not None]
    assert [link for link in links if not (PAGE.parent / link).is_file()] == []


def test_words_of_a_group_are_in_the_order_of_the_alphabet() -> None:
    for group in groups():
        words = [(match[1] or match[2]).lower() for match in map(LINE.match, group) if match is not None]
        assert words == sorted(words)


@pytest.mark.parametrize(("name", "file"), sorted(classes().items()))
def test_a_class_that_a_face_shows_is_there_with_its_file(name: str, file: str) -> None:
    found = [match[3] for group in groups() for match in map(LINE.match, group) if match is not None and match[2] == name]
    assert found == [f"../{file}"], f"{name}: one line, with a link to {file}"
