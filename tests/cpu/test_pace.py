"""The pace of Python steps: slices, cancellation, and what counts towards a limit."""

import sys
import threading
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import Cancelled, InvalidData, OutOfMemory
from ort_lite.graph import Node
from ort_lite.memory.pool import MemoryBudget, ScratchPool
from ort_lite.provider import RunOptions
from ort_lite.provider.current import as_in
from ort_lite_cpu.operators import splitting
from ort_lite_cpu.operators.splitting import fill_table, pairs, split, words
from ort_lite_cpu.run.pace import CHARACTERS, ELEMENTS, Pace, count_strings, step_error
from ort_lite_cpu.run.run_context import RunContext

NODE = Node("Op", (), (), name="node")
PACE = Pace(NODE)


def terminated() -> RunOptions:
    options = RunOptions()
    options.terminate = True
    return options


@pytest.mark.parametrize("size", [0, 1, ELEMENTS, ELEMENTS + 1, 3 * ELEMENTS])
def test_slices_cover_all_elements_in_order(size: int) -> None:
    texts = [str(k) for k in range(size)]
    parts = [*PACE.texts(texts)]
    assert [text for part in parts for text in part] == texts
    assert all(0 < len(part) <= ELEMENTS for part in parts)


def test_long_texts_come_a_few_at_a_time() -> None:
    texts = ["a" * (CHARACTERS // 2), "b" * (CHARACTERS // 2), "c", "d" * (3 * CHARACTERS), "e", "f" * CHARACTERS]
    parts = [*PACE.texts(texts)]
    assert [len(part) for part in parts] == [2, 1, 1, 1, 1]
    assert [text for part in parts for text in part] == texts
    assert "".join(PACE.pieces(texts[3])) == texts[3]


def test_pairs_are_broadcast_in_order() -> None:
    a, b = np.array([["a" * (CHARACTERS // 2)], ["b"]], object), np.array(["c", "d" * CHARACTERS, "e"], object)
    a, b = np.broadcast_arrays(a, b)
    found: list[Any] = [None] * a.size
    for part, left, right in pairs(PACE, a, b):
        found[part] = zip(left, right, strict=True)
    assert found == [*zip(a.reshape(-1), b.reshape(-1), strict=True)]


LONG = [
    " a  b\tc " * (CHARACTERS // 4),
    "a" * (3 * CHARACTERS),
    " " * (2 * CHARACTERS),
    "ab" * CHARACTERS + "c",
    "aab" * CHARACTERS,
    " " * CHARACTERS + "x" + " " * CHARACTERS,
    "a" * (CHARACTERS - 1) + "ba" + "b" * CHARACTERS,
]


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 10**9])
@pytest.mark.parametrize("delimiter", [None, "ab", "b", " ", "aab"])
def test_long_texts_are_split_as_short_ones(delimiter: str | None, limit: int) -> None:
    rows = [text.split(delimiter, limit) for text in LONG]
    found, counts = split(PACE, LONG, delimiter, limit)
    assert counts.tolist() == [*map(len, rows)]
    assert found == [part for row in rows for part in row]
    assert words(PACE, LONG[0]) == LONG[0].split()


def test_a_cancelled_run_ends_between_two_slices() -> None:
    parts = PACE.slices(10, 4)
    assert next(parts) == slice(0, 4)
    with as_in(terminated(), None), pytest.raises(Cancelled, match=r"ended by RunOptions\.terminate in Op 'node'"):
        next(parts)


def test_a_call_beside_gives_what_it_returns_and_raises() -> None:
    with as_in(RunOptions(), None):
        assert PACE.beside(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            PACE.beside(divmod, 7, 0)
    assert PACE.beside(threading.get_ident) == threading.get_ident()


def test_a_call_beside_is_left_behind() -> None:
    options, begun, left = RunOptions(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        left.wait(60)
        PACE.check()  # in the options of the run

    def cancel() -> None:
        begun.wait(60)
        options.terminate = True

    threads = threading.Thread(target=cancel)
    threads.start()
    with as_in(options, None), pytest.raises(Cancelled):
        PACE.beside(call)
    threads.join(60)
    [other] = [thread for thread in threading.enumerate() if thread.name == "ort-lite-Op"]
    left.set()
    other.join(60)
    assert not other.is_alive()


def test_a_call_needs_no_thread_where_none_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with as_in(RunOptions(), None):
        assert PACE.beside(divmod, 7, 2) == (3, 1)


def test_bytes_are_given_back_at_the_end() -> None:
    budget = MemoryBudget(1000, "the limit")
    pool = ScratchPool(RunContext, budget)
    PACE.take(10**9)  # no run that counts
    with count_strings(pool):
        PACE.take(400)
        with count_strings(pool):
            PACE.take(500)
            message = r"Op 'node' \(CPUExecutionProvider\): the limit is 1,000 bytes: 200 asked for"
            with pytest.raises(OutOfMemory, match=message):
                PACE.take(200)
        PACE.take(500)
        assert budget.held == 900
    assert budget.held == 0


def test_a_loop_measures_what_it_keeps_when_its_bodies_made_much() -> None:
    budget = MemoryBudget(100_000, "the limit")
    pool, kept = ScratchPool(RunContext, budget), list[Any]()

    def trip(nbytes: int) -> None:
        with count_strings(pool):
            PACE.take(nbytes)

    with count_strings(pool):
        for _ in range(100):  # of which nothing is kept
            trip(50_000)
            PACE.settle(kept)
        text = "a" * 60_000
        for _ in range(10):  # the same text each time
            kept.append(np.array([text], object))
            trip(sys.getsizeof(text))
            PACE.settle(kept)
        kept.append([f"another {text}"])
        trip(sys.getsizeof(text))
        with pytest.raises(OutOfMemory, match="Op 'node'"):
            PACE.settle(kept)
    assert budget.held == 0


def test_idle_scratch_makes_room() -> None:
    budget = MemoryBudget(100_000, "the limit")
    pool = ScratchPool(RunContext, budget)
    pool.release(pool.lease(60_000))
    with count_strings(pool):
        PACE.take(90_000)


def test_errors_without_a_text_say_their_class() -> None:
    error = step_error(NODE, MemoryError())
    assert str(error) == "Op 'node' (CPUExecutionProvider): its results do not fit into memory: MemoryError"
    assert isinstance(error, OutOfMemory)
    assert str(step_error(NODE, ValueError("bad"))) == "Op 'node' (CPUExecutionProvider): bad"
    assert isinstance(step_error(NODE, KeyError()), InvalidData)


def test_a_table_is_filled_up_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "CHEAP", 5)
    rows = [["a", "b"], [], ["c", "d", "e"], ["f"]]
    table = fill_table(PACE, [text for row in rows for text in row], np.array([*map(len, rows)]), 3)
    assert table.tolist() == [[*row, "", "", ""][:3] for row in rows]


def test_blocks_are_sorted_and_merged() -> None:
    assert PACE.sort_blocks([]) == []
    assert PACE.sort_blocks([[3, 1], [2], [5, 0]]) == [0, 1, 2, 3, 5]
    with as_in(terminated(), None), pytest.raises(Cancelled):
        PACE.sort_blocks([[1], [0]])
