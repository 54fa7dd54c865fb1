"""A scanner that finds the large tensors of a serialised ModelProto, so that protobuf need not copy them.

protobuf copies `raw_data` while parsing, and again whenever the field is read. `outline` takes these bytes out: it returns a small
ModelProto in which each large tensor has, instead of `raw_data`, the field `segment` (which ONNX reserves and nobody writes) with
the begin and end of its bytes in the original. For a file, it reads only the rest.

It visits at most one field per 32 bytes and leaves a model with more fields to protobuf, so that a scan takes about 20 ms per
megabyte at most. Bytes that cannot be a message are rejected at the first field that shows it.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from ort_lite.native.checkpoint import checkpoint

Span = tuple[int, int]
Buffer = bytes | memoryview
LARGE = 4096  # bytes from which a tensor counts as large
EVERY = 1  # bytes from which tensors stay in the caller's buffer

# Message -> {field number: message in it}, along every path that leads to a TensorProto.
_MODEL, _GRAPH, _FUNCTION, _NODE, _ATTRIBUTE, _SPARSE, _TENSOR = range(7)
_NESTED: dict[int, dict[int, int]] = {
    _MODEL: {7: _GRAPH, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _TENSOR: {},
}
_SEGMENT, _RAW_DATA = 3, 9  # fields of TensorProto
_NAME, _LISTS = 1, (7, 8, 9)  # of AttributeProto: floats, ints, strings, element by element
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_DEPTH = 64  # nested messages; models have about ten per level of nested graphs
_BUDGETS = {LARGE: (2**12, 32), EVERY: (2**16, 8)}
"""The budget of fields to visit, by the least size of a tensor: a fixed number, plus one for this many bytes."""
_WINDOW, _BEGINNING = 2**14, 20  # bytes of a file to read at a time; the most bytes of a tag and a length together


class Malformed(Exception):
    """The bytes are not a message: protobuf would reject them too."""


class _Unusual(Exception):
    """The bytes have something that this module leaves to protobuf."""


class ByteSource(Protocol):
    """The source of a model's bytes."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def window(self, at: int) -> tuple[Buffer, int, int]:
        """Return a buffer with the bytes from `at` on, its start, and the position up to which field headers are complete in it."""

    def piece(self, start: int, stop: int) -> Buffer:
        """Return the bytes from `start` to `stop`."""


class InMemory:
    """A model entirely in memory."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.size = data, len(data)

    def window(self, at: int) -> tuple[Buffer, int, int]:
        """Return the buffer, its start and its end."""
        return self.data, 0, self.size

    def piece(self, start: int, stop: int) -> Buffer:
        """Return the bytes from `start` to `stop`."""
        return self.data[start:stop]


class InFile:
    """A model in a file, read one window at a time."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        """`read(offset, count)` returns bytes of the file."""
        self.size, self._read = size, read
        self._buffer, self._base = b"", 0

    def window(self, at: int) -> tuple[Buffer, int, int]:
        """Return a buffer with the bytes from `at` on, its start, and the position up to which field headers are complete in it."""
        stop = self._base + len(self._buffer)
        if not (self._base <= at < stop and (stop == self.size or at < stop - _BEGINNING)):
            self._base, self._buffer = at, self._read(at, min(_WINDOW, self.size - at))
            stop = self._base + len(self._buffer)
        return self._buffer, self._base, stop if stop == self.size else stop - _BEGINNING

    def piece(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`. Those of the window that was read last are not read again."""
        begin, end = start - self._base, stop - self._base
        if 0 <= begin <= end <= len(self._buffer):
            return self._buffer[begin:end]
        return self._read(start, stop - start)


def outline(source: ByteSource, least: int = LARGE) -> tuple[bytes, frozenset[Span]] | None:
    """Return the ModelProto without its tensors of at least `least` bytes, and their positions.

    None for bytes that only protobuf can judge. `least` is LARGE or EVERY. Raises Malformed for bytes that protobuf would reject,
    and the errors of reading a file.
    """
    walk = _OutlineWalk(source, least)
    try:
        walk.strip(0, source.size, _MODEL, _DEPTH)
    except _Unusual:
        return None
    except IndexError:
        raise Malformed from None
    return b"".join(walk.pieces), frozenset(walk.spans)


