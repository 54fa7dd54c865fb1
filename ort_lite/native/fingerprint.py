"""Digests of what functions do: of their bytecode and of everything in the project that they refer to. Reads no files."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ort_lite.native.digest import digest
from ort_lite.native.marks import DEFAULT_OPTIONS, Emitted, NativeOptions
from ort_lite.record import Record

# Their versions are part of every key: see spec.py.
_FOREIGN = frozenset(sys.stdlib_module_names) | {"numpy", "numba", "llvmlite", "builtins"}
_FOLLOWED = (FunctionType, Emitted, type)
_NAMED = (ModuleType, BuiltinFunctionType)
_PLAIN = frozenset({int, float, bool, type(None)})


class _Contribution(Record):
    """The contribution of one function to a digest, and the functions and classes that it refers to."""

    digest: bytes
    references: list[Any]
    needs: str


class Fingerprint(NamedTuple):
    """A digest of what code does, and the features requested by functions that it refers to: see `marks.emitter`."""

    digest: bytes
    needs: tuple[str, ...]


# One entry per function: code and globals do not change after they were compiled.
_known: dict[Any, _Contribution] = {}


def fingerprint(root: Any) -> Fingerprint:
    """Return the digest of a function including, transitively, the helpers, emitters and constants that it refers to.

    Ignores comments, docstrings and line numbers. Does not follow a module imported inside a function. O(code) once per function,
    then O(number of functions reached).
    """
    number: dict[int, int] = {}
    waiting = [root]
    parts = []
    needs = set()
    while waiting:
        item = waiting.pop()
        if id(item) in number:
            parts.append(b"%d" % number[id(item)])
            continue
        number[id(item)] = len(number)
        own = _own(item)
        parts.append(own.digest)
        waiting.extend(own.references)
        if own.needs:
            needs.add(own.needs)
    return Fingerprint(digest(b"".join(parts)), tuple(sorted(needs)))


def fingerprint_of_source(text: str, scope: Mapping[str, Any]) -> Fingerprint:
    """Return the digest of generated text with the globals `scope`. Every word in it counts as a reference."""
    described = [text]
    references: list[Any] = []
    _note_globals(dict.fromkeys(_words(text)), scope, described, references)
    found = [fingerprint(reference) for reference in references]
    needs = {names for each in found for names in each.needs}
    return Fingerprint(digest(_digest(described), *(each.digest for each in found)), tuple(sorted(needs)))


def _words(text: str) -> Iterable[str]:
    return "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()


def _digest(described: Iterable[str]) -> bytes:
    """Return the digest of texts without null characters, which no name and no repr contains."""
    return digest("\0".join(described).encode())


_LAZY = frozenset({"__annotations__", "__annotations_cache__"})
"""The members that a class gets when its annotations are first accessed."""


def _own(item: Any) -> _Contribution:
    own = _known.get(item)
    if own is None:
        own = _known[item] = _describe(item)
    return own


def _describe(item: Any) -> _Contribution:
    described: list[str] = []
    references: list[Any] = []
    if isinstance(item, Emitted):
        described = ["emitted", *item.signatures, item.needs, str(item.typed)]
        references = [item.emitter, *([item.otherwise] if item.otherwise else [])]
    elif isinstance(item, type):
        described = ["class", item.__qualname__]
        for name, value in vars(item).items():
            if name not in _LAZY:
                _note(name, value, described, references)
    else:
        _describe_function(item, described, references)
    return _Contribution(_digest(described), references, item.needs if isinstance(item, Emitted) else "")


def _describe_function(function: Callable[..., Any], described: list[str], references: list[Any]) -> None:
    assert isinstance(function, FunctionType)
    options: NativeOptions = getattr(function, "__native__", DEFAULT_OPTIONS)
    described += [*options.fastmath, str(options.inline), _stable(function.__defaults__)]
    for name, value in sorted(function.__annotations__.items()):
        described += [name, str(value)]
        if isinstance(value, type) and issubclass(value, tuple):  # a NamedTuple: its fields are parameters
            described.append(str(value.__annotations__))
    used: dict[str, None] = {}
    _describe_code(function.__code__, described, used, function.__doc__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        _note(name, cell.cell_contents, described, references)
    _note_globals(used, function.__globals__, described, references)


def _describe_code(code: CodeType, described: list[str], used: dict[str, None], docstring: str | None) -> None:
    described += [code.co_code.hex(), f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}"]
    for names in (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars):
        described += [str(len(names)), *names]
    used.update(dict.fromkeys(code.co_names))
    for position, value in enumerate(code.co_consts):
        if position == 0 and docstring is not None and value == docstring:
            continue
        if isinstance(value, CodeType):
            _describe_code(value, described, used, None)
        else:
            described.append(_stable(value))


def _note_globals(used: Iterable[str], scope: Mapping[str, Any], described: list[str], references: list[Any]) -> None:
    for name in used:
        if name not in scope:
            continue
        value = scope[name]
        _note(name, value, described, references)
        if isinstance(value, ModuleType) and not _foreign(value.__name__):
            members = vars(value)
            for attribute in used:
                if attribute in members:
                    _note(attribute, members[attribute], described, references)


def _note(name: str, value: Any, described: list[str], references: list[Any]) -> None:
    described.append(name)
    if isinstance(value, _FOLLOWED):
        if _foreign(value.__module__):
            described.append(f"{value.__module__}.{value.__name__}")
        else:
            references.append(value)
    elif isinstance(value, _NAMED):
        described.append(value.__name__)
    else:
        described.append(_stable(value))


@cache
def _foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FOREIGN


def _stable(value: Any) -> str:
    """Return a repr without parts that differ between processes: the order of sets, and addresses."""
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_stable, value))})"
    if isinstance(value, frozenset | set):
        return f"{type(value).__name__}({', '.join(sorted(map(_stable, value)))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_stable(key)}: {_stable(item)}' for key, item in value.items())})"
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text
