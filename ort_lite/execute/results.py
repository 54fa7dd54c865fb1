"""Checks of values that cross between providers, before anything reads them: native code trusts types and shapes.

Values are checked when they leave a partition on the CPU, or one on a device as host values, when they are copied out of a
device's memory, and when they enter a body. Values of providers that are `exact` are not checked.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

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
"""A size that is not compared: an expression without a value, or sequence elements that differ."""


class Wrapper:
    """A compiled partition wrapped by the framework."""

    function: CompiledPartition
    witnesses: tuple[Value, ...] = ()
    """Values whose arrays, or whose shapes, follow the inputs in each call."""


class MemberCall(NamedTuple):
    """A call of another member of a partition, which passes its guards in place of inputs. `function` takes inputs and the state."""

    function: Callable[..., Sequence[Any]]
    inputs: Sequence[Any]


class Checked(Wrapper):
    """A compiled partition on the CPU with read-only inputs and checked outputs (see `Expected`).

    The arrays of `witnesses` follow the inputs in each call; they determine sizes that the inputs do not. Costs about 0.3 us per
    input and output.
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


class HostChecked(Wrapper):
    """A compiled partition on a device with read-only views of its host inputs and checked host outputs (see `Expected`).

    The arrays or shapes of `witnesses` follow the inputs in each call.
    """

    def __init__(self, function: CompiledPartition, partition: Partition, outer: Sequence[Value]) -> None:
        provider, host = partition.provider, partition.host_values
        self.function, self._inputs = function, len(partition.inputs)
        self._takes_witnesses = bool(witnesses_of(function))
        self.witnesses = witnesses(partition.outputs, outer)
        self._given = [k for k, value in enumerate(partition.inputs) if value in host]
        self._views = () if provider.writes_no_input else tuple(self._given)
        self._who = f"{partition.name} ({provider.name})"
        given = (*(partition.inputs[k] for k in self._given), *self.witnesses)
        self._results = None if provider.exact else ExpectedHost(self._who, partition.outputs, host, given)
        self._outputs = len(partition.outputs)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        member = inputs if type(inputs) is MemberCall else None
        inputs = inputs if member is None else member.inputs
        told_by = inputs[self._inputs :]
        own: Any = list(inputs if self._takes_witnesses else inputs[: self._inputs])
        for k in self._views:
            own[k] = read_only(own[k])
        given = own if member is None else member._replace(inputs=own)
        results = check_results(self.function(given), self._outputs, self._who)
        if self._results is None:
            return results
        return self._results(results, [*(inputs[k] for k in self._given), *told_by])


def witnesses_of(function: CompiledPartition) -> tuple[Value, ...]:
    """Return the values whose arrays follow the inputs in each call of a guarded partition."""
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
    """Return a read-only view of an array, or a copy of a list or map with such views."""
    if isinstance(x, np.ndarray):
        view = x.view()
        view.setflags(write=False)
        return view
    if isinstance(x, list):
        return [read_only(item) for item in x]
    return {key: read_only(item) for key, item in x.items()} if isinstance(x, dict) else x


def check_results(returned: Any, count: int, who: str) -> Sequence[Any]:
    """Return the results of a call as a sequence of `count` values. Raises ProviderError if they are not one."""
    results: Sequence[Any] = returned
    if not isinstance(returned, (list, tuple)):
        if not isinstance(returned, Sequence) or isinstance(returned, (str, bytes, bytearray, memoryview)):
            got = "None" if returned is None else f"a {type(returned).__name__}"
            raise ProviderError(f"{who} returned {got}; expected a list of {count} values, one an output")
        results = list(returned)
    if len(results) != count:
        raise ProviderError(f"{who} returned {len(results)} values for {count} outputs")
    return results