class _OutlineWalk:
    """A walk through the fields that lead to tensors. `pieces` are those of the outline, in order."""

    def __init__(self, source: ByteSource, least: int) -> None:
        self.spans: set[Span] = set()
        self.pieces: list[Buffer] = []
        self._source, self._least = source, least
        free, bytes_a_field = _BUDGETS[least]
        self._left = free + source.size // bytes_a_field

    def strip(self, start: int, end: int, message: int, depth: int) -> int:
        """Add the pieces of the message without its tensors, and return how many bytes they have."""
        if not depth:
            raise _Unusual
        nested, kept, raw, size = _NESTED[message], start, 0, 0
        for number, at, begin, stop in self._fields(start, end):
            if not self._left & 63:
                checkpoint()
            if message == _TENSOR and number in (_SEGMENT, _RAW_DATA):
                raw += 1
                if raw > 1 or number == _SEGMENT:  # protobuf decides which of two counts; a segment is not ours
                    raise _Unusual
                if stop - begin >= self._least:
                    self.spans.add((begin, stop))
                    size += self._keep(kept, at)
                    size += self._add(_field(_SEGMENT, _varint_field(1, begin) + _varint_field(2, stop)))
                    kept = stop
            elif (
                number in nested and stop - begin >= self._least and not (nested[number] == _ATTRIBUTE and self._is_list(begin))
            ):
                size += self._keep(kept, at)
                place = len(self.pieces)
                self.pieces.append(b"")
                inside = self.strip(begin, stop, nested[number], depth - 1)
                self.pieces[place] = header = _header(number, inside)
                size += len(header) + inside
                kept = stop
        return size + self._keep(kept, end)

    def _keep(self, start: int, stop: int) -> int:
        return self._add(self._source.piece(start, stop)) if start < stop else 0

    def _add(self, piece: Buffer) -> int:
        self.pieces.append(piece)
        return len(piece)

    def _is_list(self, begin: int) -> bool:
        """Return True if an attribute is a list of numbers or strings, perhaps millions, by the field after its name."""
        tag, at = self._varint(begin)
        if tag != _NAME << 3 | _BYTES:
            return False
        size, at = self._varint(at)
        return at + size < self._source.size and self._varint(at + size)[0] >> 3 in _LISTS

    def _varint(self, at: int) -> tuple[int, int]:
        buffer, base, _ = self._source.window(at)
        value, after = _varint(buffer, at - base)
        return value, after + base

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (number, position of the tag, begin and end of the bytes) of every length-delimited field."""
        buffer: Buffer = b""
        base = ready = 0
        at = start
        while at < end:
            if at >= ready:
                buffer, base, ready = self._source.window(at)
            self._left -= 1
            if self._left < 0:
                raise _Unusual
            begin = at - base
            tag = buffer[begin]
            if tag < 128:  # nearly all: a call less
                begin += 1
            else:
                tag, begin = _varint(buffer, begin)
            wire = tag & 7
            if tag < 8 or wire > _FIXED32:  # no field has the number 0
                raise Malformed
            if wire == _BYTES:
                size = buffer[begin]
                if size < 128:
                    begin += 1
                else:
                    size, begin = _varint(buffer, begin)
                begin += base
                if begin + size > end:
                    raise Malformed
                yield tag >> 3, at, begin, begin + size
                at = begin + size
            elif wire == _VARINT:
                at = _varint(buffer, begin)[1] + base
            elif wire in (_FIXED32, _FIXED64):
                at = begin + base + (4 if wire == _FIXED32 else 8)
            else:  # a group
                raise _Unusual
        if at != end:
            raise Malformed


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return (value, position of the next byte). Raises IndexError at the end of the bytes."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while shift < 64:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    raise Malformed


def _to_varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_field(number: int, value: int) -> bytes:
    return _to_varint(number << 3 | _VARINT) + _to_varint(value)


def _field(number: int, payload: bytes) -> bytes:
    return _header(number, len(payload)) + payload


def _header(number: int, size: int) -> bytes:
    """Return what precedes the bytes of a field."""
    return _to_varint(number << 3 | _BYTES) + _to_varint(size)
