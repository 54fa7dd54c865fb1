"""Docstrings begin with a sentence, and every public member has one."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT

FOLDERS = ("ort_lite", "providers", "transforms", "plugins")

QUESTIONS = (
    "All that|Anything|Everything|How|If|None|Nothing|Only|So many|Such|That|Those|What|When|Where|Whether|Which|Who|Whose"
)
PREPOSITIONS = (
    "About|Above|Across|After|Against|Along|Among|As|At|Before|Behind|Below|Beside|Besides|Between|Beyond|By|During|For|From|In|Inside"
    "|Into|Like|Of|Off|On|Onto|Out|Outside|Over|Per|Since|Through|To|Toward|Towards|Under|Unlike|Until|Up|Upon|Via|With|Within|Without"
)
FIRST_WORDS = tuple(f"{QUESTIONS}|{PREPOSITIONS}".split("|"))
"""First words of docstrings that are a fragment: "Whether the input is given." says less than "Return True if ..."."""

UNFINISHED: dict[str, tuple[int, int]] = {
    "ort_lite/compat": (5, 1),
    "ort_lite/inference": (1, 0),
    "ort_lite/load": (0, 4),
    "ort_lite/memory": (2, 5),
    "ort_lite/native": (6, 9),
    "ort_lite/options": (1, 0),
    "ort_lite/partition": (3, 0),
    "ort_lite/provider": (4, 4),
    "ort_lite/session": (1, 14),
    "ort_lite/tensors": (1, 0),
    "ort_lite/testing": (7, 190),
    "ort_lite/tools": (2, 25),
    "ort_lite/transform": (1, 0),
    "providers/ort_lite_cpu": (7, 51),
    "providers/ort_lite_cpu/kernels": (49, 25),
    "transforms/ort_lite_transforms": (5, 0),
}
"""Folder -> the most docstrings that may be a fragment, and the most public members that may lack one. Limits only ever fall.

A file counts for the longest folder that it is in. All other folders have neither.
"""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | Definition


class Offender(NamedTuple):
    """A docstring that is a fragment, or a public member without one."""

    line: int
    name: str
    head: str
    """The docstring's first line; empty if there is none."""

    def __str__(self) -> str:
        return f"{self.line} {self.name}: {self.head or 'has no docstring'}"


def members(node: Documented, name: str = "", public: bool = True) -> Iterator[tuple[Documented, str, bool]]:
    """Yield a module, class or function and those inside it, each with its dotted name and True if it is public.

    Members of a function are private: nothing outside can reach them.
    """
    yield node, name or "<module>", public
    for child in definitions(node):
        inner = public and isinstance(node, ast.Module | ast.ClassDef) and not child.name.startswith("_")
        yield from members(child, f"{name}.{child.name}".lstrip("."), inner)


def definitions(node: ast.AST) -> Iterator[Definition]:
    """Yield the classes and functions directly inside a node, also those below an `if` or a `try`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child
        else:
            yield from definitions(child)


def is_repeated(node: Documented) -> bool:
    """Return True for overloads and for setters and deleters of a property: the docstring is another definition's."""
    decorators = [] if isinstance(node, ast.Module) else node.decorator_list
    names = {d.id if isinstance(d, ast.Name) else d.attr for d in decorators if isinstance(d, ast.Name | ast.Attribute)}
    return not names.isdisjoint({"overload", "setter", "deleter"})


def is_fragment(head: str) -> bool:
    """Return True if a docstring's first line starts with one of FIRST_WORDS, as whole words."""
    return any(head.startswith(word) and not head[len(word) : len(word) + 1].isidentifier() for word in FIRST_WORDS)


def offenders(source: str) -> tuple[list[Offender], list[Offender]]:
    """Return the fragments and the public members without a docstring. A file without statements needs none."""
    fragments, missing = [], []
    module = ast.parse(source)
    for node, name, public in members(module) if module.body else ():
        line = 1 if isinstance(node, ast.Module) else node.lineno
        head = (ast.get_docstring(node) or "").partition("\n")[0]
        if head and is_fragment(head):
            fragments.append(Offender(line, name, head))
        elif not head and public and not is_repeated(node):
            missing.append(Offender(line, name, head))
    return fragments, missing


def folder_of(file: Path) -> str:
    """Return the entry of UNFINISHED that a file counts for, else its first two folders."""
    path = file.relative_to(ROOT).as_posix()
    entries = [folder for folder in UNFINISHED if path.startswith(f"{folder}/")]
    return max(entries, key=len, default="/".join(path.split("/")[:2]))


@cache
def offenders_by_folder(root: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the offenders of each folder below a root, as `file:line name: first line`. Tests and built files are left out."""
    found: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    files = [file for file in sorted((ROOT / root).rglob("*.py")) if not {"tests", "build", ".venv"} & set(file.parts)]
    assert files
    for file in files:
        for lines, several in zip(found[folder_of(file)], offenders(file.read_text(encoding="utf-8")), strict=True):
            lines.extend(f"{file.relative_to(ROOT)}:{one}" for one in several)
    return found


@pytest.mark.parametrize("root", FOLDERS)
def test_a_docstring_begins_with_a_sentence(root: str) -> None:
    for folder, (fragments, _) in offenders_by_folder(root).items():
        assert len(fragments) <= UNFINISHED.get(folder, (0, 0))[0], "\n".join(fragments)


@pytest.mark.parametrize("root", FOLDERS)
def test_a_public_member_has_a_docstring(root: str) -> None:
    for folder, (_, missing) in offenders_by_folder(root).items():
        assert len(missing) <= UNFINISHED.get(folder, (0, 0))[1], "\n".join(missing)


def test_unfinished_folders_exist() -> None:
    assert [folder for folder in UNFINISHED if not (ROOT / folder).is_dir()] == []


def test_a_fragment_is_told_from_a_sentence() -> None:
    source = '"""Tools."""\nclass A:\n    """What a file holds."""\n\n    def f(self):\n        """Format the name."""\n'
    fragments, missing = offenders(source)
    assert [str(one) for one in fragments] == ["2 A: What a file holds."]
    assert missing == []
    assert is_fragment("In order.") and is_fragment("All that fit.") and is_fragment("As: the name.")
    assert not is_fragment("Inputs of the graph.") and not is_fragment("All nodes.") and not is_fragment("Format a name.")


def test_members_without_a_docstring() -> None:
    source = """
class A:
    def f(self):
        def inner(): ...
    def _g(self): ...
    @property
    def p(self):
        'The size.'
    @p.setter
    def p(self, value): ...
class _B:
    def f(self): ...
try:
    def h(): ...
except ImportError:
    pass
"""
    fragments, missing = offenders(source)
    assert fragments == []
    assert [str(one) for one in missing] == [
        "1 <module>: has no docstring",
        "2 A: has no docstring",
        "3 A.f: has no docstring",
        "14 h: has no docstring",
    ]
    assert offenders("") == ([], [])
