"""The thread team: who runs what changes nothing, nobody waits for a late worker, processes fork and exit cleanly.

The file is long because all of its tests share the `team` fixture and the words of its control block.
"""

import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.native import Spec, load
from ort_lite.native.lang import native
from ort_lite_cpu.run import team as module
from ort_lite_cpu.run import turns, work_item
from ort_lite_cpu.run.atomics import pause
from ort_lite_cpu.run.float_mode import float_mode, set_float_mode
from ort_lite_cpu.run.interrupt import HALTED
from ort_lite_cpu.run.loop import Halt, Job
from ort_lite_cpu.run.team import TEAM, Team
from ort_lite_cpu.run.work_item import MAX_PARTS
from tests.cpu.programs import (
    PATIENCE,
    TOO_FEW,
    Program,
    Step,
    Words,
    blend,
    fail,
    meet,
    meet_in_mode,
    meeting,
    python,
    relay,
    wait,
    who,
    word,
    work,
    write,
)
from tests.threads import join

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no workers without pthreads")
linux = pytest.mark.skipif(sys.platform != "linux", reason="thread ids and affinities are Linux's")
FUTEX = "futex" if module._SYSCALLS.get(os.uname().machine) and sys.platform == "linux" else "condition again"


@pytest.fixture(params=[FUTEX, "condition"])
def team(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """A team of its own, whose workers sleep on a futex or, as where there is none, on a condition variable."""
    if request.param == "condition":
        monkeypatch.setattr(module, "_SYSCALLS", {})
    made = Team()
    yield made
    made.close()


def state(team: Team, offset: int) -> int:
    return ctypes.c_int64.from_address(team.control + offset).value


def until(condition: str, team: Team, offset: int, value: int) -> None:
    """Waits for a word of the control block."""
    end = time.monotonic() + 20
    while state(team, offset) != value:
        assert time.monotonic() < end, condition
        time.sleep(0.001)


def set_patience(team: Team, ns: int) -> None:
    ctypes.c_int64.from_address(team.control + work_item.PATIENCE).value = ns


class BriefMeeting(Program):
    """A brief program whose one instruction succeeds if two threads run it."""

    def run(self) -> tuple[int, int] | None:
        self.kept[-1][0] = 0
        return super().run()


def brief_meeting(team: Team) -> Program:
    shared = word()
    program = BriefMeeting([Step(meet, [], [shared.ctypes.data, 300], 2)], 2, team, cost_us=Job.WORTH_WAKING_US - 1)
    program.kept.append(shared)
    return program


def run_alone() -> None:
    """Run until no other thread is expected to run: see `turns`."""
    program = Program([Step(work, [np.ones(8, np.int64)], [0])])
    for _ in range(turns.RUNS + 1):
        assert program.run() is None


def runs_until_shared(program: Program) -> int:
    """Return how many runs went alone before two threads shared one."""
    end, runs = time.monotonic() + 20, 0
    while program.run() is not None:
        runs += 1
        assert time.monotonic() < end, "brief runs go alone"
    return runs


def chain(n: int, parts: list[int]) -> tuple[list[Step], Words, Words]:
    """Instructions that each read all of what the one before wrote, their last output, and what it should be."""
    arrays = [np.arange(n, dtype=np.int64), *(np.zeros(n, np.int64) for _ in parts)]
    steps = [Step(blend, [x, y], [n], p) for x, y, p in zip(arrays, arrays[1:], parts, strict=False)]
    expected = arrays[0]
    for _ in parts:
        expected = (3 * expected + np.roll(expected, -1)) & 0xFFFFFFFF
    return steps, arrays[-1], expected


# --- Results
@settings(max_examples=25)
@given(
    st.integers(1, 4), st.lists(st.sampled_from([1, 1, 2, 3, 4, 7, MAX_PARTS, MAX_PARTS + 1]), max_size=40), st.integers(1, 300)
)
def test_results_do_not_depend_on_the_number_of_threads(threads: int, parts: list[int], n: int) -> None:
    steps, y, expected = chain(n, parts)
    assert Program(steps, threads).run() is None
    assert y.tolist() == expected.tolist()


@pytest.mark.parametrize(("threads", "parts"), [(1, 3), (2, 2), (3, 2), (4, 7), (2, MAX_PARTS + 1)])
def test_a_round_reads_all_that_the_round_before_wrote(threads: int, parts: int) -> None:
    rounds, n = 400, 50
    _, _, expected = chain(n, [1] * rounds)
    for _ in range(10):
        y = np.zeros((rounds + 1, n), np.int64)
        y[0] = np.arange(n)
        assert Program([Step(relay, [y], [n], parts, rounds)], threads).run() is None
        assert y[-1].tolist() == expected.tolist()


@pytest.mark.slow
def test_many_runs_at_once_on_one_team_are_right_each() -> None:
    """Oversubscription: eight Python threads, programs of two to four threads each, one team."""
    wrong: list[int] = []

    def caller(number: int) -> None:
        for turn in range(30):
            steps, y, expected = chain(64, [1 + (number + turn + k) % 4 for k in range(100)])
            if Program(steps, 2 + number % 3).run() is not None or y.tolist() != expected.tolist():
                wrong.append(number)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        join(thread)
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (0, 3), (1, 2), (3, 1), (5, 2)])
def test_the_lowest_part_that_fails_is_reported_whoever_ran_it(first: int, step: int, threads: int) -> None:
    before, after = word(), word()
    steps = [Step(write, [], [before.ctypes.data, 1]), Step(fail, [], [9, first, step], parts=8)]
    program = Program([*steps, Step(write, [], [after.ctypes.data, 1])], threads)
    assert {program.run() for _ in range(300)} == {(1, 9 + 256 * first)}
    assert (before[0], after[0]) == (1, 0)


