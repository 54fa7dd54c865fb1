"""Writes `index.txt` from the `@shape_rule` lines of all files here: `python -m ort_lite_transforms.shapes.index`."""

import os
import pkgutil
from importlib import import_module

from ort_lite_transforms import shapes

FILE = os.path.join(os.path.dirname(__file__), "index.txt")
HEAD = "# Operators by file. Written by python -m ort_lite_transforms.shapes.index"


def index() -> str:
    """The text of the file. Imports every family."""
    sections: dict[str, dict[str, list[str]]] = {}
    for module in pkgutil.iter_modules(shapes.__path__):
        rules = getattr(import_module(f"{shapes.__name__}.{module.name}"), "RULES", ())
        for domain, op_type in sorted({(rule.domain, rule.op_type) for rule in rules}):
            sections.setdefault(domain, {}).setdefault(module.name, []).append(op_type)
    lines = [HEAD]
    for domain, families in sorted(sections.items()):
        lines += [f"[{domain}]", *(" ".join((family, *names)) for family, names in sorted(families.items()))]
    return "\n".join((*lines, ""))


if __name__ == "__main__":
    text = index()
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text)
