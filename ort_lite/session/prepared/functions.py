"""Pickling of functions that are defined inside of others: by their module, the place of their code in it, and their cells.

The code itself is not stored. It is looked up in the module, which the key of a prepared program covers.
"""

import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from types import CellType, CodeType, FunctionType
from typing import Any

Path = tuple[int, ...]


def reduce_function(function: FunctionType) -> Any:
    """Return what `reducer_override` returns for a function. Raises PicklingError if its code is in no function of its module."""
    name, module = function.__qualname__, function.__module__
    if _find(module, name) is function:
        return NotImplemented
    root = name.partition(".<locals>")[0]
    path = _path(_code(module, root), function.__code__)
    if path is None:
        raise pickle.PicklingError(f"{module}.{name} is not found in its module")
    cells = function.__closure__ or ()
    state = (function.__defaults__, function.__kwdefaults__, vars(function))
    return _make, (module, root, path, name, cells), state, None, None, _fill


def reduce_cell(cell: CellType) -> Any:
    """Return what `reducer_override` returns for a cell."""
    return _cell, (), (cell.cell_contents,), None, None, _fill_cell


def _make(module: str, root: str, path: Path, name: str, cells: tuple[CellType, ...]) -> FunctionType:
    import_module(module)
    code = _code(module, root)
    for index in path:
        code = code.co_consts[index]
        if not isinstance(code, CodeType):
            raise pickle.UnpicklingError(f"{module}.{name} has changed")
    if len(code.co_freevars) != len(cells):
        raise pickle.UnpicklingError(f"{module}.{name} has changed")
    made = FunctionType(code, vars(sys.modules[module]), None, None, cells)
    made.__qualname__ = name
    return made


def _fill(function: FunctionType, state: tuple[Any, Any, dict[str, Any]]) -> None:
    function.__defaults__, function.__kwdefaults__ = state[:2]
    vars(function).update(state[2])


def _cell() -> CellType:
    return CellType()


def _fill_cell(cell: CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state


def _find(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _code(module: str, root: str) -> CodeType:
    """Return the code of a function or method of a module, below its decorators."""
    *outer, last = root.split(".")
    owner: Any = sys.modules[module]
    for part in outer:
        owner = getattr(owner, part, None)
    found = vars(owner).get(last) if owner is not None else None
    for name in ("fget", "func", "__func__", "__wrapped__"):
        while hasattr(found, name):
            found = getattr(found, name)
    code = getattr(found, "__code__", None)
    if not isinstance(code, CodeType):
        raise pickle.PicklingError(f"{module}.{root} is no function with code")
    return code


def _path(root: CodeType, wanted: CodeType) -> Path | None:
    """Return the indices of constants that lead from a function's code to code inside of it."""
    return next((path for path, code in _inside(root, ()) if code is wanted), None)


def _inside(code: CodeType, path: Path) -> Iterator[tuple[Path, CodeType]]:
    yield path, code
    for index, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _inside(constant, (*path, index))