def test_a_failure_leaves_nothing_behind_for_the_next_run(team: Team) -> None:
    failing = Program([Step(fail, [], [9, 0, 1], parts=4)], 2, team)
    steps, y, expected = chain(50, [4, 4, 4])
    assert failing.run() == (0, 9)
    assert Program(steps, 2, team).run() is None
    assert y.tolist() == expected.tolist()


def test_a_halt_stops_a_run_between_shared_instructions(team: Team) -> None:
    halt = Halt()
    steps = [Step(write, [], [halt.address, 1], parts=2), Step(fail, [], [9, 0, 1], parts=2)]
    assert Program(steps, 2, team, halt).run() == (1, HALTED)


@pytest.mark.skipif(
    os.uname().machine not in ("x86_64", "aarch64"), reason="the bit that flushes subnormals is a machine's own"
)
def test_workers_compute_in_the_floating_point_mode_of_their_leader(team: Team) -> None:
    flush = 0x8000 if os.uname().machine == "x86_64" else 1 << 24
    read, set_ = load([Spec.plain(_read_mode, "i64()"), Spec.plain(_set_mode, "i64(i64)")])
    seen = []

    def leader(change: int) -> None:  # in a thread of its own: the mode is the thread's
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(set_)(ctypes.CFUNCTYPE(ctypes.c_int64)(read)() ^ change)
        shared, modes = word(), np.zeros(2, np.int64)
        steps = [Step(meet_in_mode, [modes], [shared.ctypes.data, PATIENCE], parts=2)]
        assert Program(steps, 2, team).run() is None
        seen.append((modes[0], modes[1]))

    for change in (0, flush, 0):
        thread = threading.Thread(target=leader, args=(change,))
        thread.start()
        join(thread)
    assert [a for a, _ in seen] == [b for _, b in seen] == [seen[0][0], seen[0][0] ^ flush, seen[0][0]]


def _read_mode() -> int:
    mode: int = float_mode()
    return mode


def _set_mode(mode: int) -> int:
    set_float_mode(mode)
    return 0


# --- Who works
@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_every_thread_takes_a_part(team: Team, threads: int) -> None:
    assert meeting(100, parts=threads, threads=threads, team=team).run() is None


def test_a_sleeping_worker_is_woken(team: Team) -> None:
    program = meeting(1, parts=2, threads=2, team=team)
    for _ in range(5):
        assert program.run() is None
        until("the worker sleeps", team, work_item.SLEEPING, 0b10)