class Expected:
    """The expected types of values: arrays with the graph's element type, rank and sizes, lists of such arrays, maps.

    The arrays of `given` bind symbols; so does the first result that has a symbol not bound yet. A symbol for which the arrays
    disagree, as the model's inputs may, is not compared. NumPy scalars become 0-d arrays. Subclasses and strided, misaligned or
    byte-swapped arrays become plain arrays. Arrays that a graph returns are writable and share no memory with `given` or each
    other. Raises ProviderError for anything else, naming `who`, the value and the dimension.
    """

    def __init__(self, who: str, values: Sequence[Value], given: Sequence[Value] = (), verb: str = "returned") -> None:
        self._who, self._verb, self._values = who, verb, tuple(values)
        self._owned = [value.is_graph_output() for value in values]
        self._fast = [_fast(value.type, own) for value, own in zip(values, self._owned, strict=True)]
        self._any_owned = any(self._owned)
        self._sizes = _CallSizes(values, given)

    def __call__(self, results: Any, given: Sequence[Any] = ()) -> Sequence[Any]:
        """Return the results, with plain arrays in place of those that had to be converted."""
        results = check_results(results, len(self._values), self._who)
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
            made = self._convert(self._values[k], result, sizes, found)
            if own and isinstance(made, np.ndarray):
                made = _own(made, result, [*given, *results[:k], *results[k + 1 :]])
            if made is not result:
                results = [*results[:k], made, *results[k + 1 :]]
        return _separate(results, self._owned, given) if self._any_owned else results

    def _convert(self, value: Value, x: Any, sizes: "_Bound", found: dict[Dim, int]) -> Any:
        """Return a value as its readers expect it."""

        def wrong(x: Any, type_: Type | None, what: str, why: str = "") -> NoReturn:
            wanted = type_ if type_ is not None else "a value"
            raise ProviderError(f"{self._who} {self._verb} {_describe(x)} for {what}; expected {wanted}{why}")

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


class ExpectedHost:
    """The expected types of those `values` that are in `host`; the others are in the memory of a device."""

    def __init__(
        self, who: str, values: Sequence[Value], host: Collection[Value], given: Sequence[Value] = (), verb: str = "returned"
    ) -> None:
        self._places = [k for k, value in enumerate(values) if value in host]
        self._expected = Expected(who, [values[k] for k in self._places], given, verb)

    def __call__(self, values: Sequence[Any], given: Sequence[Any] = ()) -> Sequence[Any]:
        """Return the values, with plain arrays in place of host values that had to be converted."""
        checked = self._expected([values[k] for k in self._places], given)
        made = list(values)
        for k, value in zip(self._places, checked, strict=True):
            made[k] = value
        return made


