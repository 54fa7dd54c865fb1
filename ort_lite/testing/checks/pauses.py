"""Pauses of threads inside the provider's Python code, where races are."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

LIBRARIES = frozenset({"numpy", *sys.stdlib_module_names})
PAUSES = 1e-3, 8e-3
"""The shortest and the longest pause in seconds."""
OFTEN = 2
"""How often each line pauses a thread, if MOST runs are enough for that."""
MOST = 32

Line = tuple[CodeType, int]


class Pauses:
    """Pauses for runs of several threads: each thread pauses at one line of each run, and the others go on meanwhile.

    A pause should last as long as all threads need for a run. Without Python code of the provider, or in a process that is
    traced already, `runs` is 0.

    Args:
        run: one run, whose lines are counted.
        foreign: top-level packages whose lines do not pause.
    """

    def __init__(self, run: Callable[[], object], threads: int, pause: float, foreign: Set[str]) -> None:
        lines: Counter[Line] = Counter()
        self._foreign, self._pause = LIBRARIES | foreign, min(max(pause, PAUSES[0]), PAUSES[1])
        with _visits(lambda line: lines.update([line]), self._foreign):
            run()
        choice = random.Random(0)
        order = choice.sample(list(lines), len(lines)) * OFTEN
        self.runs = min(-(-len(order) // threads), MOST)
        targets = [(line, choice.randint(1, lines[line])) for line in order]
        self._targets = [targets[thread::threads] for thread in range(threads)]

    @contextmanager
    def during(self, thread: int, run: int) -> Iterator[None]:
        """Pause the calling thread, number `thread`, at its line of this run."""
        if run >= len(self._targets[thread]):
            yield
            return
        target, visit = self._targets[thread][run]
        seen = 0

        def pause(line: Line) -> None:
            nonlocal seen
            seen += line == target
            if line == target and seen == visit:
                time.sleep(self._pause)

        with _visits(pause, self._foreign):
            yield


@contextmanager
def _visits(visit: Callable[[Line], None], foreign: Set[str]) -> Iterator[None]:
    """Call `visit` before each line of other packages in this thread, unless a tracer is installed already."""
    if sys.gettrace() is not None:
        yield
        return

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            visit((frame.f_code, frame.f_lineno))
        return local

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return None if frame.f_globals.get("__name__", "").partition(".")[0] in foreign else local

    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)