def test_a_worker_is_woken_in_the_middle_of_a_program(team: Team) -> None:
    shared, opened = word(), word()
    steps = [Step(meet, [], [shared.ctypes.data, PATIENCE], 2), Step(wait, [], [opened.ctypes.data])]
    program = Program([*steps, steps[0]], 2, team)
    results: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: results.append(program.run()))
    thread.start()
    until("the worker sleeps", team, work_item.SLEEPING, 0b10)
    opened[0] = 1
    join(thread)
    assert results == [None]


def test_a_brief_run_wakes_no_sleeping_worker(team: Team) -> None:
    assert meeting(1, 2, 2, team).run() is None
    run_alone()
    until("the worker sleeps", team, work_item.SLEEPING, 0b10)
    for _ in range(3):
        time.sleep(0.001)
        assert brief_meeting(team).run() == (0, TOO_FEW)
        assert state(team, work_item.SLEEPING) == 0b10


def test_brief_runs_that_follow_one_another_wake_workers(team: Team) -> None:
    assert meeting(1, 2, 2, team).run() is None
    run_alone()
    until("the worker sleeps", team, work_item.SLEEPING, 0b10)
    set_patience(team, 10**9)  # a second between two runs is not too long
    assert runs_until_shared(brief_meeting(team)) > 0


def test_brief_runs_go_alone_while_other_threads_run(team: Team) -> None:
    assert meeting(1, 2, 2, team).run() is None
    set_patience(team, 10**9)
    brief = brief_meeting(team)
    runs_until_shared(brief)
    thread = threading.Thread(target=meeting(1, 2, 2, team).run)
    thread.start()
    join(thread)
    assert brief.run() == (0, TOO_FEW)


@pytest.mark.slow
def test_no_worker_sleeps_through_an_instruction(team: Team) -> None:
    """Workers without patience fall asleep at every moment between two instructions."""
    assert meeting(1, 3, 3, team).run() is None
    set_patience(team, 0)
    shared, y = word(), np.ones(8, np.int64)
    shares = Step(meet, [], [shared.ctypes.data, PATIENCE], parts=3)
    program = Program([step for rounds in range(0, 3000, 10) for step in (Step(work, [y], [rounds]), shares)], 3, team)
    end = time.monotonic() + 3  # where others keep the cores busy, every meeting waits for the scheduler
    for _ in range(200):
        assert program.run() is None
        if time.monotonic() > end:
            break


def test_a_worker_whose_core_others_want_sleeps_between_runs_until_they_are_gone(team: Team) -> None:
    accepted, declined = load([Spec.plain(_accepted, "i64()"), Spec.plain(_declined, "i64()")])
    program, crowded = meeting(1, 2, 2, team), work_item.SLOTS + work_item.SLOT_NBYTES + work_item.CROWDED
    assert program.run() is None
    offer = ctypes.c_int64.from_address(team.control + work_item.YIELD)
    ctypes.c_int64.from_address(team.control + work_item.PATIENCE).value = 10**15
    offer.value = accepted
    assert program.run() is None
    until("the worker sleeps, without having lost its patience", team, work_item.SLEEPING, 0b10)
    assert state(team, crowded) > 0
    offer.value = declined
    end = time.monotonic() + 20
    while state(team, crowded) > 0:
        assert time.monotonic() < end, "the worker never notes that its core is its own"
        assert program.run() is None
        time.sleep(0.001)


@native
def _accepted() -> int:
    """Stands for sched_yield() where another thread takes the core."""
    for _ in range(2_000_000):
        pause()
    return 0


@native
def _declined() -> int:
    """Stands for sched_yield() where nobody does."""
    return 0