class KnownShapes:
    """The shapes of values on a device, as far as the graph and the shapes of `given` determine them."""

    def __init__(self, values: Sequence[Value], given: Sequence[Value]) -> None:
        self._sizes, self._tensors = _CallSizes(values, given), [isinstance(value.type, TensorType) for value in values]

    def of(self, given: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Return the dimensions of each tensor of numbers; None for other values, and for a shape with an unknown size."""
        shapes = self._sizes.of(given).shapes
        return [_complete(shape) if known else None for shape, known in zip(shapes, self._tensors, strict=True)]


def _complete(shape: tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    known = () if shape is None else tuple(size for size in shape if size is not None and size != _ANY)
    return None if shape is None or len(known) < len(shape) else known


class _Bound(Record, eq=False):
    """The sizes in one call, derived from those in `key`. `shapes` has the shape of each value, None for an open size."""

    key: tuple[int, ...]
    dims: Mapping[Dim, int]
    shapes: tuple[tuple[int | None, ...] | None, ...]


class _CallSizes:
    """The sizes of dimensions in a call, from its arrays. The sizes of the last call are cached."""

    def __init__(self, values: Sequence[Value], given: Sequence[Value]) -> None:
        self._types = [_tensor(value.type) for value in values]
        self._dims = _open_dims(values)
        wanted = {found.name for found in symbols(self._dims)}
        self._sources = [
            (k, axis, name) for k, value in enumerate(given) for axis, name in _plain_dims(value) if name in wanted
        ]
        self._last = self._bind(None)

    def of(self, arrays: Sequence[Any]) -> _Bound:
        last = self._last
        if self._sources:
            key = tuple([arrays[k].shape[axis] for k, axis, _ in self._sources])
            if key != last.key:
                last = self._last = self._bind(key)
        return last

    def _bind(self, key: tuple[int, ...] | None) -> _Bound:
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
    """Evaluate a dimension. Return None if a symbol is open, _ANY if the expression is undefined."""
    if any(found.name in differ for found in symbols([dim])):
        return _ANY
    try:
        return max(evaluate(dim, sizes), _ANY)
    except KeyError:
        return None
    except ArithmeticError:
        return _ANY


def _misfit(got: tuple[int, ...], shape: Shape | None, dims: Mapping[Dim, int] | None, found: dict[Dim, int]) -> str:
    """Describe the first mismatch of a shape: its rank, or the first wrong size. Without `dims`, only numbers count."""
    if shape is None:
        return ""
    if len(got) != len(shape):
        return f", of rank {len(shape)}"
    for axis, (size, dim) in enumerate(zip(got, shape, strict=True)):
        wanted = dim if isinstance(dim, int) else _ANY if dims is None else dims.get(dim)
        if wanted is None:  # open: bound by the first result that has it
            wanted = found.setdefault(dim, size)
        if wanted not in (size, _ANY):
            return f": dimension {axis} is {size}" + ("" if isinstance(dim, int) else f", and {dim} is {wanted}")
    return ""


def _array(x: Any, type_: TensorType) -> Array | None:
    """Convert to a contiguous, aligned array of native byte order and no subclass; None if the element type differs."""
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
    """Return an object array of str, or None for other elements."""
    if array.dtype.kind not in "OUT":
        return None
    objects = np.asarray(array, object, order="C")
    return objects if all(isinstance(item, str) for item in objects.flat) else None


def _own(array: Array, result: Any, others: Sequence[Any]) -> Array:
    """Return an array that the caller may keep, copied if it shares memory or is read-only."""
    if array is not result and owns_bytes(array):
        return array
    shared = not owns_bytes(array) and any(_may_share(array, other) for other in others)
    return array.copy() if shared or not array.flags.writeable else array


def _may_share(array: Array, other: Any) -> bool:
    if isinstance(other, (list, tuple)):
        return any(_may_share(array, item) for item in other)
    return isinstance(other, np.ndarray) and np.may_share_memory(array, other)


def _separate(results: Sequence[Any], owned: Sequence[bool], given: Sequence[Any]) -> Sequence[Any]:
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
    """Return the element type and flags of an array that needs no conversion."""
    if not isinstance(type_, TensorType) or type_.dtype == "string":
        return None
    return to_numpy(type_.dtype), _READY | (_WRITEABLE if own else 0)


def _tensor(type_: Type | None) -> TensorType | None:
    """Return the tensor type of a value, looking inside an optional."""
    if isinstance(type_, OptionalType):
        return _tensor(type_.element)
    return type_ if isinstance(type_, TensorType) else None


def _open_dims(values: Sequence[Value]) -> list[Dim]:
    """Return the symbolic dimensions, each once."""
    types = (_tensor(value.type) for value in values)
    return list(dict.fromkeys(d for t in types if t is not None and t.shape for d in t.shape if isinstance(d, Expr)))


def _plain_dims(value: Value) -> list[tuple[int, str]]:
    """Return (axis, name) for each dimension that is a plain symbol."""
    found = ((axis, as_symbol(dim)) for axis, dim in enumerate(value.shape or ()))
    return [(axis, symbol.name) for axis, symbol in found if symbol is not None]


def _describe(x: Any) -> str:
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
