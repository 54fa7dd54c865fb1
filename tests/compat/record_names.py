"""Writes down the public names of an installed onnxruntime: `python -m tests.compat.record_names FILE`.

For each module the names; for a class its public members, those of its bases in onnxruntime too; for a function its parameters, as
[name, kind], kind being "required", "optional" or "any" (of *args and **kwargs), None where nothing tells them. Signatures of native
functions are in their docstrings, whose parameters have no names ("arg0"): these tell numbers alone.
"""

import inspect
import json
import re
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

MODULES = (
    "onnxruntime",
    "onnxruntime.backend",
    "onnxruntime.backend.backend",
    "onnxruntime.backend.backend_rep",
    "onnxruntime.datasets",
    "onnxruntime.capi.onnxruntime_inference_collection",
    "onnxruntime.capi.onnxruntime_pybind11_state",
    "onnxruntime.capi.onnxruntime_validation",
)
NATIVE = "onnxruntime.capi.onnxruntime_pybind11_state"
_OF_PYTHON: tuple[type, ...] = (object, int, BaseException)
"""Classes whose members are not recorded: they, and the names of `*args` and `**kwargs`, differ between Pythons."""


def recorded() -> dict[str, Any]:
    """{module: {name: what it is}}, sorted; "version" besides."""
    import onnxruntime

    made: dict[str, Any] = {"version": onnxruntime.__version__}
    for name in MODULES:
        module = import_module(name)
        made[name] = {each: described(getattr(module, each)) for each in sorted(dir(module)) if own(module, each)}
    return made


def own(module: ModuleType, name: str) -> bool:
    """Whether it is onnxruntime's, and public: not what a module imports for itself."""
    found = getattr(module, name)
    if (name.startswith("_") and name != "__version__") or isinstance(found, ModuleType):
        return False
    home = getattr(found, "__module__", module.__name__)
    whose = "onnxruntime" if module.__name__ in ("onnxruntime", NATIVE) else module.__name__
    return f"{home}.".startswith(f"{whose}.")


def described(found: Any) -> dict[str, Any]:
    """A class with its members, a function with its parameters, or another value with its type."""
    if isinstance(found, type):
        of_python = [base for base in _OF_PYTHON if issubclass(found, base)]
        members = sorted(
            name for name in dir(found) if not name.startswith("_") and not any(hasattr(base, name) for base in of_python)
        )
        return {
            "kind": "class",
            "parameters": parameters(inspect.getattr_static(found, "__init__")),
            "members": {name: member(inspect.getattr_static(found, name), getattr(found, name)) for name in members},
        }
    if callable(found):
        return {"kind": "function", "parameters": parameters(found)}
    return {"kind": "value"}


def member(static: Any, found: Any) -> dict[str, Any]:
    if not isinstance(static, property) and callable(found) and not isinstance(found, type):
        return {"kind": "method", "parameters": parameters(found)}
    return {"kind": "value"}


def parameters(function: Any) -> list[list[str]] | None:
    """Without `self`; those of the first of several native signatures."""
    try:
        found = [(each.name, _kind(each)) for each in inspect.signature(function).parameters.values()]
        listed = [["*" if kind == "any" else name, kind] for name, kind in found]
    except (TypeError, ValueError):
        return _of_docstring(getattr(function, "__doc__", "") or "")
    return [each for k, each in enumerate(listed) if not (k == 0 and each[0] in ("self", "cls"))]


def _kind(parameter: inspect.Parameter) -> str:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return "any"
    return "required" if parameter.default is parameter.empty else "optional"


def _of_docstring(text: str) -> list[list[str]] | None:
    found = re.search(r"^(?:\d+\. )?\w+\((.*)\) -> ", text, re.MULTILINE)
    if found is None or "Overloaded function" in text:
        return None
    inside = re.sub(r"\[[^\[\]]*\]", "", re.sub(r"\[[^\[\]]*\]", "", re.sub(r"\[[^\[\]]*\]", "", found[1])))
    listed = [each.strip() for each in inside.split(",") if each.strip() not in ("", "/", "*")]
    made = [[each.partition(":")[0].strip(), "optional" if "=" in each else "required"] for each in listed]
    return [each for each in made if each[0] not in ("self", "cls") and not each[0].startswith("*")]


def main(path: str) -> None:
    """Writes the record. Raises where onnxruntime is ort_lite."""
    made = recorded()
    if "lite" in made["version"]:
        raise SystemExit("onnxruntime is ort_lite here; record an installed onnxruntime")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file, indent=0, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
