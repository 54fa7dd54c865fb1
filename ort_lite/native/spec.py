"""What to compile, and the key of its object code. Imports neither numba nor llvmlite; reads no source of kernels."""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ort_lite.native.cpu import Target
from ort_lite.native.marks import DEFAULT_OPTIONS, ELEMENTS, Emitted, Options, Static

StaticValue = int | float | bool | str
_KIND_OF_NAME = {"Ptr": "pointer", "Static": "static", "int": "i64", "float": "f64"}


@dataclass(frozen=True, slots=True)
class Spec:
    """One piece of native code: a function, the element types of its pointers, the values of its Static parameters.

    `Spec(gather, ("f32", "i64", "f32"), {"axis": 1})`. Equal specs are one object in the cache and one address.
    `Spec.from_source` takes generated text, `Spec.plain` a function with a signature of its own.
    """

    function: Callable[..., Any] | None
    types: tuple[str, ...] = ()
    statics: tuple[tuple[str, StaticValue], ...] = ()
    source: tuple[str, str, str] | None = None  # name, text, module
    signature: str = ""

    def __init__(
        self,
        function: Callable[..., Any] | None,
        types: Sequence[str] = (),
        statics: Mapping[str, StaticValue] | Sequence[tuple[str, StaticValue]] = (),
        source: tuple[str, str, str] | None = None,
        signature: str = "",
    ) -> None:
        items = statics.items() if isinstance(statics, Mapping) else statics
        for name, value in dict(
            function=function,
            types=tuple(types),
            statics=tuple(sorted(items)),
            source=source,
            signature=signature.replace(" ", ""),
        ).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_source(
        cls,
        name: str,
        text: str,
        module: str,
        types: Sequence[str] = (),
        statics: Mapping[str, StaticValue] | Sequence[tuple[str, StaticValue]] = (),
    ) -> "Spec":
        """Generated code: `text` defines function `name`, its globals are those of the imported `module`."""
        return cls(None, types, statics, (name, text, module))

    @classmethod
    def plain(
        cls,
        function: Callable[..., Any],
        signature: str,
        statics: Mapping[str, StaticValue] | Sequence[tuple[str, StaticValue]] = (),
    ) -> "Spec":
        """A function with exactly this C signature, say "i64(i64,i64,f64)"; Static parameters are not part of it."""
        return cls(function, (), statics, None, signature)

    @property
    def name(self) -> str:
        """For messages: module.function<types>."""
        where = f"{self.source[2]}.{self.source[0]}" if self.source else ""
        if self.function is not None:
            where = f"{self.function.__module__}.{self.function.__qualname__}"
        details = [*self.types, *(f"{name}={value!r}" for name, value in self.statics)]
        return f"{where}<{', '.join(details)}>" if details else where

    def resolve(self) -> Callable[..., Any]:
        """The function; generated source is executed in a copy of its module's globals."""
        if self.source is None:
            assert self.function is not None
            return self.function
        name, text, module = self.source
        scope = dict(vars(sys.modules[module]))
        exec(compile(text, f"<{name}>", "exec"), scope)
        function: Callable[..., Any] = scope[name]
        return function


def parameters(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """(name, kind) of each parameter, kind one of pointer, i64, f64, static. Raises TypeError for other annotations."""
    found = []
    for name in _names(function):
        kind = _kind(function, name)
        if kind == "other":
            raise TypeError(
                f"{function.__module__}.{function.__qualname__}: parameter {name!r} is annotated "
                f"{function.__annotations__.get(name)!r}, expected Ptr, int, float or Static"
            )
        found.append((name, kind))
    return found


def is_static(function: Callable[..., Any], name: str) -> bool:
    """True for a parameter annotated Static; annotations may be strings."""
    return _kind(function, name) == "static"


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _kind(function: Callable[..., Any], name: str) -> str:
    annotation = function.__annotations__.get(name)
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return "static" if annotation is Static else _KIND_OF_NAME.get(text.rpartition(".")[2], "other")


# --- Keys
_FOREIGN = frozenset(sys.stdlib_module_names) | {"numpy", "numba", "llvmlite", "builtins"}
_CONSTANTS = (int, float, str, bytes, tuple, frozenset, bool, complex, type(None), list, dict)


@dataclass(slots=True)
class _Own:
    """What one function contributes to a key: its digest, and the functions that it names."""

    digest: bytes
    references: list[Any] = field(default_factory=list)


# Functions and their globals do not change while they are compiled from; one entry a function.
_known: dict[Any, _Own] = {}


def fingerprint(root: Any) -> bytes:
    """Digest of a function's code and, transitively, of what it names in other modules of the project.

    Takes bytecode and constants, not text: comments and line numbers do not count, and no file is read. O(code) once
    a function, then O(number of functions reached).
    """
    order: dict[int, Any] = {}
    waiting = [root]
    parts = []
    while waiting:
        item = waiting.pop()
        if id(item) in order:
            parts.append(b"%d" % list(order).index(id(item)))
            continue
        order[id(item)] = item
        own = _own(item)
        parts.append(own.digest)
        waiting.extend(own.references)
    return hashlib.blake2b(b"".join(parts), digest_size=20).digest()


def _own(item: Any) -> _Own:
    own = _known.get(item)
    if own is None:
        own = _known[item] = _describe(item)
    return own


def _describe(item: Any) -> _Own:
    names: list[str] = []
    references: list[Any] = []
    if isinstance(item, Emitted):
        names = ["emitted", *item.signatures, item.needs, str(item.typed)]
        references = [item.emitter, *([item.otherwise] if item.otherwise else [])]
    elif isinstance(item, type):
        names = ["class", item.__qualname__]
        for name, value in vars(item).items():
            _note(name, value, names, references)
    else:
        _describe_function(item, names, references)
    return _Own(hashlib.blake2b(repr(names).encode(), digest_size=20).digest(), references)


def _describe_function(function: FunctionType, names: list[str], references: list[Any]) -> None:
    options: Options = getattr(function, "__native__", DEFAULT_OPTIONS)
    names += [repr(options), repr(function.__defaults__), repr(sorted(map(str, function.__annotations__.items())))]
    used: dict[str, None] = {}
    _describe_code(function.__code__, names, used)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        _note(name, cell.cell_contents, names, references)
    _note_globals(used, function.__globals__, names, references)


def _describe_code(code: CodeType, names: list[str], used: dict[str, None]) -> None:
    names += [code.co_code.hex(), repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags))]
    names += [repr((code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars))]
    used.update(dict.fromkeys(code.co_names))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            _describe_code(value, names, used)
        else:
            names.append(_stable(value))


