"""The part of a prepared program that no run needs: graphs, instructions, reports. It is read when somebody first asks for some of it.

Until then its objects are of derived classes, which have the fields that a run needs. Asking for another one reads the rest, and
gives all of them their own classes.
"""

import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import ref

from ort_lite.errors import OrtLiteError, RuntimeException, format_error
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.memory import locks
from ort_lite.session.prepared.graphs import VALUE, Objects

LATER = "LATER"
"""The attribute of a class that names its fields which a run does not need."""
MALFORMED = (
    pickle.PickleError, AttributeError, EOFError, ImportError, IndexError, KeyError, MemoryError, NameError, OverflowError,
    RecursionError, TypeError, ValueError, AssertionError, OrtLiteError,
)  # fmt: skip
"""The errors that malformed bytes lead to."""


class Partial:
    """The objects of a program that wait for some of their fields. `later` returns what reads them, while it lives."""

    def __init__(self, later: "Callable[[], Later | None]") -> None:
        self._later, self._classes, self._found = later, dict[type, type](), list[Any]()
        self._read: dict[Value, bool] = {}
        self.objects = Objects((self._class_of(Value), self._class_of(Node), self._class_of(Graph)))

    def new(self, kind: type) -> Any:
        """Return an object without any field."""
        made: Any = object.__new__(self._class_of(kind))
        self._found.append(made)
        return made

    def know_values(self, rows: Iterable[tuple[int, str, Any, bool]]) -> None:
        """Set number, name and type of values, and whether anything reads them."""
        for number, name, type_, read in rows:
            value: Value = self.objects.find(VALUE, number)
            value.name, value.type = name, type_
            self._read[value] = read

    def give_classes(self) -> None:
        """Give the objects, which have all fields, their own classes."""
        for each in (*self._found, *self.objects.known_objects()):
            object.__setattr__(each, "__class__", type(each).__base__)

    def _class_of(self, kind: type) -> type:
        found = self._classes.get(kind)
        if found is None:
            members: dict[str, Any] = {"__slots__": (), "__getattr__": _getter(self._later)}
            if kind is Value:
                members["is_read"] = lambda value, read=self._read: read[value] if value in read else Value.is_read(value)
            found = self._classes[kind] = type.__new__(type(kind), kind.__name__, (kind,), members)
        return found


def _getter(later: "Callable[[], Later | None]") -> Callable[[Any, str], Any]:
    def get_missing(self: Any, name: str) -> Any:
        found, kind = later(), type(self)
        if found is None:
            raise RuntimeException(f"{name} of {kind.__name__}: the session of the prepared program is gone")
        found.complete()
        if type(self) is kind:  # this thread is reading it
            raise AttributeError(name)
        return getattr(self, name)

    return get_missing


class Later:
    """Reads the later part of a program, once. It must live as long as the program, of which it is no part: it knows all objects."""

    def __init__(self) -> None:
        self.partial = Partial(ref(self))
        self._read: Callable[[], None] | None = None
        self._lock = locks.rlock()
        self._reading = False
        self._error: OrtLiteError | None = None

    def read_by(self, read: Callable[[], None]) -> None:
        """Have `read` called, which sets the missing fields of all objects."""
        self._read = read

    def complete(self) -> None:
        """Read what is missing. Raises RuntimeException if that is malformed: another release wrote it, with the same key."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._read is None or self._reading:
                return
            self._reading = True
            try:
                self._read()
            except MALFORMED as error:
                advice = "`ort-lite cache clear` removes it"
                self._error = RuntimeException(f"a prepared program cannot be read: {format_error(error)}; {advice}")
                raise self._error from error
            finally:
                self._reading, self._read = False, None
            self.partial.give_classes()


def set_fields(made: Any, fields: Mapping[str, Any]) -> None:
    """Set fields of an object, also of a frozen one."""
    for name, value in fields.items():
        object.__setattr__(made, name, value)
