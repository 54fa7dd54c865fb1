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


def members(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST, tuple[str, ...]]]:
    """Yield each public class and function outside of functions: its name, its node and the bases of its class."""
    bases = tuple(ast.unparse(base).split("[")[0].split(".")[-1] for base in getattr(node, "bases", ()))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not child.name.startswith("_"):
                yield f"{name}{child.name}", child, bases
                if isinstance(child, ast.ClassDef):
                    yield from members(child, f"{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from members(child, name)


def describes_itself(node: ast.AST) -> bool:
    """Return True for a member with a docstring, and for further definitions of one: overloads and setters."""
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    repeated = any(ast.unparse(each).endswith(("overload", ".setter")) for each in node.decorator_list)
    return repeated or ast.get_docstring(node) is not None


def test_public_members_have_docstrings() -> None:
    """A method may leave it to the method of a base class that it overrides; scripts that measure have none."""
    sources = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    sources = [file for file in sources if not {"tests", "build", "benchmarks"} & {*file.relative_to(ROOT).parts}]
    trees = {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in sources}
    found = [(path, *member) for path, tree in trees.items() for member in members(tree)]
    described = {name for _, name, node, _ in found if describes_itself(node)}
    parents: dict[str, set[str]] = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parents.setdefault(node.name, set()).update(ast.unparse(b).split("[")[0].split(".")[-1] for b in node.bases)

    def inherits(bases: tuple[str, ...] | set[str], method: str) -> bool:
        return any(f"{base}.{method}" in described or inherits(parents.get(base, set()) - {base}, method) for base in bases)

    missing = [
        f"{path}: {name}"
        for path, name, node, bases in found
        if not describes_itself(node) and not path.startswith(LATER) and not inherits(bases, name.split(".")[-1])
    ]
    assert missing == []


def test_a_fragment_is_told_from_a_sentence() -> None:
    source = 'class A:\n    """What a file holds."""\n\n    def f(self):\n        """Format the name."""\n'
    assert [(line, bool(FRAGMENT.match(head))) for line, head in heads(source)] == [(2, True), (5, False)]
