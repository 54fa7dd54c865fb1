"""Pickling of functions that are defined inside of others: by their module, the place of their code in it, and their cells.

The code itself is not stored. It is looked up in the module, which the key of a prepared program covers.
"""

import pickle
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import CellType, CodeType, FunctionType
from typing import Any

from ort_lite.record import Record

PACKAGES = ("ort_lite", "ort_lite_cpu", "ort_lite_transforms")
"""The packages whose classes and functions an entry may refer to."""
Path = tuple[int, ...]


class CodePlace(Record):
    """The place of the code of an inner function: its module, the function around it, and the way there."""

    module: str
    root: str
    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_code, (self.module, self.root, self.path)


def reduce_function(function: FunctionType) -> Any:
    """Return what `reducer_override` returns for a function. Raises PicklingError if its code is in no function of its module."""
    place = _place_of(function)
    if place is None:
        return NotImplemented
    state = (function.__defaults__, function.__kwdefaults__, vars(function))
    return _make, (place, place.module, function.__qualname__, function.__closure__ or ()), state, None, None, _fill


def reduce_pure_function(function: FunctionType) -> Any:
    """Return the same for a function that shares its cells with no other: their contents, which takes a third of the time to read."""
    place = _place_of(function)
    if place is None or vars(function) or function.__kwdefaults__:
        return reduce_function(function)
    contents = tuple([cell.cell_contents for cell in function.__closure__ or ()])
    if any(each is function for each in contents):
        return reduce_function(function)
    return _make_pure, (place, place.module, function.__qualname__, contents, function.__defaults__)


def _place_of(function: FunctionType) -> CodePlace | None:
    """Return the place of an inner function; None for others."""
    name, module = function.__qualname__, function.__module__
    if _find(module, name) is function:
        return None
    root = name.partition(".<locals>")[0]
    path = _path(_code(module, root), function.__code__)
    if path is None:
        raise pickle.PicklingError(f"{module}.{name} is not found in its module")
    return _place(module, root, path)


@cache
def _place(module: str, root: str, path: Path) -> CodePlace:
    """Return the one object of a place, which a pickle then has once."""
    return CodePlace(module, root, path)


def reduce_cell(cell: CellType) -> Any:
    """Return what `reducer_override` returns for a cell."""
    return _cell, (), (cell.cell_contents,), None, None, _fill_cell


def _globals_of(module: str) -> dict[str, Any]:
    """Return the globals of a module, imported if needed. Raises UnpicklingError for one of other packages."""
    if module.partition(".")[0] not in PACKAGES:
        raise pickle.UnpicklingError(f"{module} is not allowed")
    return vars(sys.modules.get(module) or import_module(module))


@cache
def _find_code(module: str, root: str, path: Path) -> CodeType:
    _globals_of(module)
    code = _code(module, root)
    for index in path:
        code = code.co_consts[index]
        if not isinstance(code, CodeType):
            raise pickle.UnpicklingError(f"{module}.{root} has changed")
    return code


def _make(code: CodeType, module: str, name: str, cells: tuple[CellType, ...]) -> FunctionType:
    made = FunctionType(code, _globals_of(module), None, None, cells)
    made.__qualname__ = name
    return made


def _make_pure(
    code: CodeType, module: str, name: str, contents: tuple[Any, ...], defaults: tuple[Any, ...] | None
) -> FunctionType:
    made = FunctionType(code, _globals_of(module), None, defaults, tuple([CellType(each) for each in contents]))
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
