"""Shape rules, one operator family a file, imported when a model first needs one of its operators.

What a rule is, `ort_lite.inference` says. `index.txt` lists the operators of each file; `python -m ort_lite_transforms.shapes.index`
writes it from the `@shape_rule` lines.
"""

import os
from functools import partial
from importlib import import_module

from ort_lite.inference import RuleFamily, ShapeRule


def rules_of(family: str) -> list[ShapeRule]:
    """The rules in a file of this folder."""
    found: list[ShapeRule] = import_module(f"ort_lite_transforms.shapes.{family}").RULES
    return found


def _read() -> dict[str, list[tuple[str, str]]]:
    """The operators of each file; `[com.microsoft]` begins a section."""
    with open(f"{os.path.dirname(__file__)}/index.txt", "rb") as file:
        _, *sections = file.read().decode().split("\n[")
    found: dict[str, list[tuple[str, str]]] = {}
    for section in sections:
        domain, *lines = section.splitlines()
        for family, *names in map(str.split, lines):
            found.setdefault(family, []).extend([(domain.rstrip("]"), name) for name in names])
    return found


FAMILIES = {family: RuleFamily(keys, partial(rules_of, family)) for family, keys in _read().items()}
"""By file; every (domain, op_type) that it has rules for."""
