"""Finds the large tensors of a serialised ModelProto, so that protobuf need not copy them.

protobuf copies `raw_data` twice, once while it parses and once more whenever the field is read. `outline` takes these bytes
out: what it returns is a small ModelProto in which each large tensor has, in place of `raw_data`, the field `segment` (which
ONNX reserves and nobody writes) with the begin and end of its bytes in the original. O(fields of the graph).
"""

from collections.abc import Iterator

from ort_lite.checkpoint import checkpoint

Span = tuple[int, int]
LARGE = 4096  # bytes from which a tensor is worth it

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
_DEPTH = 64  # messages within messages; models have about ten a level of nested graphs


class _Unusual(Exception):
    """Damaged, or something that this module leaves to protobuf."""


def outline(data: memoryview, least: int = LARGE) -> tuple[bytes, frozenset[Span]] | None:
    """(ModelProto without its tensors of `least` bytes and more, where these are), or None for bytes that only protobuf can
    judge.
    """
    spans: set[Span] = set()
    try:
        return _strip(data, 0, len(data), _MODEL, spans, _DEPTH, least), frozenset(spans)
    except (_Unusual, IndexError):
        return None


def _strip(data: memoryview, start: int, end: int, message: int, spans: set[Span], depth: int, least: int) -> bytes:
    if not depth:
        raise _Unusual
    nested, kept, raw = _NESTED[message], start, 0
    pieces: list[bytes | memoryview] = []
    for number, at, begin, stop in _fields(data, start, end):
        checkpoint()
        replaced = b""
        if message == _TENSOR and number in (_SEGMENT, _RAW_DATA):
            raw += 1
            if raw > 1 or number == _SEGMENT:  # protobuf says which of two holds; a segment is not ours
                raise _Unusual
            if stop - begin >= least:
                spans.add((begin, stop))
                replaced = _field(_SEGMENT, _tagged_varint(1, begin) + _tagged_varint(2, stop))
        elif number in nested and stop - begin >= least and not (nested[number] == _ATTRIBUTE and _is_list(data, begin)):
            replaced = _field(number, _strip(data, begin, stop, nested[number], spans, depth - 1, least))
        if replaced:
            pieces += [data[kept:at], replaced]
            kept = stop
    return b"".join([*pieces, data[kept:end]])


def _is_list(data: memoryview, begin: int) -> bool:
    """Whether an attribute is a list of numbers or strings, millions perhaps: its second field says so, behind the name."""
    tag, at = _varint(data, begin)
    size, at = _varint(data, at)
    return tag == _NAME << 3 | _BYTES and _varint(data, at + size)[0] >> 3 in _LISTS


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, where its tag is, begin and end of its bytes) of every length-delimited field."""
    at = start
    while at < end:
        tag, begin = _varint(data, at)
        wire = tag & 7
        if wire == _BYTES:
            size, begin = _varint(data, begin)
            if begin + size > end:
                raise _Unusual
            yield tag >> 3, at, begin, begin + size
            at = begin + size
        elif wire == _VARINT:
            at = _varint(data, begin)[1]
        elif wire in (_FIXED32, _FIXED64):
            at = begin + (4 if wire == _FIXED32 else 8)
        else:
            raise _Unusual
    if at != end:
        raise _Unusual


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """(value, where the next byte is)."""
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
    raise _Unusual


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tagged_varint(number: int, value: int) -> bytes:
    return _to_varint(number << 3 | _VARINT) + _to_varint(value)


def _field(number: int, payload: bytes) -> bytes:
    return _to_varint(number << 3 | _BYTES) + _to_varint(len(payload)) + payload
