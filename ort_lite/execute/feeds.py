"""Validation of a session's feeds. The common case takes well under a microsecond per input; others are converted or rejected.

A compiled graph gets C-contiguous, aligned arrays of native byte order and the declared element type. ort-lite never writes to a
feed: an array that already meets these conditions is passed on unchanged, any other is copied.
"""

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import DType, from_numpy, ort_name, to_numpy
from ort_lite.errors import InvalidArgument, OutOfMemory, describe, format_error
from ort_lite.graph.graph import Value
from ort_lite.graph.types import MapType, OptionalType, SequenceType, TensorType, Type, type_name
from ort_lite.memory import sliced_copy
from ort_lite.provider.current import run_options
from ort_lite.shapes.dims import Shape

Check = Callable[[Any], Any]

_OBJECT = np.dtype(object)
_STRING = ort_name("string")
SLICE = 1 << 16
"""The number of strings that are processed between two checks for a cancelled run."""
_ITEMS = 1 << 14
"""The number of sequence elements that are processed between two checks."""
LONGEST = 200
"""The most characters of a name that an error message shows."""
_READY = 0x101  # flags.num: C_CONTIGUOUS | ALIGNED


class Feeds:
    """Converts a feed to the list of the graph's inputs, in order."""

    def __init__(self, inputs: Sequence[Value], around: Callable[[Value, Check], Check] | None = None) -> None:
        """`around` may wrap the type check of an input in another check."""
        checks = [(value, _unread(check(value.name, value.type), value)) for value in inputs]
        self._checks = [(value.name, each if around is None else around(value, each)) for value, each in checks]
        self._optional = {value.name for value in inputs if isinstance(value.type, OptionalType)}
        self._count = len(self._checks)

    def __call__(self, feed: Mapping[str, Any]) -> list[Any]:
        """Return the inputs in order. Raises InvalidArgument naming the input, the value and what is expected."""
        arrays = []
        try:
            if len(feed) != self._count:
                self._complain(feed)
                feed = {**dict.fromkeys(self._optional), **feed}
            for name, accept in self._checks:
                arrays.append(accept(feed[name]))  # a comprehension would add a call
        except (KeyError, TypeError):
            self._complain(feed)
            raise
        return arrays

    def _complain(self, feed: Mapping[str, Any]) -> None:
        if not isinstance(feed, Mapping):
            raise InvalidArgument(f"the feed is a {type(feed).__name__}; expected a dict from input names to arrays")
        names = [name for name, _ in self._checks]
        missing = [name for name in names if name not in feed and name not in self._optional]
        unknown = [name for name in feed if name not in names]
        came = ", ".join(map(_format_name, feed)) or "nothing"
        if missing:
            raise InvalidArgument(
                f"missing input{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; fed were {came}"
            ).about(
                input=missing[0],
                expected=", ".join(names),
                got=came,
                words=f"Required inputs ({missing}) are missing from input feed ({list(feed)})",
            )
        if unknown:
            expected = ", ".join(map(repr, names)) or "no input at all"
            raise InvalidArgument(f"the model has no input {', '.join(map(_format_name, unknown))}; expected {expected}").about(
                input=unknown[0], expected=expected, got=came, words=f"Invalid input name: {unknown[0]}"
            )


def _format_name(name: object) -> str:
    """Format a name from a feed, which may be of any type and too long for a message."""
    text = repr(name) if isinstance(name, str) else reprlib.repr(name)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _unread(accept: Check, value: Value) -> Check:
    """Extend `accept` to allow None for an input that nothing reads, as onnxruntime does."""
    if value.is_read():
        return accept
    return lambda given: None if given is None else accept(given)


def check(name: str, type_: Type | None) -> Check:
    """Return the function that checks the values of an input: it converts them if needed, or raises InvalidArgument."""
    match type_:
        case TensorType("string", shape):
            return _string_check(name, shape)
        case TensorType(dtype, shape):
            return _tensor_check(name, dtype, shape)
        case SequenceType(element):
            return _sequence_check(name, check(name, element), type_)
        case OptionalType(element):
            inner = check(name, element)
            return lambda value: None if value is None else inner(value)
        case MapType():
            return lambda value: value if isinstance(value, Mapping) else _refuse(name, value, type_)
    return lambda value: value


