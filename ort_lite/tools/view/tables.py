"""Tables for a notebook: static HTML in the page's own colors, with all text escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from ort_lite.errors import shorten

MOST_ROWS, MOST_BYTES = 200, 24_000
"""Of a table. A notebook keeps what it shows."""
FEW, MOST_LINES = 3, 60
_CELL = 160
"""Characters of a cell."""


def collapsible_table(summary: str, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[str] = ()) -> str:
    """Return a table that is collapsed until it is opened."""
    return f"<details><summary>{escape(summary)}</summary>{table(columns, rows, numbers)}</details>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[str] = ()) -> str:
    """Return a table. The columns named in `numbers` are aligned to the right; rows beyond the limit are counted, not shown."""
    right = {columns.index(name) for name in numbers}
    shown: list[str] = []
    size = 0
    for row in rows[:MOST_ROWS]:
        shown.append(_row("td", row, right))
        size += len(shown[-1].encode())
        if size > MOST_BYTES:
            break
    more = f"<p>and {len(rows) - len(shown)} more rows</p>" if len(rows) > len(shown) else ""
    return f"<table><thead>{_row('th', columns, right)}</thead><tbody>{''.join(shown)}</tbody></table>{more}"


def collapsible_list(what: str, lines: Sequence[str]) -> str:
    """Return one line per item, collapsed if there are more than FEW. `what` names the items in the plural."""
    told = [*lines[:MOST_LINES], *([f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])]
    shown = "".join(f"<div>{escape(shorten(line, _CELL))}</div>" for line in told)
    return shown if len(lines) <= FEW else f"<details><summary>{len(lines)} {escape(what)}</summary>{shown}</details>"


def _row(tag: str, cells: Sequence[str], right: set[int]) -> str:
    sides = ("right" if number in right else "left" for number in range(len(cells)))
    made = (
        f'<{tag} style="text-align:{side}">{escape(shorten(cell, _CELL))}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"
