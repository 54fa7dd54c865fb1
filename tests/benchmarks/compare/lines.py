"""Lines of Python that are code: without blank lines, comments and docstrings."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

FOLDERS = ("ort_lite", "providers", "transforms", "plugins", "tests", "examples")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def lines_of_code(source: Path) -> dict[str, int]:
    """Count by folder: those below `ort_lite` one by one, the others as a whole."""
    counts: Counter[str] = Counter()
    for top in FOLDERS:
        for path in sorted((source / top).rglob("*.py")):
            parts = path.relative_to(source).parts
            if any(part.startswith(".") for part in parts):
                continue
            folder = "/".join(parts[:2]) if top == "ort_lite" and len(parts) > 2 else top
            counts[folder] += count(path.read_text(encoding="utf-8"))
    return dict(sorted(counts.items()))


def count(text: str) -> int:
    """Return the number of lines that hold a token of code, docstrings left out."""
    docstrings = {line for node in ast.walk(ast.parse(text)) for line in _docstring(node)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def _docstring(node: ast.AST) -> range:
    """Lines of strings that stand alone: docstrings of modules, classes, functions and attributes."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)
