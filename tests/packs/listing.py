"""A list of kernels as text: a line a kernel, JSON, in order; its last field says for which targets it is."""

import ast
import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ort_lite.native import Spec

Listed = dict[Spec, frozenset[str]]
"""Specs, and names of the targets that they are for."""


def write(file: Path, listed: Mapping[Spec, Iterable[str]]) -> None:
    """Raises ValueError for a function that has no name of its own to be found by."""
    lines = sorted(json.dumps([*_fields(spec), " ".join(sorted(targets))]) for spec, targets in listed.items())
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read(file: Path) -> Listed:
    """Without what the sources no longer have: functions that were renamed or removed since the list was written."""
    found: Listed = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        *fields, targets = json.loads(line)
        spec = _spec(*fields)
        if spec is not None:
            found[spec] = frozenset(targets.split())
    return found


def _fields(spec: Spec) -> list[Any]:
    """module, name, text of the source, types, statics, signature."""
    if spec.source is not None:
        name, text, module = spec.source
    else:
        assert spec.function is not None
        module, name, text = spec.function.__module__, spec.function.__qualname__, ""
        if "<locals>" in name:
            raise ValueError(f"{module}.{name} is made by a function: no list can name it")
    return [module, name, text, " ".join(spec.types), spec.exact, spec.signature]


def _spec(module: str, name: str, text: str, types: str, statics: str, signature: str) -> Spec | None:
    values = ast.literal_eval(statics)
    if text:
        return Spec(None, types.split(), values, (name, text, module), signature)
    function = getattr(import_module(module), name, None)
    return None if function is None else Spec(function, types.split(), values, None, signature)