def _tensor_check(name: str, dtype: DType, shape: Shape | None) -> Check:
    expected = to_numpy(dtype)
    accepted: tuple[int, ...] | None = None

    def accept(value: Any) -> Any:
        nonlocal accepted  # the last shape: the next one is probably the same
        # dtypes that were unpickled are equal to, and not, those of NumPy
        if (
            value.__class__ is np.ndarray
            and (value.dtype is expected or value.dtype == expected)
            and value.flags.num & _READY == _READY
        ):
            array = value
        else:
            array = _convert(name, value, dtype, expected, shape)
        if array.shape != accepted:
            check_shape(name, array.shape, shape)
            accepted = array.shape
        return array

    return accept


def _string_check(name: str, shape: Shape | None) -> Check:
    accepted: tuple[int, ...] | None = None

    def accept(value: Any) -> Any:
        nonlocal accepted
        array = _strings(name, value)
        if array.shape != accepted:
            check_shape(name, array.shape, shape)
            accepted = array.shape
        return array

    return accept


def _sequence_check(name: str, accept: Check, type_: Type) -> Check:
    def accept_all(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            _refuse(name, value, type_)
        items: list[Any] = []
        for start in range(0, len(value), _ITEMS):
            _check_termination(f"at element {start} of input {name!r}", name)
            items += map(accept, value[start : start + _ITEMS])
        return items

    return accept_all


def check_shape(name: str, came: tuple[int, ...], expected: Shape | None) -> None:
    """Raise InvalidArgument if the rank or a fixed dimension differs. A scalar is not enforced, as in onnxruntime."""
    if not expected:
        return
    if len(came) != len(expected):
        text = _dimensions(expected)
        why = f"has rank {len(came)}, shape {list(came)}; expected rank {len(expected)}, {text}"
        words = f"Invalid rank for input: {name} Got: {len(came)} Expected: {len(expected)}"
        raise _error(name, why, text, str(list(came)), words)
    for axis, (dim, fixed) in enumerate(zip(came, expected, strict=True)):
        if isinstance(fixed, int) and dim != fixed:
            text = _dimensions(expected)
            why = f"has {dim} in dimension {axis}, shape {list(came)}; expected {text}"
            raise _error(name, why, text, str(list(came)), f"Got invalid dimensions for input: {name}")


def _dimensions(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _error(name: str, why: str, expected: str, got: str, words: str = "") -> InvalidArgument:
    """Return the error for an input that is not what is expected. `words` are onnxruntime's, if they differ."""
    return InvalidArgument(f"input {name!r} {why}").about(input=name, expected=expected, got=got, words=words)


def _convert(name: str, value: Any, dtype: DType, expected: np.dtype[Any], shape: Shape | None) -> np.ndarray[Any, Any]:
    """Convert another kind of array, or Python numbers, to an array that kernels can read.

    Arrays must have the expected element type; Python numbers are converted to it. A broadcast view, which claims more memory than
    it uses, is copied only if its shape matches.
    """
    if value is None:
        raise _error(name, f"is None; expected {ort_name(dtype)}", ort_name(dtype), "None")
    array = _as_array(name, value, dtype)
    if array.dtype.newbyteorder("=") != expected:
        if _brings_type(value):
            wanted, got = ort_name(dtype), _type_of(array)
            why = f"is {got} of shape {list(array.shape)}; expected {wanted}: convert it, e.g. by .astype({expected.name!r})"
            raise _error(name, why, wanted, got, f"Unexpected input data type. Actual: ({got}) , expected: ({wanted})")
        array = _numbers(name, array, dtype, expected)
    check_shape(name, array.shape, shape)
    try:
        if array.nbytes > sliced_copy.SLICE and not (
            array.flags.c_contiguous and array.flags.aligned and array.dtype == expected
        ):
            return _copy(name, array, expected)
        return np.array(array, expected, order="C", copy=None if array.flags.aligned else True)
    except MemoryError as error:
        raise OutOfMemory(f"input {name!r} of shape {list(array.shape)} cannot be copied: {error}").about(input=name) from error


def _copy(name: str, array: np.ndarray[Any, Any], expected: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Copy to a new C-contiguous array."""
    made = np.empty(array.shape, expected)
    sliced_copy.assign(made, array, lambda: _check_termination(f"while input {name!r} was copied", name))
    return made


def _check_termination(where: str, name: str) -> None:
    """Raise RunTerminated if the current run was cancelled."""
    options = run_options()
    if options is not None and options.terminate:
        raise options.termination(where).about(input=name)


def _as_array(name: str, value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except MemoryError as error:
        raise OutOfMemory(f"input {name!r} does not fit into memory as an array: {describe(error)}").about(
            input=name
        ) from error
    except Exception as error:
        reason = (
            format_error(error)
            if not isinstance(error, ValueError | TypeError | RuntimeError)
            else str(error).partition(".")[0]
        )
        why = f"makes no array of {ort_name(dtype)}: {reason}"
        raise _error(name, why, ort_name(dtype), type(value).__name__) from error


def _brings_type(value: Any) -> bool:
    """Return True if the value has an element type, unlike nested lists and Python numbers."""
    return hasattr(value, "dtype") or hasattr(value, "__array__")


def _numbers(name: str, array: np.ndarray[Any, Any], dtype: DType, expected: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert Python numbers to the declared element type. Raises InvalidArgument if that changes a value."""
    if array.dtype.kind not in "biuf" and array.size:
        why = f"holds {_type_of(array)}; expected numbers for {ort_name(dtype)}"
        raise _error(name, why, ort_name(dtype), _type_of(array))
    with np.errstate(all="ignore"):
        converted = array.astype(expected)
        exact = expected.kind not in "biu" or np.array_equal(converted.astype(array.dtype), array)
    if not exact:
        why = f"holds numbers that {ort_name(dtype)} cannot; they came as {_type_of(array)}"
        raise _error(name, why, ort_name(dtype), _type_of(array))
    return converted


def _strings(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return an object array of str, converted as onnxruntime does.

    Bytes are decoded as UTF-8, numpy.void included with its trailing zeros; other objects are converted by `str`. Raises
    RunTerminated if the run is cancelled meanwhile.
    """
    if value.__class__ is np.ndarray and value.dtype is _OBJECT and value.size <= SLICE:
        if value.size == 1:  # C-contiguous in any case
            if value.item().__class__ is str:
                return value
        elif value.flags.c_contiguous and _are_texts(value.reshape(-1).tolist()):
            return value
    array = value if isinstance(value, np.ndarray) else _objects(name, value)
    ready = array.dtype == _OBJECT and array.flags.c_contiguous
    if array.dtype.kind not in "OUSTV" or array.dtype.names is not None:
        raise _error(name, f"is {_type_of(array)}; expected {_STRING}: str, or an array of them", _STRING, _type_of(array))
    if ready and all(_are_texts(items) for _, items in _slices(name, array)):
        return array
    texts = np.empty(array.size, object)
    for start, items in _slices(name, array):
        texts[start : start + len(items)] = items if _are_texts(items) else [_text(name, item) for item in items]
    return texts.reshape(array.shape)


def _are_texts(items: list[Any]) -> bool:
    """Return True if all items are of class str itself. 12 ns an item."""
    return [*map(type, items)].count(str) == len(items)


def _slices(name: str, array: np.ndarray[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the elements in slices, each with its start index."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, SLICE):
        if start:
            _check_termination(f"before its first node: the texts of input {name!r} were being converted", name)
        yield start, flat[start : start + SLICE].tolist()


def _objects(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value, object)
    except Exception as error:
        why = f"makes no array of {_STRING}: {format_error(error)}"
        raise _error(name, why, _STRING, type(value).__name__) from error


def _text(name: str, item: Any) -> str:
    if isinstance(item, (list, tuple, np.ndarray)):
        why = f"is ragged: it holds {reprlib.repr(item)} where {_STRING} has one element"
        raise _error(name, why, _STRING, type(item).__name__)
    try:
        return item.decode() if isinstance(item, bytes) else str(item)
    except UnicodeDecodeError as error:
        raise _error(name, f"holds bytes that are not UTF-8: {error}", _STRING, "bytes") from error
    except Exception as error:
        kind = type(item).__name__
        why = f"holds an object of class {kind} whose text cannot be made: {format_error(error)}"
        raise _error(name, why, _STRING, kind) from error


def _type_of(array: np.ndarray[Any, Any]) -> str:
    try:
        return ort_name(from_numpy(array.dtype))
    except KeyError:
        return str(array.dtype)


def _refuse(name: str, value: Any, type_: Type) -> Any:
    got = type(value).__name__
    raise _error(name, f"is a {got}; expected {type_name(type_)}", type_name(type_), got)
