"""Typing and lowering of the kernel language in numba: pointers, emitted functions, `like`. Imported by the compiler only."""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from numba.core import types
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.extending import lower_builtin, register_model
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from ort_lite.native.marks import ELEMENTS, Emitted
from ort_lite.native.values import LlvmValue

SCALARS: dict[str, Any] = {
    "f32": types.float32,
    "f64": types.float64,
    "b1": types.boolean,
    "void": types.none,
    **{f"u{bits}": getattr(types, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"i{bits}": getattr(types, f"int{bits}") for bits in (8, 16, 32, 64)},
}
VARIABLES = {
    "T": set(ELEMENTS),
    "F": {"f32", "f64"},
    "I": {name for name in ELEMENTS if name[0] != "f"},
    "A": {*ELEMENTS, "b1"},
}
_NAMES = {kind: name for name, kind in SCALARS.items()}


class Pointer(types.Type):  # type: ignore[misc]
    """The type of an unchecked pointer. Unlike numba's CPointer, it rejects stores of floats into integers."""

    def __init__(self, name: str) -> None:
        self.element_name = name
        self.dtype = SCALARS[name]
        super().__init__(name=f"Pointer({name})")


POINTERS = {name: Pointer(name) for name in ELEMENTS}


@register_model(Pointer)
class _PointerModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Pointer) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_data_type().as_pointer())


def numba_type(name: str) -> Any:
    """Return numba's type for a type name of the language."""
    return POINTERS[name[1:]] if name.startswith("*") else SCALARS[name]


def name_of(kind: Any) -> str:
    """Return the language's name for a numba type; "" for an unknown one."""
    if isinstance(kind, Pointer):
        return "*" + kind.element_name
    return _NAMES.get(types.unliteral(kind), "")


# --- x[i]
@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index = args
        if isinstance(pointer, Pointer) and isinstance(index, types.Integer):
            return signature(pointer.dtype, pointer, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index, value = args
        if not (isinstance(pointer, Pointer) and isinstance(index, types.Integer)):
            return None
        if isinstance(value, types.Float) and isinstance(pointer.dtype, types.Integer):
            raise TypingError(f"a {value} is stored into {pointer}: convert it with cast or like")
        return signature(types.none, pointer, types.int64, pointer.dtype)


@lower_builtin(operator.getitem, Pointer, types.Integer)  # type: ignore[untyped-decorator]
def _getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(builder.gep(args[0], [args[1]], inbounds=True))


@lower_builtin(operator.setitem, Pointer, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], builder.gep(args[0], [args[1]], inbounds=True))
    return context.get_dummy_value()


# --- Emitted functions
def match(text: str, arguments: tuple[Any, ...], exact: bool) -> tuple[Any, list[Any]] | None:
    """Return (result, formal arguments) of a signature for the given argument types, or None if it does not apply.

    The fields of a record, a NamedTuple, are arguments of their own there.
    """
    result, formals = parse(text)
    arguments = tuple(_fields(arguments))
    if len(formals) != len(arguments):
        return None
    bound: dict[str, str] = {}
    final = []
    for formal, argument in zip(formals, arguments, strict=True):
        star, variable = ("*", formal[1:]) if formal.startswith("*") else ("", formal)
        given = name_of(argument)
        if formal == "static":
            if not isinstance(argument, types.Literal | types.Omitted):
                return None
            final.append(argument)
            continue
        if variable in VARIABLES and variable not in bound:
            if given[: len(star)] != star or given[len(star) :] not in VARIABLES[variable]:
                return None
            bound[variable] = given[len(star) :]
        wanted = star + bound.get(variable, variable)
        if given != wanted and (exact or not _converts(given, wanted)):
            return None
        final.append(numba_type(wanted))
    if result.startswith("@"):
        return numba_type(_constant(arguments[int(result[1:])])), final
    plain = result.lstrip("*")
    return numba_type(result[: len(result) - len(plain)] + bound.get(plain, plain)), final


def _fields(kinds: Iterable[Any]) -> Iterator[Any]:
    """Yield types, with the fields of a record in its place."""
    for kind in kinds:
        yield from kind.types if isinstance(kind, types.BaseNamedTuple) else (kind,)