def test_a_run_that_starts_while_another_is_in_flight_goes_alone(team: Team) -> None:
    opened, shared = word(), word()
    first = Program([Step(wait, [], [opened.ctypes.data], parts=2)], 2, team)
    thread = threading.Thread(target=first.run)
    thread.start()
    until("the first run has the workers", team, work_item.TAKEN, 1)
    steps, y, expected = chain(50, [1, 2, 3, 4])
    assert Program(steps, 4, team).run() is None
    assert Program([Step(meet, [], [shared.ctypes.data, 1000], parts=2)], 2, team).run() == (0, TOO_FEW)
    opened[0] = 1
    join(thread)
    assert y.tolist() == expected.tolist()
    assert state(team, work_item.TAKEN) == 0
    assert meeting(1, 2, 2, team).run() is None


@linux
def test_a_run_uses_no_more_threads_than_it_asked_for(team: Team) -> None:
    library = ctypes.CDLL(None)
    syscall = ctypes.cast(library.syscall, ctypes.c_void_p).value or 0
    number = {"x86_64": 186, "aarch64": 178}.get(os.uname().machine)
    if number is None:
        pytest.skip("the number of gettid() is not known here")
    assert meeting(3, 4, 4, team).run() is None  # four threads exist and are awake
    y = np.zeros(8, np.int64)
    program = Program([Step(who, [y], [syscall, number, 2000], parts=8)], 2, team)
    seen: set[int] = set()
    for _ in range(200):
        assert program.run() is None
        seen |= set(y.tolist())
    assert threading.get_native_id() in seen
    assert len(seen) == 2


def test_the_team_grows_to_the_largest_number_asked_for(team: Team) -> None:
    assert (team.threads, team.asked) == (1, 1)
    for threads, expected in ((2, 2), (4, 4), (3, 4)):
        assert meeting(1, threads, threads, team).run() is None
        assert team.threads == expected


def test_jobs_ask_for_no_more_threads_than_a_ticket_has_parts(team: Team) -> None:
    steps, y, expected = chain(100, [MAX_PARTS, 1, MAX_PARTS])
    assert Program(steps, 1000, team).run() is None
    assert y.tolist() == expected.tolist()
    assert team.threads == MAX_PARTS


