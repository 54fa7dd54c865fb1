"""Writes `index.txt` from the `@operator` lines of all files here: `python -m ort_lite_cpu.operators.index`."""

import os
import pkgutil
from importlib import import_module

from ort_lite_cpu import operators
from ort_lite_cpu.registry import registrations

FILE = os.path.join(os.path.dirname(__file__), "index.txt")
HEAD = "# Operators by file: for numbers, for strings, for complex numbers. Written by python -m ort_lite_cpu.operators.index"


def index() -> str:
    """Return the text of the file. Imports every family."""
    prefix = f"{operators.__name__}."
    modules = {module.name for module in pkgutil.walk_packages(operators.__path__, prefix)}
    for name in modules:
        import_module(name)
    sections: dict[str, dict[str, list[str]]] = {}
    for kind, registered in registrations().items():
        own = {(one.domain, one.family, one.op_type) for one in registered if one.family in modules}
        for domain, family, op_type in sorted(own):
            section = sections.setdefault(f"[{kind} {domain}".rstrip() + "]", {})
            section.setdefault(family.removeprefix(prefix), []).append(op_type)
    lines = [HEAD]
    for head, families in sections.items():
        lines += [head, *(" ".join((family, *names)) for family, names in families.items())]
    return "\n".join((*lines, ""))


if __name__ == "__main__":
    text = index()
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text)
