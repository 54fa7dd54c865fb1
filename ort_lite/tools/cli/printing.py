"""Tables and JSON on standard output."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ort_lite._version import __version__

WHOLE = ("runs on", "provider", "providers", "device")
"""Columns that stay whole however narrow a terminal is: the others fold."""
_WIDE = 1 << 12  # into a file or a pipe, lines are not broken


def console() -> Console:
    """Return a console for the standard output."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_WIDE)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[str] = ()) -> None:
    """Print a table. The columns named in `numbers` are aligned to the right."""
    console().print(table_of(columns, [[str(cell) for cell in row] for row in rows], numbers))


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> Table:
    """Return a table; columns named in `numbers` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=name in WHOLE)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_text(text: object) -> None:
    """Print text without markup, unwrapped."""
    console().print(Text(str(text)), soft_wrap=True)


def many(count: int, what: str) -> str:
    """Return a number of things, as in "1 node" or "2 nodes"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_json(command: str, data: Mapping[str, Any]) -> None:
    """Print the result of a command as JSON."""
    print_text(json_text(command, data))


def json_text(command: str, data: Mapping[str, Any]) -> str:
    """Return the result of a command as JSON, by the schema in output_schema.json."""
    return json.dumps({"command": command, "ort_lite": __version__, **data}, indent=2)
