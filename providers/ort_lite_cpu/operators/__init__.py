"""Operator families: one file each, imported when a model first needs one of its operators.

`index.txt` lists the operators of each file; `python -m ort_lite_cpu.operators.index` writes it from the `@operator` lines.
"""

import os

Key = tuple[str, str]
"""The domain and the type of an operator."""


def _read() -> dict[str, dict[Key, str]]:
    """The file that lowers each operator, for numbers, strings and complex numbers; `[strings com.microsoft]` begins a section."""
    with open(f"{os.path.dirname(__file__)}/index.txt", "rb") as file:
        _, *sections = file.read().decode().split("\n[")
    found: dict[str, dict[Key, str]] = {"numbers": {}, "strings": {}, "complex": {}}
    for section in sections:
        head, *lines = section.splitlines()
        kind, _, domain = head.rstrip("]").partition(" ")
        for family, *names in map(str.split, lines):
            for name in names:  # four times as fast as a comprehension for each line
                found[kind][domain, name] = family
    return found


FAMILIES, STRING_FAMILIES, COMPLEX_FAMILIES = _read().values()
"""(domain, op_type) -> the file here that lowers it. Those for strings are for nodes that read or make strings, of which an operator
that is not in there is no special case; those for complex numbers are for nodes that read some, of which one kernel moves or sums
the parts.
"""
