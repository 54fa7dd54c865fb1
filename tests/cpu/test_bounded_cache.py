"""What runs keep for the next one, by many threads at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from ort_lite_cpu.lowering.deferred_suffix import PROGRAMS_KEPT
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment_run import BOUND_LIMIT
from ort_lite_cpu.run.bounded_cache import BoundedCache
from tests.cpu.check import text_program

THREADS, SHAPES = 8, 5_000


@contextmanager
def turns_of(seconds: float) -> Iterator[None]:
    """How long a thread goes on when another waits. At 1e-6 whole programs would do little but hand over on a busy machine."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def together(work: Callable[[int], None], seconds: float = 1e-4) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(THREADS)]
    with turns_of(seconds):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads)


def kept_bounds(program: Program) -> int:
    return sum(len(step.cache) for step in program.steps if hasattr(step, "cache"))


def test_the_newest_are_kept() -> None:
    kept: BoundedCache[int, str] = BoundedCache(3)
    for key in range(5):
        kept.keep(key, str(key))
    assert kept.values() == ["2", "3", "4"]
    assert kept.get(1) is None
    assert kept.keep(3, "another") == "3", "who was first"
    assert kept.keep(9, "9", limit=1) == "9"
    assert (kept.values(), len(kept)) == (["9"], 1)
    kept.clear()
    assert kept.get(9) is None
    assert len(kept) == 0


def test_threads_agree_on_what_is_kept() -> None:
    kept: BoundedCache[int, object] = BoundedCache(50)
    found: list[dict[int, set[int]]] = [{} for _ in range(THREADS)]

    def work(number: int) -> None:
        for turn in range(SHAPES):
            value = kept.get(turn % 70)
            if value is None:
                value = kept.keep(turn % 70, object())
            found[number].setdefault(turn % 70, set()).add(id(value))
            if turn % 500 == 0:
                kept.values()
            assert len(kept) <= 50, "at no moment are there more"

    together(work, 1e-6)
    assert len(kept) == 50


@pytest.mark.slow
def test_every_shape_is_new() -> None:
    """5,000 shapes, and as many keys again of which threads have the same ones."""
    program = text_program("(float[N] x) => (float[N] y) { y = Neg(x) }")

    def work(number: int) -> None:
        for size in [*range(number, SHAPES, THREADS), *range(number, 600)]:
            x = np.ones(size, np.float32)
            np.testing.assert_array_equal(program([x])[0], -x)
            if size % 1000 == number:
                program.memory()
                program.memory_plan()
            if size == 2500:
                program.trim()
        assert kept_bounds(program) <= BOUND_LIMIT

    together(work)
    assert 0 < kept_bounds(program) <= BOUND_LIMIT
    program.trim()
    assert program.memory()["plans"] == 0


def tail_program() -> Program:
    """The length of the shape, and so the rank of what follows, is known only while it runs."""
    return text_program("(float[N] x, int64[K] s) => (float y) { r = Reshape(x, s) t = Neg(r) y = ReduceSum<keepdims=0>(t) }")


def shapes_of(rank: int, turn: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([1] * (rank - 1) + [turn % 3 + 1], np.int64)


def test_every_tail_is_new() -> None:
    program = tail_program()

    def work(number: int) -> None:
        for turn in range(20):
            shape = shapes_of(1 + (turn + number) % 40, turn)
            y = program([np.ones(int(shape.prod()), np.float32), shape])[0]
            assert y == -shape.prod()

    together(work)
    [tail] = [step.programs for step in program.steps if isinstance(step, HostStep) and step.programs is not None]
    assert 0 < len(tail) <= PROGRAMS_KEPT


def test_tails_are_counted_and_given_back() -> None:
    program = tail_program()
    for rank in (1, 2, 3):
        program([np.ones(2, np.float32), shapes_of(rank, 1)])
    held = program.memory()
    assert held["plans"] >= 3
    assert held["plan_bytes"] > 0
    program.trim()
    assert (program.memory()["plans"], program.memory()["plan_bytes"]) == (0, 0)
    assert program([np.ones(2, np.float32), shapes_of(2, 1)])[0] == -2
