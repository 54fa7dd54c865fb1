"""Calls through a socket: results, errors, many at once, those that are given up, a process that has gone."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ort_lite_ray.calls import CallLost, Calls, answer

import ort_lite
from ort_lite.errors import InvalidArgument
from tests.processes import child


class Strange(Exception):
    """Holds what no pickle does."""

    def __init__(self) -> None:
        super().__init__("strange")
        self.lock = threading.Lock()


class Made(Exception):
    """Is pickled, and cannot be made again of its words."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


def served(what: str, value: Any = None) -> Any:
    if what == "refuse":
        raise InvalidArgument("a shape is wrong").about(node="Conv_1")
    if what == "strange":
        raise Strange
    if what == "made":
        raise Made("a stage", "no reason")
    return threading.Lock() if what == "lock" else value


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    answer(served, str(tmp_path / "socket"))
    return Calls(str(tmp_path / "socket"))


def test_a_result_comes_back(calls: Calls) -> None:
    given = [np.arange(3_000_000), "text", None]
    found = calls(("back", given))
    np.testing.assert_array_equal(found[0], given[0])
    assert found[1:] == given[1:]


def test_errors_come_back_as_they_were(calls: Calls) -> None:
    with pytest.raises(InvalidArgument, match="a shape is wrong") as caught:
        calls(("refuse",))
    assert caught.value.node == "Conv_1"
    with pytest.raises(RuntimeError, match="Strange: strange"):
        calls(("strange",))
    with pytest.raises(RuntimeError, match="Made: a stage: no reason"):
        calls(("made",))
    with pytest.raises(TypeError, match="lock"):
        calls(("lock",))
    with pytest.raises(TypeError, match="positional"):
        calls(("back", 1, 2))
    assert calls(("back", 5)) == 5


def test_many_at_once_get_their_own(calls: Calls) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda k: calls(("back", k)), range(500))) == list(range(500))


def test_a_call_that_is_given_up_leaves_the_next_alone(tmp_path: Path) -> None:
    hold = threading.Event()

    def slow(k: int) -> int:
        if k == 0:
            hold.wait(60)
        return k

    answer(slow, str(tmp_path / "socket"))
    calls = Calls(str(tmp_path / "socket"))

    def look() -> None:
        raise ort_lite.errors.DeadlineExceeded("over")

    with pytest.raises(ort_lite.errors.DeadlineExceeded):
        calls((0,), look)
    assert calls((1,)) == 1
    hold.set()
    assert [calls((k,)) for k in range(2, 20)] == list(range(2, 20))


def test_an_answer_that_nobody_waits_for_is_no_harm_to_the_process(tmp_path: Path) -> None:
    path, begun, hold = str(tmp_path / "socket"), threading.Event(), threading.Event()

    def slow(k: int) -> Any:
        begun.set()
        hold.wait(60)
        return np.zeros(1 << 20)

    def look() -> None:
        if begun.is_set():
            raise ort_lite.errors.DeadlineExceeded("over")

    answer(slow, path)
    with pytest.raises(ort_lite.errors.DeadlineExceeded):
        Calls(path)((0,), look)
    hold.set()
    assert Calls(path)((1,)).shape == (1 << 20,)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """Another process that answers there."""
    path = str(tmp_path / "other")
    text = (
        f"import time; from ort_lite_ray.calls import answer; answer(time.sleep, {path!r}); print(flush=True); time.sleep(600)"
    )
    with child([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid, path


def test_a_process_that_goes_is_told_to_who_waits_and_who_comes(other: tuple[int, str]) -> None:
    pid, path = other
    calls = Calls(path)
    calls((0,))
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(calls, (600,)), pool.submit(calls, (600,), lambda: None)]
        calls((0.2,))
        os.kill(pid, signal.SIGKILL)
        for one in waiting:
            with pytest.raises(CallLost):
                one.result(timeout=30)
    for _ in range(3):
        with pytest.raises(CallLost):
            calls((0,))


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(CallLost):
        Calls(str(tmp_path / "nobody"))(())
