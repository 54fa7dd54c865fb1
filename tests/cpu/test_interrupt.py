"""Kernels that are left in their middle: on the thread of the run and on workers, and signals that mean nothing."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from ort_lite_cpu.run import interrupt
from ort_lite_cpu.run.interrupt import HALTED, own_frame, send, signal_number
from ort_lite_cpu.run.loop import Halt
from ort_lite_cpu.run.team import Team
from tests.cpu.programs import Program, Step, log, meet, python, wait, word
from tests.threads import join

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in interrupt._SYSCALLS,
    reason="only Linux on x86-64 and AArch64 leaves a kernel in its middle",
)


class Ended:
    """A run in a thread of its own, which has a frame, and what came of it."""

    def __init__(self, program: Program, halt: Halt) -> None:
        self.halt, self._program, self._known = halt, program, threading.Event()
        self.result: tuple[int, int] | None = None
        self.frame = self.number = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._known.wait(20)

    def _run(self) -> None:
        self.frame, self.number = own_frame(), threading.get_native_id()
        self._program.job.watch(self.halt, self.frame)
        self._known.set()
        self.result = self._program.run()

    def interrupt(self, *others: tuple[int, int]) -> None:
        send([(self.number, self.frame), *others])

    def end(self, *others: tuple[int, int]) -> tuple[int, int] | None:
        self.halt.set()
        self.interrupt(*others)
        self.finish()
        return self.result

    def finish(self) -> None:
        join(self._thread)


def armed(frame: int) -> bool:
    return ctypes.c_int64.from_address(frame + interrupt.ARMED).value != 0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_kernel_without_end_is_left(parts: int) -> None:
    y, never, halt = np.zeros(100, np.int64), word(), Halt()
    run = Ended(
        Program([Step(log, [y], [1]), Step(wait, [], [never.ctypes.data], parts), Step(log, [y], [2])], halt=halt), halt
    )
    until(lambda: y[0] == 3 and armed(run.frame))
    assert run.end() == (1, HALTED)
    assert y[1:5].tolist() == [1, 0, 1, 0]
    assert not armed(run.frame)


def test_a_signal_that_comes_before_the_kernel_is_not_missed() -> None:
    """Whatever the moment."""
    never = word()
    for delay in range(40):
        halt = Halt()
        run = Ended(Program([Step(wait, [], [never.ctypes.data])], halt=halt), halt)
        time.sleep(delay * 5e-6)
        assert run.end() == (0, HALTED)


def test_workers_leave_their_parts_too() -> None:
    team, halt, shared = Team(), Halt(), word()
    try:
        program = Program([Step(meet, [], [shared.ctypes.data, 1 << 60], parts=9)], 3, team, halt)
        run = Ended(program, halt)
        until(lambda: shared[0] == 3)  # three of nine parts wait for the other six
        assert run.end(*team.frames()) == (0, HALTED)
        assert Program([Step(meet, [], [word().ctypes.data, 1 << 40], parts=3)], 3, team).run() is None, "nobody is stuck"
    finally:
        team.close()


def test_a_signal_means_nothing_unless_the_halt_is_set() -> None:
    opened, halt = word(), Halt()
    run = Ended(Program([Step(wait, [], [opened.ctypes.data])], halt=halt), halt)
    until(lambda: armed(run.frame))
    for _ in range(20):
        run.interrupt()
    os.kill(os.getpid(), signal_number())
    signal.pthread_kill(threading.get_ident(), signal_number())
    send([(threading.get_native_id(), run.frame), (run.number, own_frame()), (1 << 22, run.frame)])
    time.sleep(0.01)
    assert run.result is None
    assert armed(run.frame)
    opened[0] = 1
    run.finish()
    assert run.result is None
    run.interrupt()  # its thread has ended
    assert not armed(run.frame)


def test_threads_that_end_leave_their_frames_to_others() -> None:
    seen = set[int]()
    for _ in range(30):
        thread = threading.Thread(target=lambda: seen.add(own_frame()))
        thread.start()
        join(thread)
        gc.collect()
    assert len(seen) < 10
    assert own_frame() == own_frame()


def test_a_signal_that_the_program_handles_is_left_to_it() -> None:
    text = python("""if True:
        import ctypes, signal
        from ort_lite_cpu.run.interrupt import own_frame, send, signal_number
        heard = []
        signal.signal(signal.SIGURG, lambda number, _: heard.append(number))
        first = signal_number()
        signal.raise_signal(signal.SIGURG)
        print(first == signal.SIGRTMAX, heard == [signal.SIGURG])
        signal.signal(first, signal.SIG_IGN)
        send([(0, own_frame())])
        print(signal_number() == signal.SIGRTMAX)
        signal.signal(first, lambda number, _: heard.append(number))
        send([(0, own_frame())])
        print(signal_number() == signal.SIGRTMAX - 1)
    """)
    assert text == "True True\nTrue\nTrue\n"
