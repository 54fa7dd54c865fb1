"""Faults to plant into a copy of the sources: each changes a result that a valid model can show. They are listed in faults.txt."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ("axis", "rounding", "operand", "nan", "edge", "alias")
"""Off by one in an axis, wrong rounding, a swapped operand, a lost NaN, an edge left out, memory or a result wrongly shared."""
_TITLE = re.compile(r"(.+) \[(\w+); (.+)\]")


class Fault(NamedTuple):
    """An edit of a file: `new` in the place of `old`, which occurs once. Models are steered at operators, or at transforms."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    operators: tuple[str, ...] = ()
    transforms: tuple[str, ...] = ()

    def plant(self, root: Path) -> str:
        """Edit the file below `root`, and return its former text. Raises ValueError unless `old` occurs once in it."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: the text to replace occurs {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


def catalogue() -> tuple[Fault, ...]:
    """Read all faults."""
    return tuple(_faults(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))


def _faults(text: str) -> Iterator[Fault]:
    """Yield the faults of paragraphs, which are `NAME [KIND; STEERING]` and an edit. `= FILE` stands before the first one of a file.

    Models are steered at operators, or at transforms, whose names begin with a small letter and have no dot.
    """
    file = ""
    for paragraph in text.split("\n\n"):
        title, *edit = paragraph.splitlines()
        if title.startswith("= "):
            file = title.removeprefix("= ")
            title, *edit = edit
        match = _TITLE.fullmatch(title)
        assert match is not None, title
        old, new = ("\n".join(line[2:] for line in edit if line[0] == sign) for sign in "-+")
        steering = tuple(match[3].split(", "))
        transforms = tuple(name for name in steering if name[0].islower() and "." not in name)
        operators = tuple(name for name in steering if name not in transforms)
        yield Fault(match[1], match[2], file, old, new, operators, transforms)
