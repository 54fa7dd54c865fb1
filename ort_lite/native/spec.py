"""Specs of what to compile, and the keys of their object code. Imports neither numba nor llvmlite."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import MAGIC_NUMBER
from typing import Any, cast

from ort_lite.native.compilers import compilers
from ort_lite.native.cpu import Target
from ort_lite.native.digest import digest
from ort_lite.native.fingerprint import Fingerprint, fingerprint, fingerprint_of_source
from ort_lite.native.marks import ELEMENTS, Static
from ort_lite.record import Record

StaticValue = int | float | bool | str
Statics = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""Values by name; that of a record is a NamedTuple, whose fields are values of their own."""

_KIND_OF_NAME = {"Ptr": "pointer", "Static": "static", "int": "i64", "float": "f64"}

# Increased when the same code gives other objects for a reason that the key does not cover.
FORMAT = 1
KEY_DIGITS, _DIGITS_OF_BASE = 40, 8
_CODE_FILES = (
    "binding.py",
    "compiler.py",
    "entry.py",
    "frontend.py",
    "lang.py",
    "libraries.py",
    "llvm.py",
    "lowering.py",
    "marks.py",
    "translator.py",
    "values.py",
    "writing.py",
)


class Spec(Record):
    """A piece of native code: a function, the element types of its pointers, and the values of its Static parameters.

    `Spec(gather, ("f32", "i64", "f32"), {"axis": 1})`. Equal specs have one object in the cache and one address. `Spec.from_source`
    takes generated text, `Spec.plain` a function with a custom signature. Raises ValueError for an unknown element type.
    """

    function: Callable[..., Any] | None
    types: tuple[str, ...]
    statics: tuple[tuple[str, StaticValue], ...]
    exact: str  # repr of statics: 1, 1.0 and True are equal, but not the same code
    source: tuple[str, str, str] | None  # name, text, module
    signature: str

    def __init__(
        self,
        function: Callable[..., Any] | None,
        types: Sequence[str] = (),
        statics: Statics = (),
        source: tuple[str, str, str] | None = None,
        signature: str = "",
    ) -> None:
        items = statics.items() if isinstance(statics, Mapping) else statics
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "types", tuple(types))
        object.__setattr__(self, "statics", tuple(sorted(_flatten(items))))
        object.__setattr__(self, "exact", repr(self.statics))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "signature", signature.replace(" ", ""))
        unknown = [name for name in self.types if name not in ELEMENTS]
        if unknown:
            raise ValueError(f"{self.name}: element types {unknown}, expected some of {', '.join(ELEMENTS)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Spec, (self.function, self.types, self.statics, self.source, self.signature)

    def __hash__(self) -> int:
        return hash((self.function, self.types, self.exact, self.source))

    @classmethod
    def of(cls, function: Callable[..., Any], types: Sequence[str], statics: Mapping[str, StaticValue]) -> "Spec":
        """Return `Spec(function, types, statics)`. Recent equal specs are the same object."""
        return _spec(function, tuple(types), tuple(statics), *statics.values())

    @classmethod
    def from_source(cls, name: str, text: str, module: str, types: Sequence[str] = (), statics: Statics = ()) -> "Spec":
        """Return a spec for generated code: `text` defines function `name`, with the globals of `module`."""
        return cls(None, types, statics, (name, text, module))

    @classmethod
    def plain(cls, function: Callable[..., Any], signature: str, statics: Statics = ()) -> "Spec":
        """Return a spec for a function with exactly this C signature, such as "i64(i64,i64,f64)", without Static parameters."""
        return cls(function, (), statics, None, signature)

    @property
    def name(self) -> str:
        """The name in messages: module.function<types>."""
        where = f"{self.source[2]}.{self.source[0]}" if self.source else ""
        if self.function is not None:
            where = f"{self.function.__module__}.{self.function.__qualname__}"
        details = [*self.types, *(f"{name}={value!r}" for name, value in self.statics)]
        return f"{where}<{', '.join(details)}>" if details else where

    def resolve(self) -> Callable[..., Any]:
        """Return the function. Generated source is executed in a copy of its module's globals."""
        if self.source is None:
            assert self.function is not None
            return self.function
        name, text, module = self.source
        scope = dict(vars(importlib.import_module(module)))
        exec(compile(text, f"<{name}>", "exec"), scope)
        function: Callable[..., Any] = scope[name]
        return function


def _flatten(items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, StaticValue]]:
    for name, value in items:
        if isinstance(value, tuple):
            fields: tuple[str, ...] = cast(Any, value)._fields
            yield from ((f"{name}.{field}", each) for field, each in zip(fields, value, strict=True))
        else:
            yield name, value


