"""Checks of values that cross between providers, before anybody reads them: native code trusts types and shapes.

A border is where values pass into hands that did not make them: out of a partition on the CPU, out of a device's memory by a
copy, into a body. Providers that are `exact` are not looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ort_lite.dtypes import Array, from_numpy, to_numpy
from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Value
from ort_lite.graph.types import MapType, OptionalType, SequenceType, TensorType, Type
from ort_lite.memory.arenas import owns_bytes
from ort_lite.provider.provider import CompiledPartition, Partition
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape, as_symbol, evaluate, symbols
from ort_lite.shapes.expr import Dim, Expr

_READY = 0x101  # flags.num: C_CONTIGUOUS | ALIGNED
_WRITEABLE = 0x400
_ANY = -1
"""A size that is not compared: that of an expression which has no value, or elements of a sequence which differ."""


class Wrapper:
    """A compiled partition with something of the framework's around it."""

    function: CompiledPartition
    witnesses: tuple[Value, ...] = ()
    """Values whose arrays, or what tells their shapes, it is called with behind its inputs."""


class Checked(Wrapper):
    """A compiled partition on the CPU: its inputs cannot be written to, its outputs are what the graph says (see `Expected`).

    It is called with the arrays of `witnesses` behind its inputs: they tell sizes that the inputs do not. About 0.3 us an input and an
    output.
    """

    def __init__(self, function: CompiledPartition, partition: Partition, outer: Sequence[Value]) -> None:
        inputs, outputs = partition.inputs, partition.outputs
        self.function, self._inputs, self._views = function, len(inputs), not partition.provider.writes_no_input
        self.witnesses = witnesses(outputs, [value for value in outer if value not in inputs])
        self._expected = Expected(f"{partition.name} ({partition.provider.name})", outputs, (*inputs, *self.witnesses))

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        own = inputs if len(inputs) == self._inputs else inputs[: self._inputs]
        results: Any = self.function([read_only(x) for x in own] if self._views else own)
        return self._expected(results, inputs)


def witnesses_of(function: CompiledPartition) -> tuple[Value, ...]:
    """Return the values whose arrays a guarded partition is called with in addition to its inputs."""
    while isinstance(function, Wrapper):
        if function.witnesses:
            return function.witnesses
        function = function.function
    return ()


def witnesses(values: Sequence[Value], outer: Sequence[Value]) -> tuple[Value, ...]:
    """Return the values of `outer` that determine a symbol in the shapes of `values`."""
    wanted = {found.name for found in symbols(_open_dims(values))}
    return tuple(value for value in outer if any(found in wanted for _, found in _plain_dims(value)))


def read_only(x: Any) -> Any:
    """A view that cannot be written to; of lists and maps a copy with such views."""
    if isinstance(x, np.ndarray):
        view = x.view()
        view.setflags(write=False)
        return view
    if isinstance(x, list):
        return [read_only(item) for item in x]
    return {key: read_only(item) for key, item in x.items()} if isinstance(x, dict) else x


def listed(returned: Any, count: int, who: str) -> Sequence[Any]:
    """Return the results of a call, which must be a sequence of so many values. Raises ProviderError."""
    results: Sequence[Any] = returned
    if not isinstance(returned, (list, tuple)):
        if not isinstance(returned, Sequence) or isinstance(returned, (str, bytes, bytearray, memoryview)):
            came = "None" if returned is None else f"a {type(returned).__name__}"
            raise ProviderError(f"{who} returned {came}; expected a list of {count} values, one an output")
        results = list(returned)
    if len(results) != count:
        raise ProviderError(f"{who} returned {len(results)} values for {count} outputs")
    return results


