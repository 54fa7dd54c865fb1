"""docs/performance.md: what it says of how times are measured, then ratios of all CPUs side by side, then a section a CPU."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

SIDE_BY_SIDE = "Side by side"
MEAN = "geometric mean"
MODELS = "; models in use"
"""The end of headings of sections that have other rows: they are not compared side by side."""
DIFFERS = "results differ"
"""Instead of a ratio."""

Ratios = Mapping[str, tuple[float, ...]]
"""By row, a ratio for each number of threads."""


def with_section(document: str, heading: str, body: str) -> str:
    """The document with this section instead of the one of the same heading; sections are sorted, the comparison is made anew."""
    preamble, sections = _split(document)
    sections[heading] = body.strip() + "\n"
    sections.pop(SIDE_BY_SIDE, None)
    names = sorted(sections, key=str.lower)
    compared = side_by_side({name: ratios(sections[name]) for name in names if not name.endswith(MODELS)})
    whole = {SIDE_BY_SIDE: compared, **{name: sections[name] for name in names}}
    return "\n".join([preamble.rstrip() + "\n", *(f"## {name}\n\n{text}" for name, text in whole.items())])


def side_by_side(found: Mapping[str, Ratios]) -> str:
    """Rows in the order in which the sections have them, the mean last."""
    rows = list(dict.fromkeys(row for ratios in found.values() for row in ratios if row != MEAN))
    lines = [[row, *(_cell(ratios.get(row)) for ratios in found.values())] for row in [*rows, MEAN]]
    return f"Ratios with 1 thread and with 2.\n\n{table(['', *found], lines)}"


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown; all columns but the first hold numbers."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in [columns, rule, *lines])


def ratios(section: str) -> dict[str, tuple[float, ...]]:
    """Out of a section's table: the columns that are called ratio, of rows that have one."""
    lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    columns = [k for k, name in enumerate(lines[0] if lines else []) if name.startswith("ratio")]
    return {line[0]: tuple(float(line[k]) for k in columns) for line in lines[2:] if DIFFERS not in line}


def geometric_mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found))


def _split(document: str) -> tuple[str, dict[str, str]]:
    preamble, *parts = re.split(r"^## ", document, flags=re.MULTILINE)
    sections = (part.split("\n", 1) for part in parts)
    return preamble, {heading.strip(): text.strip() + "\n" for heading, text in sections}


def _cell(found: Sequence[float] | None) -> str:
    return "" if found is None else ", ".join(f"{ratio:.2f}" for ratio in found)
