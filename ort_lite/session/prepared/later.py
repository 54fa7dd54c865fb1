"""The part of a prepared program that no run needs: graphs, instructions, reports. It is read when somebody first asks for some of it.

Until then its objects are of derived classes, which have the fields that a run needs. Asking for another one reads the rest, and
gives all of them their own classes. A process has one derived class of each kind, since creating one takes 15 us. What reads the
rest is known to the object itself: the field that is set last holds a weak reference to it until then.
"""

import pickle
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any
from weakref import ref

from ort_lite.errors import OrtLiteError, RuntimeException, format_error
from ort_lite.graph.graph import Node, Value
from ort_lite.memory import locks
from ort_lite.session.prepared.graphs import VALUE, Objects

LATER = "LATER"
"""The attribute of a class that names its fields which a run does not need."""
MALFORMED = (
    pickle.PickleError, AttributeError, EOFError, ImportError, IndexError, KeyError, MemoryError, NameError, OverflowError,
    RecursionError, TypeError, ValueError, AssertionError, OrtLiteError,
)  # fmt: skip
"""The errors that malformed bytes lead to."""
_HOLDER = "_later"
"""The attribute that holds the reference where objects have a dictionary."""
_LAST = {Value: "constant", Node: "attributes"}
"""The field that `restore` and those who call it set last. Of other kinds it is the last one of LATER."""


class Partial:
    """The objects of a program that wait for some of their fields. `later` refers to what reads them."""

    def __init__(self, later: "ref[Later]") -> None:
        self._later, self._found = later, list[Any]()
        self.read: dict[Value, bool] = {}
        """The values that are known early, and whether anything reads them."""
        self.objects = Objects(partial(_new, later))

    def new(self, kind: type) -> Any:
        """Return an object without any field."""
        made = _new(self._later, kind)
        self._found.append(made)
        return made

    def know_values(self, rows: Iterable[tuple[int, str, Any, bool]]) -> None:
        """Set number, name and type of values, and whether anything reads them."""
        for number, name, type_, read in rows:
            value: Value = self.objects.find(VALUE, number)
            value.name, value.type = name, type_
            self.read[value] = read

    def give_classes(self) -> None:
        """Give the objects, which have all fields, their own classes."""
        for each in (*self._found, *self.objects.known_objects()):
            object.__setattr__(each, "__class__", type(each).__base__)
            getattr(each, "__dict__", {}).pop(_HOLDER, None)


def _new(later: "ref[Later]", kind: type) -> Any:
    derived, hold = _derive(kind)
    made: Any = object.__new__(derived)
    hold(made, later)
    return made


@cache
def _derive(kind: type) -> tuple[type, Callable[[Any, "ref[Later]"], None]]:
    """Return the class of a kind's objects that wait for fields, and a function that gives one its reference."""
    fields = [name for name in getattr(kind, "__match_args__", ()) if name in getattr(kind, LATER)]
    last = _LAST.get(kind, fields[-1] if fields else "")
    slot = getattr(kind, last, None)

    def reference(made: Any) -> Any:
        return vars(made).get(_HOLDER) if slot is None else slot.__get__(made)

    def get_missing(made: Any, name: str) -> Any:
        later = reference(made)
        if type(later) is not ref:  # another thread has just set all fields
            return object.__getattribute__(made, name) if name != last else later
        found = later()
        if found is None:
            raise RuntimeException(f"{name} of {kind.__name__}: the session of the prepared program is gone")
        found.complete()
        if type(made) is derived:  # this thread is reading it
            raise AttributeError(name)
        return getattr(made, name)

    def is_read(value: Any) -> bool:
        later = reference(value)
        found = later() if type(later) is ref else None
        known: bool | None = None if found is None else found.partial.read.get(value)
        return Value.is_read(value) if known is None else known

    members: dict[str, Any] = {"__slots__": (), "__getattr__": get_missing}
    if slot is not None:
        members[last] = property(lambda made: get_missing(made, last), slot.__set__)
    if kind is Value:
        members["is_read"] = is_read
    derived = type.__new__(type(kind), kind.__name__, (kind,), members)
    return derived, slot.__set__ if slot is not None else lambda made, later: vars(made).update({_HOLDER: later})


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
