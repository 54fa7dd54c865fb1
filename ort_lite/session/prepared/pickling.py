"""Pickles of prepared programs: graphs as tables, arrays by number, and objects of the session by name.

What a run needs comes first, and then the rest, which is read later (`later`). Both have the same memo: the rest refers to objects of
the first part. Arrays are pickled apart from the objects, so that what they are made of can be forgotten once they are.

Only classes and functions of ort-lite's own packages, and a few others, are found when an entry is read.
"""

import io
import pickle
from collections.abc import Mapping
from types import CellType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import from_numpy, to_numpy
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.graph.released import DroppedConstant
from ort_lite.record import Record, asdict
from ort_lite.session.prepared.functions import PACKAGES, CodePlace, reduce_cell, reduce_function, reduce_pure_function
from ort_lite.session.prepared.graphs import GRAPH, NODE, VALUE, Objects
from ort_lite.session.prepared.later import LATER, set_fields
from ort_lite.session.prepared.origins import Origins, ReadAgain
from ort_lite.shapes.expr import Call, Expr, Symbol

if TYPE_CHECKING:
    from ort_lite.session.prepared.loading import Arrays

ARRAY = 3
"""The kind of arrays in numbers of objects, after those of graphs."""
NEW_PARTIAL, READ_AGAIN = "new partial", "read again "
"""Names of objects that no session gives; the second with the number of a tensor behind it."""
_OTHERS = frozenset(
    {
        ("builtins", "getattr"),
        ("builtins", "bytes"),
        ("builtins", "str"),
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("builtins", "slice"),
        ("builtins", "range"),
        ("builtins", "complex"),
        ("builtins", "bytearray"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("copyreg", "__newobj__"),
        ("functools", "partial"),
        ("itertools", "repeat"),
        ("numpy", "reshape"),
        ("numpy", "ascontiguousarray"),
        ("types", "MappingProxyType"),
    }
)


_MOST = 1 << 20
"""Objects of all recipes together: more of them are one object again and again."""
_FOUND: dict[tuple[str, str], Any] = {}
"""The classes and functions that readers have found: recipes of arrays name the same ones again and again."""


class Writer(pickle.Pickler):
    """Writes objects that refer to graphs, arrays and named objects. With a list `left`, later fields are left out and noted there."""

    def __init__(self, file: io.BytesIO, origins: Origins, left: list[tuple[Any, dict[str, Any]]] | None = None) -> None:
        super().__init__(file, protocol=5)
        self._origins, self.left = origins, left

    def persistent_id(self, obj: Any) -> Any:
        """Return the number or name of an object that is stored elsewhere."""
        kind, origins = type(obj), self._origins
        if kind is Value:
            return origins.numbers.value(obj) * 4 + VALUE
        if kind is Node:
            return origins.numbers.node(obj) * 4 + NODE
        if kind is Graph:
            return origins.numbers.graph(obj) * 4 + GRAPH
        if isinstance(obj, np.ndarray):
            return origins.number(obj) * 4 + ARRAY
        if kind is ReadAgain:
            return f"{READ_AGAIN}{obj.number}"
        return origins.names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        """Return how to create an object again."""
        if isinstance(obj, type):
            _check_reference(obj.__module__, obj.__qualname__)
            return NotImplemented
        if isinstance(obj, FunctionType):
            _check_reference(obj.__module__, obj.__qualname__)
            return reduce_function(obj)
        if isinstance(obj, CellType):
            return reduce_cell(obj)
        if getattr(type(obj), LATER, None):
            return self._reduce_partial(obj)
        if isinstance(obj, Record) and type(obj).__reduce__ in (Record.__reduce__, Model.__reduce__):
            return _reduce_record(obj)
        if isinstance(obj, DroppedConstant):
            return _drop, (obj.name, self._origins.reader(obj.restore), from_numpy(obj.dtype), obj.shape)
        if isinstance(obj, np.dtype):
            return to_numpy, (from_numpy(obj),)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if isinstance(obj, np.generic):
            return _scalar, (from_numpy(obj.dtype), obj.tobytes())
        if isinstance(obj, np.ufunc):
            return _ufunc, (obj.__name__,)
        return NotImplemented

    def _reduce_partial(self, obj: Any) -> Any:
        kind = type(obj)
        fields = asdict(obj) if "__getstate__" not in vars(kind) else obj.__getstate__()
        if self.left is None:
            return _new, (kind,), fields, None, None, _set_state
        self.left.append((obj, {name: value for name, value in fields.items() if name in kind.LATER}))
        early = {name: value for name, value in fields.items() if name not in kind.LATER}
        return new_partial, (kind,), early, None, None, _set_state


class RecipeWriter(Writer):
    """Writes what arrays are made of, which is read before the graphs are: a node stands alone, with the types of its values.

    Classes, functions, the places of code and the parts of dimensions are put into `shared`, if there is one, by their ids: a memo
    that does not grow needs them once, since dimensions that share parts would be written without end.
    """

    def __init__(self, file: io.BytesIO, origins: Origins, shared: dict[int, Any] | None = None) -> None:
        super().__init__(file, origins)
        self._shared, self._left = {} if shared is None else shared, _MOST

    def persistent_id(self, obj: Any) -> Any:
        """Return the number or name of an object that is stored elsewhere."""
        self._left -= 1
        if self._left < 0:
            raise pickle.PicklingError("what arrays are made of is too many objects")
        if isinstance(obj, Graph):
            raise pickle.PicklingError("an array is made of a graph")
        return None if isinstance(obj, (Node, Value)) else super().persistent_id(obj)

    def reducer_override(self, obj: Any) -> Any:
        """Return how to create an object again."""
        if isinstance(obj, (type, CodePlace, Symbol, Call, Expr)):
            self._shared[id(obj)] = obj
        if isinstance(obj, Node):
            names = obj.domain, obj.version, obj.name, obj.overload
            return _node, (obj.op_type, *names, obj.inputs, obj.outputs, list(obj.attributes.values()))
        if isinstance(obj, Value):
            return Value, (obj.name, obj.type)
        if isinstance(obj, FunctionType):
            _check_reference(obj.__module__, obj.__qualname__)
            made = reduce_pure_function(obj)
            for each in (obj,) if made is NotImplemented else made[1][1:3]:
                self._shared[id(each)] = each
            return made
        return super().reducer_override(obj)


def _node(
    op_type: str, domain: str, version: int, name: str, overload: str, inputs: Any, outputs: Any, attributes: Any
) -> Node:
    return Node(op_type, inputs, outputs, attributes, domain=domain, version=version, name=name, overload=overload)


def _check_reference(module: str, name: str) -> None:
    """Raise PickleError for what an entry must not refer to."""
    if module.partition(".")[0] not in PACKAGES and (module, name) not in _OTHERS:
        raise pickle.PickleError(f"{module}.{name} is not allowed")


def _reduce_record(record: Record) -> Any:
    """Records that can be changed may refer to themselves; others need their fields first."""
    kind = type(record)
    fields = {name: getattr(record, name) for name in record.__match_args__}
    if kind.__setattr__ is object.__setattr__:
        return _new, (kind,), (None, fields)
    return kind, tuple(fields.values())


def _new(kind: type) -> Any:
    return object.__new__(kind)


def new_partial(kind: type) -> Any:
    """Stand for `Partial.new` of the reader."""
    raise NotImplementedError


def _set_state(made: Any, fields: dict[str, Any]) -> None:
    set_state = getattr(type(made), "__setstate__", set_fields)
    set_state(made, fields)


def _drop(name: str, restore: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    return restore if isinstance(restore, np.ndarray) else DroppedConstant(name, to_numpy(dtype), shape, restore)


def _scalar(dtype: str, data: bytes) -> Any:
    return np.frombuffer(data, to_numpy(dtype))[0]


def _ufunc(name: str) -> Any:
    return getattr(np, name)


class Reader(pickle.Unpickler):
    """Reads what a Writer wrote, one object after the other."""

    def __init__(
        self,
        data: bytes | io.BytesIO,
        names: Mapping[str, Any],
        arrays: "Arrays | tuple[()]" = (),
        objects: Objects | None = None,
    ) -> None:
        super().__init__(data if isinstance(data, io.BytesIO) else io.BytesIO(data))
        self._names, self._arrays, self._objects = names, arrays, Objects() if objects is None else objects

    def find_class(self, module: str, name: str) -> Any:
        """Find a class or function of ort-lite's packages, or one of a few others. Raises PickleError for anything else."""
        found = _FOUND.get((module, name))
        if found is None:
            _check_reference(module, name)
            found = super().find_class(module, name)
            if (module, name) not in _OTHERS:  # a dotted name may lead to what a module imports
                _check_reference(getattr(found, "__module__", ""), name)
            _FOUND[module, name] = found
        return found

    def persistent_load(self, pid: Any) -> Any:
        """Return the object with a number or name."""
        if type(pid) is not int:
            return self._names[pid]
        if pid & 3 != ARRAY:
            return self._objects.find(pid & 3, pid >> 2)
        return self._arrays[pid >> 2]
