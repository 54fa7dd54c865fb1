"""Docstrings begin with a sentence: with a verb, or with the thing that they describe."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

FOLDERS = ("ort_lite", "providers", "transforms", "plugins")

LATER = "providers/ort_lite_cpu/kernels/"
"""Their docstrings are rewritten together with their signatures."""

FRAGMENT = re.compile(
    r"(All that|Anything|As|At|By|Everything|For|From|How|If|In|None|Nothing|Of|On|Only|So many|Such|That|Those|To|What|When"
    r"|Where|Whether|Which|Who|Whose|With)\b"
)
"""First words of docstrings that are a fragment: "Whether the input is given." says less than "Return True if ..."."""


def heads(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of each docstring of a module, class or function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.body[0].lineno, text.splitlines()[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_begins_with_a_sentence(folder: str) -> None:
    files = [file for file in sorted((ROOT / folder).rglob("*.py")) if "tests" not in file.parts and "build" not in file.parts]
    assert files
    fragments = [
        f"{file.relative_to(ROOT)}:{line}: {head}"
        for file in files
        if not file.relative_to(ROOT).as_posix().startswith(LATER)
        for line, head in heads(file.read_text(encoding="utf-8"))
        if FRAGMENT.match(head)
    ]
    assert fragments == []


def test_a_fragment_is_told_from_a_sentence() -> None:
    source = 'class A:\n    """What a file holds."""\n\n    def f(self):\n        """Format the name."""\n'
    assert [(line, bool(FRAGMENT.match(head))) for line, head in heads(source)] == [(2, True), (5, False)]
