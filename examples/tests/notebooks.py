"""Run the notebooks, and write their outputs into them: `python examples/tests/notebooks.py`."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1]
LARGEST = 20_000
"""Characters of an output that is written. The page of a session has a megabyte."""
SHORT = 500
"""Characters of a value's text that are written."""
COMPARED = 400
"""Characters of a value's text that are compared: of the rest, the length of a processor's name decides how much is written."""
_NUMBER = re.compile(r"-?\d[\d.,e+-]*\s*(?:ns|us|µs|ms|s|B|kB|MB|KiB|MiB|%|x)?\b%?")
_PROCESSOR = re.compile(r"(?<='Processor', ')[^']*")
_DRAWING = re.compile(r"\S{40,}|-{2,}")


@cache
def run(name: str) -> Any:
    """Return a notebook with its outputs, as if a reader had run it from top to bottom. Raises if a cell does."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    return notebook


def outputs(notebook: Any) -> list[str]:
    """Return the output of each code cell: printed text, or the richest form of its last value."""
    return ["".join(map(_text, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return str(output.data.get("text/html", output.data["text/plain"]))


def outlines(notebook: Any) -> list[str]:
    """Return the outputs without what differs between runs and CPUs: numbers with their units, widths of columns, drawings."""
    shown = ["".join(map(_plain, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]
    words = (_DRAWING.sub("…", _NUMBER.sub("#", text)).split() for text in shown)
    return [" ".join(word for word, _ in groupby(line)) for line in words]


def _plain(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return _PROCESSOR.sub("…", str(output.data["text/plain"]))[:COMPARED]


def write(name: str) -> None:
    """Write the outputs of a run into a notebook's file, without large ones and without the times of cells."""
    notebook = run(name)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = list(_small(cell.outputs))
    nbformat.write(notebook, EXAMPLES / name)


def _small(found: list[Any]) -> Iterator[Any]:
    for output in found:
        if output.output_type != "stream":
            plain = output.data["text/plain"][:SHORT]
            output.data = {kind: text for kind, text in output.data.items() if len(str(text)) <= LARGEST} | {
                "text/plain": plain
            }
            if "execution_count" in output:
                output.execution_count = None
        yield output


if __name__ == "__main__":
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        write(path.name)
