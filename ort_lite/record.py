"""Record: a class of named fields, like `@dataclass(frozen=True, slots=True)` but forty times cheaper to define.

    class Selection(Record):
        providers: tuple[ExecutionProvider, ...]
        notes: tuple[str, ...] = ()

A dataclass generates source text and compiles it, at 0.9 ms per class; a session needs fifty classes before its first result. Here,
only `__init__` is compiled, only for classes with more than FEW instances, and once for all classes of the same layout.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

T = TypeVar("T")
FEW = 6
"""The number of instances to create without a compiled `__init__`, at 2 us more each; compiling takes up to 0.2 ms."""


class _Factory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """Declare a default that is created for each Record: `field(default_factory=dict)`."""
    return cast(T, _Factory(default_factory))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Fields(type):
    """Creates a slot for every annotation in a class body. ClassVar is not supported."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], frozen: bool = True, eq: bool | None = None
    ) -> Any:
        own = tuple(_annotations(namespace))
        given = {field: namespace.pop(field) for field in own if field in namespace}
        base = bases[0] if bases else None
        names = (*getattr(base, "__match_args__", ()), *own)
        members = {"__init__": _first_init, **namespace, "__slots__": own, "__match_args__": names}
        made: Any = super().__new__(cls, name, bases, members)
        made._values, made._defaults = attrgetter(*names or ["__class__"]), {**getattr(base, "_defaults", {}), **given}
        made._few = FEW
        if any(name in made._defaults for name in names[: len(names) - len(made._defaults)]):
            raise TypeError(f"{name}: a field with a default comes before one without")
        if not frozen:
            made.__setattr__, made.__delattr__ = object.__setattr__, object.__delattr__
        if not (frozen if eq is None else eq):
            made.__eq__, made.__hash__ = object.__eq__, object.__hash__
        return made


def _annotations(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations of a class body. From Python 3.14 on, it has a function that creates them."""
    if "__annotations__" in namespace:
        found: Mapping[str, Any] = namespace["__annotations__"]
        return found
    make = namespace.get("__annotate_func__") or namespace.get("__annotate__")
    return make(1) if make is not None else {}


def _first_init(self: "Record", *values: Any, **named: Any) -> None:
    """Initialise the first instances of a class, with the behaviour of `_compile_init`, which replaces it later."""
    cls: Any = type(self)
    names, defaults = cls.__match_args__, cls._defaults
    cls._few -= 1
    given = {**defaults, **dict(zip(names, values, strict=False)), **named}
    wrong = len(values) > len(names) or given.keys() != set(names) or not named.keys().isdisjoint(names[: len(values)])
    if cls._few <= 0 or wrong:
        cls.__init__ = _compile_init(cls)
        cls.__init__(self, *values, **named)
        return
    for name in names:
        value = given[name]
        object.__setattr__(self, name, value.make() if isinstance(value, _Factory) else value)


def _compile_init(cls: Any) -> FunctionType:
    """Return an `__init__` with the fields as parameters, so that Python reports wrong arguments."""
    names, defaults = cls.__match_args__, cls._defaults
    given = tuple(defaults[name] for name in names if name in defaults)
    scope: dict[str, Any] = {"__name__": cls.__module__}
    for k, name in enumerate(names):
        scope[f"set{k}"] = getattr(cls, name).__set__  # bypasses `__setattr__`
        if isinstance(defaults.get(name), _Factory):
            scope[f"default{k}"], scope[f"make{k}"] = defaults[name], defaults[name].make
    code = _template(tuple(isinstance(defaults.get(name), _Factory) for name in names))
    made = FunctionType(code.replace(co_varnames=("self", *names)), scope, "__init__", given)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@cache
def _template(factories: tuple[bool, ...]) -> CodeType:
    """Return the code of an `__init__` for fields of these kinds, to be specialised with the names of each class."""
    parameters, lines = ["self"], []
    for k, factory in enumerate(factories):
        parameters.append(f"field{k}")
        value = f"make{k}() if field{k} is default{k} else field{k}" if factory else f"field{k}"
        lines.append(f" set{k}(self, {value})")
    scope: dict[str, Any] = {}
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *(lines or [" pass"])]), scope)
    found: CodeType = scope["__init__"].__code__
    return found


class Record(metaclass=_Fields):
    """Base class of records: fields are set by position or name and are then read-only. Equal fields make records of a class equal.

    In `class C(Record, frozen=False)`, fields can be set. Such records, and those of `eq=False`, equal only themselves. A class may
    define `__init__`.
    """

    if TYPE_CHECKING:
        __match_args__: ClassVar[tuple[str, ...]]
        _values: ClassVar[Callable[[object], Any]]
        _defaults: ClassVar[Mapping[str, Any]]

    else:  # hidden from type checkers, which know what is frozen and would otherwise allow all assignments

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set: `replace` makes a changed copy")

        def __delattr__(self, name):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values for the named fields."""
        return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = type(self)._values
        return bool(values(self) == values(other))

    def __hash__(self) -> int:
        return hash(type(self)._values(self))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), tuple(getattr(self, name) for name in self.__match_args__))


def asdict(record: Record, *but: str) -> dict[str, Any]:
    """Return the fields of a record by name, without those named `but`. Values are not copied, and records in them stay records."""
    return {name: getattr(record, name) for name in record.__match_args__ if name not in but}


def _restore(cls: type[Record], values: tuple[Any, ...]) -> Record:
    made = cls.__new__(cls)
    for name, value in zip(cls.__match_args__, values, strict=True):
        object.__setattr__(made, name, value)
    return made


_restored = _restore
"""The name in pickles of earlier releases."""
