"""The program loop, on the calling thread alone; test_team.py has the rest."""

import threading
import time

import numpy as np
import pytest

from ort_lite.native import Spec, load
from ort_lite_cpu.kernels.jumps import again, begin
from ort_lite_cpu.run.address import LISTS, copy_arguments
from ort_lite_cpu.run.interrupt import HALTED
from ort_lite_cpu.run.loop import ALONE, MISSED, Halt, Job
from ort_lite_cpu.run.team import Team
from tests.cpu.programs import Program, Step, Words, blend, fail, log, wait, word, write
from tests.threads import join


def logged(y: Words) -> list[tuple[int, ...]]:
    return [tuple(row) for row in y[1 : y[0] + 1].reshape(-1, 3).tolist()]


def test_instructions_run_in_order_and_their_parts_too() -> None:
    y = np.zeros(100, np.int64)
    program = Program([Step(log, [y], [7]), Step(log, [y], [8], parts=3), Step(log, [y], [9])])
    assert program.run() is None
    assert logged(y) == [(7, 0, 1), (8, 0, 3), (8, 1, 3), (8, 2, 3), (9, 0, 1)]


@pytest.mark.parametrize("parts", [1, 3])
def test_rounds_go_on_counting_the_parts(parts: int) -> None:
    y = np.zeros(100, np.int64)
    program = Program([Step(log, [y], [7], parts, rounds=4), Step(log, [y], [8]), Step(log, [y], [9], rounds=0)])
    assert program.run() is None
    assert logged(y) == [*((7, part, parts) for part in range(4 * parts)), (8, 0, 1), (9, 0, 1)]


def test_a_halt_and_a_failure_end_a_round_and_what_would_follow() -> None:
    y, halt = np.zeros(100, np.int64), Halt()
    stopped = Program([Step(write, [], [halt.address, 1], rounds=3), Step(log, [y], [1])], halt=halt)
    assert stopped.run() == (0, HALTED)
    failing = Program([Step(fail, [], [3, 5, 9], parts=2, rounds=4), Step(log, [y], [1])])
    assert failing.run() == (0, 3 + 256 * 5)
    assert logged(y) == []


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_jumps_repeat_and_leave_out_instructions(limit: int) -> None:
    y, operands = np.zeros(100, np.int64), [np.full(1, 9), np.full(1, limit), np.full(1, 1)]
    enter, repeat = Step(begin, operands, [], rounds=-1 - 3), Step(again, operands, [], rounds=-1 - 1)
    program = Program([enter, Step(log, [y], [7]), repeat, Step(log, [y], [8])])
    assert program.run() is None
    assert [mark for mark, _, _ in logged(y)] == [7] * limit + [8]
    operands[0][0] = 0
    assert program.job.run(2, 3) == 0  # alone: where it leads to is said, and not gone to
    assert program.job.next == (1 if limit > 1 else 3)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 2), (1, 3), (2, 2), (3, 1)])
def test_a_run_covers_the_instructions_from_start_to_stop(start: int, stop: int) -> None:
    y = np.zeros(100, np.int64)
    program = Program([Step(log, [y], [mark]) for mark in range(4)])
    assert program.job.run(start, stop) == 0
    assert [mark for mark, _, _ in logged(y)] == list(range(start, stop))


def test_operands_are_addressed_through_the_memory_table() -> None:
    y = np.zeros(10, np.int64)
    program = Program([Step(log, [y], [5])])
    descriptor = np.array([1, 16, 5])  # entry 1, offset 16
    program.table[0, 1] = descriptor.ctypes.data
    memory = np.array([0, y.ctypes.data])
    program.job.attach(program.table.ctypes.data, memory.ctypes.data, cost_us=0)
    assert program.run() is None
    assert logged(y[2:]) == [(5, 0, 1)]


@pytest.mark.parametrize(("first", "parts"), [(0, 1), (0, 3), (2, 3)])
def test_a_failure_names_its_instruction_and_status_and_ends_the_run(first: int, parts: int) -> None:
    y = np.zeros(100, np.int64)
    program = Program([Step(log, [y], [1]), Step(fail, [], [3, first, 1], parts), Step(log, [y], [2])])
    assert program.run() == (1, 3 + 256 * first)
    assert logged(y) == [(1, 0, 1)]


def test_a_job_runs_again_after_a_failure() -> None:
    y = np.zeros(100, np.int64)
    program = Program([Step(log, [y], [1]), Step(fail, [], [3, 0, 1])])
    assert program.run() == program.run() == (1, 3)
    assert program.job.run(0, 1) == 0
    assert len(logged(y)) == 3


def test_any_number_of_parts_runs_serially() -> None:
    x, y, expected = np.arange(100), np.zeros(100, np.int64), 3 * np.arange(100) + np.roll(np.arange(100), -1)
    assert Program([Step(blend, [x, y], [100], parts=1000)]).run() is None
    assert y.tolist() == expected.tolist()


def test_a_halt_stops_before_the_next_instruction() -> None:
    y, halt = np.zeros(100, np.int64), Halt()
    program = Program([Step(log, [y], [1]), Step(write, [], [halt.address, 1]), Step(log, [y], [2])], halt=halt)
    assert program.run() == (2, HALTED)
    assert logged(y) == [(1, 0, 1)]
    assert halt.is_set