def test_a_system_that_refuses_threads_is_named_and_runs_go_on(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Team._start
    monkeypatch.setattr(Team, "_start", lambda self, lib, k: errno.EAGAIN if k == 2 else start(self, lib, k))
    steps, _, _ = chain(100, [4, 2])
    program = Program(steps, 4, team)
    with pytest.warns(RuntimeWarning, match=r"worker 2 of 3 could not be started: .* Runs use 2 threads\."):
        assert program.run() is None
    assert program.run() is None  # does not ask, or warn, again
    assert team.threads == 2
    assert meeting(1, 2, 4, team).run() is None


@linux
@pytest.mark.skipif(FUTEX != "futex", reason="affinities are left alone where thread ids are not known")
def test_workers_stay_off_the_core_of_their_leader() -> None:
    everywhere = os.sched_getaffinity(0)
    try:
        for core in sorted(everywhere)[:2]:
            os.sched_setaffinity(0, {core})  # moves the leader there
            os.sched_setaffinity(0, everywhere)
            assert meeting(2, 2, 2).run() is None
            slot = work_item.SLOTS + work_item.SLOT_NBYTES
            avoided, worker = state(TEAM, slot + work_item.AVOIDS), state(TEAM, slot + work_item.THREAD_ID)
            assert os.sched_getaffinity(worker) == (everywhere - {avoided} or everywhere)
    finally:
        os.sched_setaffinity(0, everywhere)


@linux
def test_signals_are_left_to_the_threads_of_python() -> None:
    assert meeting(1, 2, 2).run() is None
    worker = state(TEAM, work_item.SLOTS + work_item.SLOT_NBYTES + work_item.THREAD_ID)
    with open(f"/proc/self/task/{worker}/status", encoding="ascii") as file:
        blocked = int(next(line for line in file if line.startswith("SigBlk")).split()[1], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert not blocked >> (signal.SIGSEGV - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@linux
def test_workers_ask_for_short_slices_and_nothing_else() -> None:
    assert meeting(1, 2, 2).run() is None
    worker = state(TEAM, work_item.SLOTS + work_item.SLOT_NBYTES + work_item.THREAD_ID)
    assert os.sched_getscheduler(worker) == os.sched_getscheduler(0)
    assert os.getpriority(os.PRIO_PROCESS, worker) == os.getpriority(os.PRIO_PROCESS, 0)
    mine, theirs = slice_of(0), slice_of(worker)
    heard = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 12)
    if heard and mine > 0 and os.sched_getscheduler(0) == os.SCHED_OTHER:
        assert theirs == module.SLICE_NS < mine
    else:
        assert theirs == mine


def slice_of(thread: int) -> int:
    """Nanoseconds that a thread runs at a time; 0 or -1 where the system does not say. Through sched_getattr()."""
    found = ctypes.create_string_buffer(module._ATTRIBUTES.size)
    number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
    if ctypes.CDLL(None).syscall(number, thread, found, len(found), 0) != 0:
        return -1  # what runs programs of Linux need not have all of its calls
    runtime: int = module._ATTRIBUTES.unpack(found)[5]
    return runtime


# --- Life and death
def test_after_close_runs_go_alone_and_start_nobody(team: Team) -> None:
    program = meeting(1, 2, 2, team)
    assert program.run() is None
    team.close()
    team.close()
    assert team.threads == 1
    steps, y, expected = chain(50, [2, 4])
    assert Program(steps, 4, team).run() is None
    assert y.tolist() == expected.tolist()
    assert team.threads == 1


def test_close_during_a_run_leaves_the_rest_to_its_leader(team: Team) -> None:
    opened = word()
    steps, y, expected = chain(50, [2, 4, 2])
    program = Program([Step(wait, [], [opened.ctypes.data]), *steps], 4, team)
    results: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: results.append(program.run()))
    thread.start()
    until("the run has the workers", team, work_item.TAKEN, 1)
    team.close()
    opened[0] = 1
    join(thread)
    assert results == [None]
    assert y.tolist() == expected.tolist()


def test_close_at_any_moment_of_a_run_loses_no_part() -> None:
    for turn in range(20):
        team = Team()
        steps, y, expected = chain(64, [4] * 300)
        program = Program(steps, 4, team)
        thread = threading.Thread(target=program.run)
        thread.start()
        time.sleep(turn * 2e-5)
        team.close()
        join(thread)
        assert y.tolist() == expected.tolist()


PREFIX = "import os, resource, threading, time\nfrom tests.cpu.programs import *\n"


@pytest.mark.slow
def test_idle_workers_cost_nothing() -> None:
    code = """
assert meeting(10, 4, 4).run() is None
before = resource.getrusage(resource.RUSAGE_SELF)
time.sleep(1)
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""
    assert float(python(PREFIX + code)) < 0.002


@pytest.mark.parametrize("busy", ["", "threading.Thread(target=forever, daemon=True).start(); time.sleep(.05)"])
def test_a_process_with_a_team_exits_at_once(busy: str) -> None:
    code = f"""
import atexit
atexit.register(lambda: print("threads:", TEAM.threads))  # the first to register is the last to be called
def forever():
    program = meeting(100, 2, 2)
    while True:
        program.run()
assert meeting(10, 4, 4).run() is None
{busy}
print(TEAM.threads, time.time())
"""
    before, left = python(PREFIX + code).splitlines()
    assert time.time() - float(before.split()[1]) < 1
    assert (before.split()[0], left) == ("4", "threads: 1")


@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_makes_its_own_team(busy: bool) -> None:
    """Also where other threads of the parent had the workers, and were starting more, when it forked."""
    code = f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of any fork while threads are alive
program = meeting(10, 2, 2)
assert program.run() is None
opened = word()
other = threading.Thread(target=Program([Step(wait, [], [opened.ctypes.data], 2)], 2).run)
if {busy}:
    other.start()
    time.sleep(.05)
    TEAM._lock.acquire()
child = os.fork()
if child == 0:
    threads = TEAM.threads
    print(threads, meeting(10, 2, 2).run(), TEAM.threads, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
opened[0] = 1
if {busy}:
    TEAM._lock.release()
    other.join()
print(program.run(), TEAM.threads)
"""
    assert python(PREFIX + code) == "1 None 2\nNone 2\n"