@lru_cache(maxsize=4096, typed=True)
def _spec(function: Callable[..., Any], types: tuple[str, ...], names: tuple[str, ...], *values: StaticValue) -> Spec:
    """Create a spec, cached by typed values: 1 and True are equal, but not the same code."""
    return Spec(function, types, dict(zip(names, values, strict=True)))


@cache
def parameters(function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """Return (name, kind) of each parameter, where kind is pointer, i64, f64 or static. Raises TypeError for other annotations.

    The fields of a record, a NamedTuple, count as parameters of their own: field `low` of record `end` is "end.low".
    """
    flat: list[tuple[str, str]] = []
    for name, annotation in signature(function):
        if is_record(annotation):
            flat += [(f"{name}.{field}", _kind(kind)) for field, kind in annotation.__annotations__.items()]
        else:
            flat.append((name, _kind(annotation)))
        if "other" in dict(flat).values():
            raise TypeError(
                f"{function.__module__}.{function.__qualname__}: parameter {name!r} is annotated "
                f"{annotation!r}, expected Ptr, int, float, Static or a NamedTuple of these"
            )
    return tuple(flat)


def signature(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return (name, annotation) of each parameter."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [(name, function.__annotations__.get(name)) for name in names]


def is_record(annotation: Any) -> bool:
    """Return True for a NamedTuple, whose fields a kernel gets as scalars, in order."""
    return isinstance(annotation, type) and issubclass(annotation, tuple)


def is_static(function: Callable[..., Any], name: str) -> bool:
    """Return True for a parameter annotated Static; annotations may be strings."""
    return _kind(function.__annotations__.get(name)) == "static"


def _kind(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return "static" if annotation is Static else _KIND_OF_NAME.get(text.rpartition(".")[2], "other")


def key_of(spec: Spec, target: Target) -> str:
    """Return the key of a spec's object code for a target: 40 hexadecimal digits. Equal keys mean equal code.

    The first digits are those of the base that all objects of this version share. The key covers the function and all that it
    refers to, types and statics, the compiler's own files, the versions of numba and llvmlite, the meaning of Python's bytecode,
    and tuning and features as in `target_of`. It does not cover the release of Python, only its bytecode, nor the CPU: machines of
    a level share objects.
    """
    code = _code(spec)
    aim = target.narrow(code.needs)
    state = repr((spec.types, spec.exact, spec.signature, aim.triple, aim.tuning, aim.features))
    own = digest(base(), code.digest, state.encode()).hex()
    return with_version(own)


def with_version(key: str) -> str:
    """Return the key with the digits of this version in place of its first ones."""
    return base().hex()[:_DIGITS_OF_BASE] + key[_DIGITS_OF_BASE:KEY_DIGITS]


def is_of_this_version(key: str) -> bool:
    """Return False for the key of an object from another version of ort-lite, Numba or Python, which is never requested."""
    return key.startswith(base().hex()[:_DIGITS_OF_BASE])


def target_of(spec: Spec, target: Target) -> Target:
    """Return the part of a target that can affect the code of a spec."""
    return target.narrow(_code(spec).needs)


def _code(spec: Spec) -> Fingerprint:
    if spec.source is None:
        return fingerprint(spec.function)
    name, text, module = spec.source
    return fingerprint_of_source(f"{name} {text}", vars(importlib.import_module(module)))


def symbol_of(key: str) -> str:
    """Return the only visible symbol of the object with that key."""
    return "ort_lite_" + key


@cache
def base() -> bytes:
    """Return the digest of everything that all keys depend on."""
    parts = [repr((FORMAT, sys.implementation.cache_tag, MAGIC_NUMBER, compilers(tuple(sys.path)))).encode()]
    for name in _CODE_FILES:
        with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
            parts.append(file.read())
    return digest(*parts)