class Expected:
    """The types that values must have: arrays of the graph's type, rank and sizes, lists of such arrays, maps.

    Symbols are bound by the arrays of `given`, and by the first result that has them; one for which the arrays differ, as
    the model's inputs may, is not compared. NumPy's scalars become 0-d arrays; arrays of subclasses, of another byte order, strided
    and misaligned ones become plain; those that a graph returns can be written to and share no memory with `given` and each
    other. Raises ProviderError for anything else, naming `who`, value and dimension.
    """

    def __init__(self, who: str, values: Sequence[Value], given: Sequence[Value] = (), verb: str = "returned") -> None:
        self._who, self._verb, self._values = who, verb, tuple(values)
        self._owned = [value.is_graph_output() for value in values]
        self._fast = [_fast(value.type, own) for value, own in zip(values, self._owned, strict=True)]
        self._any_owned = any(self._owned)
        self._sizes = _Sizes(values, given)

    def __call__(self, results: Any, given: Sequence[Any] = ()) -> Sequence[Any]:
        """The results, or a list with those in their places that had to be made plain."""
        results = listed(results, len(self._values), self._who)
        sizes = self._sizes.of(given)
        found: dict[Dim, int] = {}
        for k, (result, fast, own) in enumerate(zip(results, self._fast, self._owned, strict=True)):
            if (
                fast is not None
                and type(result) is np.ndarray
                and result.dtype == fast[0]
                and result.flags.num & fast[1] == fast[1]
                and (not own or owns_bytes(result))
                and result.shape == sizes.shapes[k]
            ):
                continue
            made = self._made(self._values[k], result, sizes, found)
            if own and isinstance(made, np.ndarray):
                made = _owned(made, result, [*given, *results[:k], *results[k + 1 :]])
            if made is not result:
                results = [*results[:k], made, *results[k + 1 :]]
        return _apart(results, self._owned, given) if self._any_owned else results

    def _made(self, value: Value, x: Any, sizes: "_Bound", found: dict[Dim, int]) -> Any:
        """A value as readers take it."""

        def wrong(x: Any, type_: Type | None, what: str, why: str = "") -> NoReturn:
            wanted = type_ if type_ is not None else "a value"
            raise ProviderError(f"{self._who} {self._verb} {_told(x)} for {what}; expected {wanted}{why}")

        def plain(x: Any, type_: Type | None, what: str, alike: bool) -> Any:
            match type_:
                case TensorType():
                    array = _array(x, type_)
                    if array is None:
                        wrong(x, type_, what)
                    if why := _misfit(array.shape, type_.shape, sizes.dims if alike else None, found):
                        wrong(array, type_, what, why)
                    return array
                case SequenceType(element) if isinstance(x, (list, tuple)):
                    return [plain(item, element, f"element {k} of {what}", False) for k, item in enumerate(x)]
                case OptionalType(element):
                    return None if x is None else plain(x, element, what, alike)
                case MapType() if isinstance(x, Mapping):
                    return x
                case None if x is not None:
                    return np.asarray(x) if isinstance(x, (np.generic, np.ndarray)) else x
            wrong(x, type_, what)

        return plain(x, value.type, repr(value.name), True)