def _group(kinds: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """Return types with a tuple for each argument that is a record: the inverse of `_fields`."""
    own = iter(kinds)
    return [
        tuple(islice(own, len(argument.types))) if isinstance(argument, types.BaseNamedTuple) else next(own)
        for argument in arguments
    ]


def _converts(given: str, wanted: str) -> bool:
    """Return True if one scalar type converts to another; never a float to an integer, which needs an explicit `cast`."""
    if not given or "*" in given + wanted:
        return False
    return wanted[0] == "f" or given[0] != "f"


def _constant(kind: Any) -> Any:
    """Return the value of a literal or omitted argument."""
    return kind.literal_value if isinstance(kind, types.Literal) else kind.value


def parse(text: str) -> tuple[str, list[str]]:
    """Return the result and the arguments: "f32(i64,*f32)" -> ("f32", ["i64", "*f32"])."""
    result, _, rest = text.replace(" ", "").partition("(")
    return result, [name for name in rest.rstrip(")").split(",") if name]


def emitter_template(item: Emitted, register: Callable[[Any, Any, Any], None]) -> type:
    """Return the template that types a call of an emitted function and passes its lowering to `register(key, impl, args)`."""

    class EmitterTemplate(AbstractTemplate):  # type: ignore[misc]
        key = item

        def generic(self, args: Any, kws: Any) -> Any:
            found = None
            for exact in (True, False):
                for text in item.signatures:
                    found = found or match(text, args, exact)
            if kws or found is None:
                given = ", ".join(map(str, args))
                raise TypingError(f"{item.__name__}({given}): expected {' or '.join(item.signatures)}")
            wanted = _group(found[1], args)
            formals = tuple(given if isinstance(kind, tuple) else kind for given, kind in zip(args, wanted, strict=True))
            self.implementation = (item, formals)
            register(self.implementation, lower_emitter(item, wanted), formals)
            return signature(found[0], *formals)

        def get_impl_key(self, sig: Any) -> Any:
            return self.implementation

    return EmitterTemplate


def lower_emitter(item: Emitted, wanted: Sequence[Any]) -> Any:
    """Return numba's lowering function that calls the emitter, with static arguments as Python values.

    Numba converts arguments to the wanted types, but not the fields of a record, whose wanted types are a tuple here.
    """

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def value_of(given: Any, kind: Any, value: Any) -> Any:
            if isinstance(given, types.Literal | types.Omitted):
                return _constant(given)
            if not isinstance(given, types.BaseNamedTuple):
                return value
            fields = [field_of(value, k, *each) for k, each in enumerate(zip(given.types, kind, strict=True))]
            return given.instance_class(*fields)

        def field_of(value: Any, k: int, given: Any, kind: Any) -> Any:
            if isinstance(kind, types.Literal):
                return _constant(kind)
            return context.cast(builder, builder.extract_value(value, k), given, kind)

        values = [value_of(*each) for each in zip(sig.args, wanted, args, strict=True)]
        if item.typed:
            names = ["" if isinstance(kind, types.Literal | types.Omitted) else name_of(kind) for kind in sig.args]
            given = [LlvmValue(builder, value, name) if name else value for value, name in zip(values, names, strict=True)]
            result = item.emitter(*given).raw
        else:
            result = item.emitter(builder, *values)
        return context.get_dummy_value() if sig.return_type is types.none else result

    return lower


# --- Python's built-in functions, which numba implements by compiling Python in its global contexts
def builtin_template(item: Any, register: Callable[[Any, Any, Any], None]) -> type:
    """Return the template of `max`, `min` (of numbers; NaN wins) or `int`."""

    class BuiltinTemplate(AbstractTemplate):  # type: ignore[misc]
        key = item

        def generic(self, args: Any, kws: Any) -> Any:
            kinds = [types.unliteral(kind) for kind in args]
            unified = self.context.unify_types(*kinds)
            if kws or len(args) < (1 if item is int else 2) or name_of(unified) in ("", "b1"):
                raise TypingError(f"{item.__name__}({', '.join(map(str, args))}): expected numbers")
            formals = (unified,) * len(args)
            self.implementation = (item, formals)
            register(self.implementation, lower_builtin_function(item), formals)
            return signature(types.int64 if item is int else unified, *formals)

        def get_impl_key(self, sig: Any) -> Any:
            return self.implementation

    return BuiltinTemplate


def lower_builtin_function(item: Any) -> Any:
    """Return numba's lowering function for one of BUILTINS."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, *others = (LlvmValue(builder, arg, name_of(kind)) for arg, kind in zip(args, sig.args, strict=True))
        if item is int:
            return first.to("i64").raw
        for other in others:
            first = first.largest(other) if item is max else first.smallest(other)
        return first.raw

    return lower


BUILTINS = (max, min, int)
