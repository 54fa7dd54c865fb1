"""Models mutated as bytes, and feeds that are no feeds: no signal, no hang, no error of another kind, and refusals name something."""

import pytest

from tests.fuzz.checking import check, linux
from tests.fuzz.wire import BYTES, fields, varint


@linux
@pytest.mark.timeout(630)
def test_bytes_and_feeds_run_or_are_refused() -> None:
    check("tests.fuzz.byte_mutants", 0, 200)


def test_fields_are_found_in_messages_of_messages() -> None:
    inner = b"\x08" + varint(300) + b"\x12\x02yy"
    data = b"\x3a" + varint(len(inner)) + inner
    outer, number, text = fields(data, 0, len(data)) or []
    assert (outer.number, outer.wire, outer.depth, data[outer.payload : outer.end]) == (7, BYTES, 0, inner)
    assert (number.number, number.depth, data[text.payload : text.end]) == (1, 1, b"yy")
    assert fields(b"\x3a\x7f", 0, 2) is None