class KnownShapes:
    """The shapes of values on a device, as far as the graph and the shapes of what was `given` tell them."""

    def __init__(self, values: Sequence[Value], given: Sequence[Value]) -> None:
        self._sizes, self._tensors = _Sizes(values, given), [isinstance(value.type, TensorType) for value in values]

    def of(self, given: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Return the dimensions of a tensor of numbers; None for anything else, and for a shape with an unknown size."""
        shapes = self._sizes.of(given).shapes
        return [_all_known(shape) if known else None for shape, known in zip(shapes, self._tensors, strict=True)]


def _all_known(shape: tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    known = () if shape is None else tuple(size for size in shape if size is not None and size != _ANY)
    return None if shape is None or len(known) < len(shape) else known


class _Bound(Record, eq=False):
    """Sizes in one call: `key` is what they were made of, `shapes` has the shape of each value, None for a size that is open."""

    key: tuple[int, ...]
    dims: Mapping[Dim, int]
    shapes: tuple[tuple[int | None, ...] | None, ...]


class _Sizes:
    """The sizes of dimensions in a call, from its arrays. Those of the last call are cached."""

    def __init__(self, values: Sequence[Value], given: Sequence[Value]) -> None:
        self._types = [_tensor(value.type) for value in values]
        self._dims = _open_dims(values)
        wanted = {found.name for found in symbols(self._dims)}
        self._sources = [
            (k, axis, name) for k, value in enumerate(given) for axis, name in _plain_dims(value) if name in wanted
        ]
        self._last = self._bound(None)

    def of(self, arrays: Sequence[Any]) -> _Bound:
        last = self._last
        if self._sources:
            key = tuple([arrays[k].shape[axis] for k, axis, _ in self._sources])
            if key != last.key:
                last = self._last = self._bound(key)
        return last

    def _bound(self, key: tuple[int, ...] | None) -> _Bound:
        sizes: dict[str, int] = {}
        differ = set()
        for (_, _, name), size in zip(self._sources, key or (), strict=False):
            if sizes.setdefault(name, size) != size:
                differ.add(name)
        dims = {dim: known for dim in self._dims if (known := _value(dim, sizes, differ)) is not None}
        shapes = tuple(
            None if t is None or t.shape is None else tuple(d if isinstance(d, int) else dims.get(d) for d in t.shape)
            for t in self._types
        )
        return _Bound(key or (), dims, shapes)


def _value(dim: Dim, sizes: Mapping[str, int], differ: set[str]) -> int | None:
    """Evaluate a dimension: None if a symbol is open, _ANY if the expression is undefined."""
    if any(found.name in differ for found in symbols([dim])):
        return _ANY
    try:
        return max(evaluate(dim, sizes), _ANY)
    except KeyError:
        return None
    except ArithmeticError:
        return _ANY


def _misfit(came: tuple[int, ...], shape: Shape | None, dims: Mapping[Dim, int] | None, found: dict[Dim, int]) -> str:
    """Describe the first mismatch of a shape: its rank, or the first wrong size. Without `dims`, only numbers count."""
    if shape is None:
        return ""
    if len(came) != len(shape):
        return f", of rank {len(shape)}"
    for axis, (size, dim) in enumerate(zip(came, shape, strict=True)):
        wanted = dim if isinstance(dim, int) else _ANY if dims is None else dims.get(dim)
        if wanted is None:  # open: the first result that has it tells
            wanted = found.setdefault(dim, size)
        if wanted not in (size, _ANY):
            return f": dimension {axis} is {size}" + ("" if isinstance(dim, int) else f", and {dim} is {wanted}")
    return ""


def _array(x: Any, type_: TensorType) -> Array | None:
    """A plain array: contiguous, aligned, of native byte order and no subclass. None for what has another element type."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return None
    if type_.dtype == "string":
        return _strings(np.asarray(x))
    dtype = to_numpy(type_.dtype)
    if x.dtype != dtype and x.dtype.newbyteorder("=") != dtype:
        return None
    plain = type(x) is np.ndarray and x.flags.aligned
    return np.array(x, dtype, order="C", copy=None if plain else True)


def _strings(array: Array) -> Array | None:
    """An object array of str."""
    if array.dtype.kind not in "OUT":
        return None
    objects = np.asarray(array, object, order="C")
    return objects if all(isinstance(item, str) for item in objects.flat) else None


def _owned(array: Array, result: Any, others: Sequence[Any]) -> Array:
    """An array that the caller may have."""
    if array is not result and owns_bytes(array):
        return array
    shared = not owns_bytes(array) and any(_may_share(array, other) for other in others)
    return array.copy() if shared or not array.flags.writeable else array


def _may_share(array: Array, other: Any) -> bool:
    if isinstance(other, (list, tuple)):
        return any(_may_share(array, item) for item in other)
    return isinstance(other, np.ndarray) and np.may_share_memory(array, other)


def _apart(results: Sequence[Any], owned: Sequence[bool], given: Sequence[Any]) -> Sequence[Any]:
    """Copy the arrays that are one of `given` or an earlier result."""
    seen = set(map(id, given))
    if seen.isdisjoint(map(id, results)) and len(set(map(id, results))) == len(results):
        return results
    made = list(results)
    for k, result in enumerate(results):
        if owned[k] and id(result) in seen and isinstance(result, np.ndarray):
            made[k] = result.copy()
        seen.add(id(result))
    return made


def _fast(type_: Type | None, own: bool) -> "tuple[np.dtype[Any], int] | None":
    """Element type and flags of an array that is taken as it is."""
    if not isinstance(type_, TensorType) or type_.dtype == "string":
        return None
    return to_numpy(type_.dtype), _READY | (_WRITEABLE if own else 0)


def _tensor(type_: Type | None) -> TensorType | None:
    """The tensor that a value of the type is, if it is there and one."""
    if isinstance(type_, OptionalType):
        return _tensor(type_.element)
    return type_ if isinstance(type_, TensorType) else None


def _open_dims(values: Sequence[Value]) -> list[Dim]:
    """Dimensions that are no numbers, each once."""
    types = (_tensor(value.type) for value in values)
    return list(dict.fromkeys(d for t in types if t is not None and t.shape for d in t.shape if isinstance(d, Expr)))


def _plain_dims(value: Value) -> list[tuple[int, str]]:
    """(axis, name) of the dimensions that are symbols."""
    found = ((axis, as_symbol(dim)) for axis, dim in enumerate(value.shape or ()))
    return [(axis, symbol.name) for axis, symbol in found if symbol is not None]


def _told(x: Any) -> str:
    """Describe a value, for messages."""
    if x is None:
        return "None"
    if not isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__
    try:
        name = from_numpy(x.dtype) if x.dtype.isnative else str(x.dtype)
    except KeyError:
        name = str(x.dtype)
    return f"{name}{list(x.shape)}"
