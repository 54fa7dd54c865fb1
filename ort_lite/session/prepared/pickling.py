"""Pickles of prepared programs: graphs as tables, arrays by their origin, and objects of the session by name.

Only classes and functions of ort-lite's own packages, and a few others, are found when an entry is read.
"""

import gc
import io
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, to_numpy
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.memory import recipes
from ort_lite.memory.recipes import Recipes
from ort_lite.record import Record
from ort_lite.session.prepared.functions import reduce_cell, reduce_function
from ort_lite.session.prepared.graphs import NO_OBJECTS, Numbering, Objects, Tables, named, restore

PACKAGES = ("ort_lite", "ort_lite_cpu", "ort_lite_transforms")
"""The packages whose classes and functions an entry may refer to."""
MOST_INLINE = 1 << 16
"""The largest array in bytes that an entry stores, and that has no other origin."""
_OTHERS = frozenset(
    {
        ("builtins", "getattr"),
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


class Writer(pickle.Pickler):
    """Writes objects that refer to graphs, arrays and named objects."""

    def __init__(self, file: io.BytesIO, shared: "Origins") -> None:
        super().__init__(file, protocol=5)
        self._origins = shared

    def persistent_id(self, obj: Any) -> Any:
        """Return the number or name of an object that is stored elsewhere."""
        kind, origins = type(obj), self._origins
        if kind is Value:
            return origins.numbers.value(obj) * 4
        if kind is Node:
            return origins.numbers.node(obj) * 4 + 1
        if kind is Graph:
            return origins.numbers.graph(obj) * 4 + 2
        if kind is Weight:
            return obj.number * 4 + 3
        if kind is np.ndarray and id(obj) in origins.by_id:
            return origins.by_id[id(obj)] * 4 + 3
        return origins.names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        """Return how to create an object again."""
        if isinstance(obj, type):
            _check_allowed(obj.__module__, obj.__qualname__)
            return NotImplemented
        if isinstance(obj, np.ndarray):
            return self._origins.array(obj)
        if isinstance(obj, FunctionType):
            _check_allowed(obj.__module__, obj.__qualname__)
            return reduce_function(obj)
        if isinstance(obj, CellType):
            return reduce_cell(obj)
        if isinstance(obj, Record) and type(obj).__reduce__ in (Record.__reduce__, Model.__reduce__):
            return _reduce_record(obj)
        if isinstance(obj, np.dtype):
            return to_numpy, (from_numpy(obj),)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if isinstance(obj, np.generic):
            return _scalar, (from_numpy(obj.dtype), obj.tobytes())
        if isinstance(obj, np.ufunc):
            return _ufunc, (obj.__name__,)
        return NotImplemented


def _check_allowed(module: str, name: str) -> None:
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


class Origins:
    """The numbers, names and origins of what a program refers to. `weights` are the tensors of the model that an entry needs."""

    def __init__(self, found: Recipes, objects: Mapping[str, Any]) -> None:
        self.numbers, self.names, self._recipes = Numbering(), named(objects), found
        self.by_id: dict[int, int] = {}
        self._kept = objects
        for number, (_, array) in enumerate(found.loaded):
            self.by_id[id(array)] = number
        for twin, (_, own) in found.twins.items():
            if id(own) in self.by_id:
                self.by_id.setdefault(twin, self.by_id[id(own)])
        ranges = sorted((_address(array), array.nbytes, k) for k, (_, array) in enumerate(found.loaded) if array.nbytes)
        ranges += sorted(
            (_address(other), other.nbytes, self.by_id[id(own)]) for other, own in found.twins.values() if id(own) in self.by_id
        )
        self._ranges = sorted(ranges)
        self._starts = [start for start, _, _ in self._ranges]

    def array(self, array: Array) -> Any:
        """Return how to create an array again."""
        _, array = self._recipes.twins.get(id(array), (array, array))
        made = self._recipes.packed.get(id(array))
        if made is not None:
            return recipes.packed, (made[1],)
        made = self._recipes.derived.get(id(array))
        if made is not None:
            return _derived, (made[1], array.flags.writeable)
        inside = self._inside(array) or self._inside_of_base(array)
        if inside is not None:
            return _view, inside
        if array.nbytes > MOST_INLINE:
            raise pickle.PicklingError(f"an array of {array.nbytes:,} bytes has no recipe: {array.dtype}{list(array.shape)}")
        if array.dtype.hasobject:
            return _objects, (array.shape, array.reshape(-1).tolist(), array.flags.writeable)
        plain = np.ascontiguousarray(array)
        return _inline, (from_numpy(array.dtype), array.shape, plain.tobytes(), array.flags.writeable)

    def _inside_of_base(self, array: Array) -> Any:
        """Return the arguments of `_view` for a view of an array with a recipe."""
        base = array.base
        if not isinstance(base, np.ndarray) or not base.flags.c_contiguous or min(array.strides, default=0) < 0:
            return None
        if id(base) not in self._recipes.packed and id(base) not in self._recipes.derived:
            return None
        return base, from_numpy(array.dtype), _address(array) - _address(base), array.shape, array.strides

    def _inside(self, array: Array) -> Any:
        """Return the arguments of `_view` for a view of a loaded tensor."""
        if not array.size or array.flags.owndata or array.flags.writeable or min(array.strides, default=0) < 0:
            return None
        address = _address(array)
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start, nbytes, number = self._ranges[at]
        last = sum((dim - 1) * stride for dim, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
        if address + last > start + nbytes:
            return None
        return Weight(number), from_numpy(array.dtype), address - start, array.shape, array.strides


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Weight:
    """A loaded tensor, by its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _view(array: Array, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    flat = array.reshape(-1).view(np.uint8)
    made: Array = np.ndarray(shape, to_numpy(dtype), flat, offset, strides)
    return made


def _derived(make: Callable[[], Array], writeable: bool) -> Array:
    array = make()
    if not writeable:
        array.setflags(write=False)
    return array


def _objects(shape: tuple[int, ...], elements: list[Any], writeable: bool) -> Array:
    made = np.empty(len(elements), object)
    made[:] = elements
    made.setflags(write=writeable)
    return made.reshape(shape)


def _scalar(dtype: str, data: bytes) -> Any:
    return np.frombuffer(data, to_numpy(dtype))[0]


def _ufunc(name: str) -> Any:
    return getattr(np, name)


def _inline(dtype: str, shape: tuple[int, ...], data: bytes, writeable: bool) -> Array:
    made = np.frombuffer(data, to_numpy(dtype)).reshape(shape) if data else np.empty(shape, to_numpy(dtype))
    if writeable:
        return made.copy()
    made.setflags(write=False)
    return made


class Reader(pickle.Unpickler):
    """Reads what a Writer wrote."""

    def __init__(
        self, data: bytes | memoryview, names: Mapping[str, Any], weights: Sequence[Array], objects: Objects = NO_OBJECTS
    ) -> None:
        super().__init__(io.BytesIO(data))
        self._names = names
        self._tables = (objects.values, objects.nodes, objects.graphs, weights)

    def find_class(self, module: str, name: str) -> Any:
        """Find a class or function of ort-lite's packages, or one of a few others. Raises PickleError for anything else."""
        _check_allowed(module, name)
        found = super().find_class(module, name)
        if (module, name) not in _OTHERS:  # a dotted name may lead to what a module imports
            _check_allowed(getattr(found, "__module__", ""), name)
        return found

    def persistent_load(self, pid: Any) -> Any:
        """Return the object with a number or name."""
        return self._tables[pid & 3][pid >> 2] if type(pid) is int else self._names[pid]


def write(obj: Any, found: Recipes, objects: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the pickles of the tables of graphs, and of the object."""
    origins, rows, done = Origins(found, objects), Tables([], [], []), 0
    main = io.BytesIO()
    writer = Writer(main, origins)
    writer.dump(obj)
    while True:  # recipes of constants may refer to nodes that nothing else refers to
        origins.numbers.extend(rows)
        values = list(origins.numbers.values)[done:]
        done += len(values)
        constants = [(value, value.constant) for value in values if value.constant is not None]
        writer.dump(constants)
        if not constants:
            break
    tables = io.BytesIO()
    Writer(tables, origins).dump(rows)
    return tables.getvalue(), main.getvalue()


def read(tables: bytes | memoryview, main: bytes | memoryview, names: Mapping[str, Any], weights: Sequence[Array]) -> Any:
    """Return the object that was written. Raises whatever malformed bytes lead to."""
    with _without_collector():
        return _read(tables, main, names, weights)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Create many objects, none of which is garbage, without the collector, which would look at each several times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(tables: bytes | memoryview, main: bytes | memoryview, names: Mapping[str, Any], weights: Sequence[Array]) -> Any:
    found = Reader(tables, names, weights).load()
    if not isinstance(found, Tables):
        raise pickle.UnpicklingError("it has no tables")
    reader = Reader(main, names, weights, restore(found))
    made = reader.load()
    while constants := reader.load():
        for value, array in constants:
            value.constant = array
    return made
