"""Positions of large tensors that an earlier session found: the next one need not search, and wrong ones do no harm."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from ort_lite.load import source as loading
from ort_lite.load.wire import LARGE, InMemory, find_spans
from ort_lite.native import store
from ort_lite.session.prepared import outlines
from tests.session.prepared_sessions import equal, found, session, store_in, stored

X = {"x": np.ones((2, 150), np.float32)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return store_in(tmp_path / "programs", monkeypatch)


def model(first: int = 150, small: float = 1.0, large: float = 1.0, order: str = "abs") -> bytes:
    """Return a model of 180 kB, of which `a` and `b` are large, in an order in the file that does not change its size."""
    text = """<ir_version: 10, opset_import: ["": 21]> main (float[N, 150] x) => (float[N, 150] y) {
        c = Concat<axis=0>(a, b) d = MatMul(x, c) y = Mul(d, s) }"""
    made = onnx.parser.parse_model(text)
    shapes = {"a": (first, 150), "b": (150 - first, 150), "s": (1, 1)}
    for name in order:
        fill = small if name == "s" else large
        made.graph.initializer.append(numpy_helper.from_array(np.full(shapes[name], fill, np.float32), name))
    data: bytes = made.SerializeToString()
    return data


def searched(data: Any) -> tuple[str, int]:
    """Return what the report says of the program of a model, and how often its tensors were searched for."""
    with patch.object(loading, "find_spans", wraps=find_spans) as search:
        return found(session(data)), search.call_count


def test_the_second_session_does_not_search(tmp_path: Path, folder: Path) -> None:
    data, path = model(100), tmp_path / "model.onnx"
    path.write_bytes(data)
    assert searched(path) == ("no, because there is none", 1)
    assert len(os.listdir(folder)) == 2
    assert searched(path) == searched(data) == searched(bytearray(data)) == ("yes", 0)
    assert all(map(equal, session(path, prepared="0").run(None, X), session(path).run(None, X)))


def test_small_models_have_no_positions(folder: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> main (float[N] x) => (float[N] y) { y = Relu(x) }'
    assert stored(session(onnx.parser.parse_model(text).SerializeToString())) == "yes"
    assert len(os.listdir(folder)) == 1


def test_models_that_begin_alike_find_their_own_programs() -> None:
    """Sizes and first bytes are equal, positions are not; each of the two replaces the positions of the other once."""
    one, other = model(100, order="abs"), model(100, order="asb")
    assert len(one) == len(other)
    assert find_spans(InMemory(memoryview(one))) != find_spans(InMemory(memoryview(other)))
    with patch.object(loading, "_FIRST", 64):
        assert searched(one) == searched(other) == ("no, because there is none", 1)
        assert searched(one) == ("yes", 1)
        assert searched(other) == ("yes", 0)


@pytest.mark.parametrize("other", [{"small": 2.0}, {"large": 2.0}])
def test_what_is_around_tensors_and_in_them_is_compared(other: dict[str, Any]) -> None:
    searched(model(100))
    changed = model(100, **other)
    why, _ = searched(changed)
    assert why != "yes"
    for data in (changed, model(100)):
        assert all(map(equal, session(data, prepared="0").run(None, X), session(data).run(None, X)))


SOURCE = InMemory(memoryview(model(100)))
SPANS = sorted(find_spans(SOURCE) or ())
SIZE, FIRST = SOURCE.size, bytes(SOURCE.data[:4096])


@pytest.mark.parametrize(
    "spans",
    [
        [],
        SPANS[:1],
        [(begin - 4, stop) for begin, stop in SPANS],
        [(0, SIZE)],
        [(SIZE - LARGE, SIZE)],
        [(begin, begin + LARGE) for begin, _ in SPANS],
    ],
)
def test_wrong_positions_lead_to_no_program(spans: list[tuple[int, int]]) -> None:
    data = bytes(SOURCE.data)
    expected = session(data, prepared="0").run(None, X)
    for why in ("no, because there is none", "yes"):
        outlines.keep(SIZE, FIRST, frozenset(spans))
        assert outlines.find(SIZE, FIRST) == spans
        assert searched(data) == (why, 1)
        assert all(map(equal, expected, session(data).run(None, X)))


def test_nothing_is_stored_under_a_key_of_wrong_positions(folder: Path) -> None:
    """Only a damaged entry of that name, which no session writes, leads there."""
    data = bytes(SOURCE.data)
    outlines.keep(SIZE, FIRST, frozenset(SPANS[:1]))
    with patch.object(store, "exists", return_value=True):
        made = session(data)
    assert (found(made), stored(made)) == ("no, because there is none", "no, because the positions of its tensors were wrong")
    assert len(os.listdir(folder)) == 1
    assert all(map(equal, session(data, prepared="0").run(None, X), made.run(None, X)))


@pytest.mark.parametrize(
    "words",
    [[-8, LARGE], [0, SIZE + 1], [LARGE, 0], [0, LARGE - 1], [0, 2 * LARGE, LARGE, 3 * LARGE], [2**62, -(2**62)], [5]],
    ids=["negative", "behind the end", "backwards", "small", "overlapping", "huge", "one number"],
)
def test_malformed_positions_are_not_used(words: list[int]) -> None:
    store.write(outlines._key_of(SIZE, FIRST), np.array(words, "<i8").tobytes())
    assert outlines.find(SIZE, FIRST) is None


def test_damaged_positions_are_not_used(folder: Path) -> None:
    outlines.keep(SIZE, FIRST, frozenset(SPANS))
    assert outlines.find(SIZE, FIRST) == SPANS
    [name] = os.listdir(folder)
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    assert outlines.find(SIZE, FIRST) is None