def _note_globals(used: Any, scope: Mapping[str, Any], names: list[str], references: list[Any]) -> None:
    for name in used:
        if name not in scope:
            continue
        value = scope[name]
        _note(name, value, names, references)
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _FOREIGN:
            members = vars(value)
            for attribute in used:
                if attribute in members:
                    _note(attribute, members[attribute], names, references)


def _note(name: str, value: Any, names: list[str], references: list[Any]) -> None:
    names.append(name)
    if isinstance(value, _CONSTANTS):
        names.append(_stable(value))
    elif isinstance(value, FunctionType | Emitted | type):
        module = value.__module__
        if module.partition(".")[0] in _FOREIGN:
            names.append(f"{module}.{value.__name__}")
        else:
            references.append(value)
    elif isinstance(value, ModuleType | BuiltinFunctionType):
        names.append(value.__name__)
    else:
        names.append(type(value).__qualname__)


def _stable(value: Any) -> str:
    """repr that does not depend on hash randomisation."""
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_stable, value))})"
    if isinstance(value, frozenset):
        return f"frozenset({', '.join(sorted(map(_stable, value)))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_stable(k)}: {_stable(v)}' for k, v in value.items())})"
    return repr(value)


# --- The key of a spec
FORMAT = 1
_CODE_FILES = ("compiler.py", "entry.py", "lang.py", "lowering.py", "marks.py", "values.py")


@cache
def _base() -> bytes:
    """Digest of everything that all objects depend on: Python, numba, llvmlite, the compiler's own files."""
    import llvmlite

    state = [str(FORMAT), sys.version, str(llvmlite.__version__), _installed_numba(os.path.dirname(llvmlite.__file__))]
    digest = hashlib.blake2b(repr(state).encode(), digest_size=20)
    for name in _CODE_FILES:
        with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
            digest.update(file.read())
    return digest.digest()


def _installed_numba(beside: str) -> str:
    """numba's version from the name of its dist-info folder: importing it, or importlib.metadata, costs too much."""
    for folder in (os.path.dirname(beside), *sys.path):
        try:
            found = [name for name in os.listdir(folder or ".") if name.startswith("numba-") and name.endswith("-info")]
        except OSError:
            continue
        if found:
            return max(found)
    return "none"


def key_of(spec: Spec, target: Target) -> str:
    """40 hexadecimal digits that name the object code of a spec for a target."""
    if spec.source is not None:
        code = _source_fingerprint(*spec.source)
    else:
        code = fingerprint(spec.function)
    state = repr((spec.types, spec.statics, spec.signature, target.triple, target.cpu, target.features))
    return hashlib.blake2b(_base() + code + state.encode(), digest_size=20).hexdigest()


def _source_fingerprint(name: str, text: str, module: str) -> bytes:
    """As `fingerprint`, of a text: its identifiers stand for what bytecode would name."""
    names = [name, text, module]
    references: list[Any] = []
    identifiers = dict.fromkeys(re.findall(r"[^\W\d]\w*", text))
    _note_globals(identifiers, vars(sys.modules[module]), names, references)
    digests = [fingerprint(reference) for reference in references]
    return hashlib.blake2b(repr((names, digests)).encode(), digest_size=20).digest()