def test_a_halt_that_is_set_lets_no_run_begin_until_it_is_cleared() -> None:
    y, halt = np.zeros(100, np.int64), Halt()
    program = Program([Step(log, [y], [1])], halt=halt)
    halt.set()
    assert program.run() == (0, HALTED)
    assert logged(y) == []
    halt.clear()
    assert not halt.is_set
    assert program.run() is None


def test_a_halt_set_by_the_last_instruction_comes_too_late() -> None:
    halt = Halt()
    assert Program([Step(write, [], [halt.address, 1])], halt=halt).run() is None


def test_another_thread_halts_a_run_and_the_global_lock_is_free_meanwhile() -> None:
    y, halt, opened = np.zeros(100, np.int64), Halt(), word()
    program = Program([Step(wait, [], [opened.ctypes.data]), Step(log, [y], [1])], halt=halt)
    results: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: results.append(program.run()))
    thread.start()
    time.sleep(0.01)  # the run is, most likely, in its first instruction
    halt.set()
    opened[0] = 1
    join(thread)
    assert results in ([(0, HALTED)], [(1, HALTED)])
    assert logged(y) == []


def test_a_job_can_watch_another_halt() -> None:
    first, second = Halt(), Halt()
    program = Program([Step(fail, [], [3, 9, 1])], halt=first)
    program.job.watch(second)
    first.set()
    assert program.run() is None
    second.set()
    assert program.run() == (0, HALTED)


def test_jobs_of_one_thread_and_short_programs_start_no_workers() -> None:
    team = Team()
    assert Program([Step(fail, [], [3, 9, 1], parts=4)], 1, team).run() is None
    short = Program([Step(fail, [], [3, 9, 1], parts=4)], 4, team, cost_us=Job.WORTH_WAKING_US - 1)
    assert short.run() is None
    assert team.threads == team.asked == 1


# --- The GIL


def alone(program: Program) -> Job:
    program.job.attach(program.table.ctypes.data, program.memory.ctypes.data, 0.0, ALONE)
    return program.job


def run_in_thread(program: Program) -> None:
    thread = threading.Thread(target=program.run)
    thread.start()
    join(thread)


def test_a_short_run_keeps_the_gil_until_another_thread_runs_and_again_when_that_has_ended() -> None:
    y = np.zeros(3 * 2000, np.int64)
    program, other = Program([Step(log, [y], [7])]), Program([Step(log, [np.zeros(100, np.int64)], [8])])
    job, runs = alone(program), 0
    for _ in range(2):
        while job._entry is not job._hold or runs == 0:
            assert program.run() is None
            runs += 1
        run_in_thread(other)
        assert program.run() is None
        runs += 1
        assert job._entry is job._release
    assert logged(y) == [(7, 0, 1)] * runs, "none is lost, and none runs twice"
    assert 2 < runs < 500


def test_a_failure_is_told_whoever_runs() -> None:
    failing, other = Program([Step(fail, [], [3, 0, 1])]), Program([Step(log, [np.zeros(100, np.int64)], [8])])
    job = alone(failing)
    for _ in range(100):
        assert failing.run() == (0, 3)
    run_in_thread(other)
    for _ in range(100):
        assert failing.run() == (0, 3)
    assert job._entry is job._release, "a run that failed does not say that the next one keeps the GIL"


# --- Runs with other arrays


class Listed:
    """One instruction, `log`, whose array is the second of a list."""

    def __init__(self) -> None:
        self.memory = np.zeros(4, np.int64)
        self.wanted = copy_arguments(2, [1])
        self.descriptor = np.array([3, 0, 7], np.int64)  # base 3 of the memory table: 2 + 1
        [entry] = load([Spec(log, ("i64",))])
        self.table = np.array([[entry, self.descriptor.ctypes.data, 1, 1]], np.int64)
        self.job = Job()
        self.job.attach(self.table.ctypes.data, self.memory.ctypes.data, 1.0, ALONE, self.wanted.ctypes.data)
        self.first = np.zeros(10, np.int64)
        self.memory[3] = self.first.ctypes.data
        assert self.job.run(0, 1) == 0


@pytest.mark.skipif(not LISTS, reason="only where native code knows the interpreter's lists")
def test_a_run_again_has_the_addresses_of_its_list() -> None:
    listed, y = Listed(), np.zeros(20, np.int64)
    assert listed.job.again([None, y[10:], "text"]) == 0, "it looks at what it was told to alone"
    assert logged(y[10:]) == [(7, 0, 1)]
    assert listed.memory.tolist() == [0, 0, 0, y[10:].ctypes.data]
    assert logged(listed.first) == [(7, 0, 1)]


class OfSomebody(np.ndarray):
    pass


@pytest.mark.skipif(not LISTS, reason="only where native code knows the interpreter's lists")
@pytest.mark.parametrize("element", [None, [1], "text", 7, np.int64(7), np.zeros(10, np.int64).view(OfSomebody)])
def test_a_run_again_begins_with_nothing_where_an_element_is_no_array_of_numpys(element: object) -> None:
    listed = Listed()
    for arrays in ([np.zeros(10, np.int64), element], [np.zeros(10, np.int64)], []):
        assert listed.job.again(arrays) == MISSED
        assert listed.memory[3] == listed.first.ctypes.data
    assert logged(listed.first) == [(7, 0, 1)]
