"""The program loop: one call into native code walks the instructions of a program, GIL released.

A program is a table of instructions, four int64 each: address of the kernel's entry, address of its descriptor, parts,
rounds. The entry is called as `status = entry(descriptor, memory, part, parts)`, once a part; `memory` is the address
of a table of int64 base addresses whose first is 0. An instruction of one part runs without any synchronisation.
One of several rounds (0 counts as 1) is called again and again, no round before all parts of the one before have ended; its
`part` goes on counting, so that round r has the parts from r * parts on. Where rounds are negative, -1 - i, the instruction has one
part, and the run goes on at instruction i if its kernel returns TAKEN: branches and loops.
"""

import ctypes
from functools import cache
from typing import Any

from ort_lite.native.lang import load64, store64
from ort_lite.native.loader import load
from ort_lite.native.spec import Spec
from ort_lite_cpu.run.address import copy_addresses
from ort_lite_cpu.run.atomics import get
from ort_lite_cpu.run.interrupt import HALTED, begin, enter
from ort_lite_cpu.run.team import TEAM, Team
from ort_lite_cpu.run.turns import NBYTES, are_others_running, give_turn, others_may_run, wait_for_turn
from ort_lite_cpu.run.work_item import MAX_PARTS, are_near, hire, release, share

INSTRUCTION = 4  # int64s of one row of the table
TAKEN = -2  # what the kernel of a jump returns where the run is to go on elsewhere
MISSED = 2  # what a run returns that has begun with nothing, as its arrays were not all of NumPy's own class
CROWDED = 3  # a run returns it without running anything: other threads run too, so it must be called with the GIL released
LONELY = 4  # a successful run returns it when no other thread runs any more: the next call keeps the GIL

# Jobs release the GIL (RELEASE), hold it (HOLD), or hold it while no other thread runs sessions (ALONE). An ALONE job becomes SHARED,
# and releases the GIL, while other threads run.
RELEASE, ALONE, HOLD, SHARED = range(4)

# The job record: byte offsets of its words.
CONTROL, THREADS, TABLE, START, STOP, MEMORY, HALT, INDEX, STATUS, WANTED, FRAME, GIL, TURNS, BRIEF = range(0, 112, 8)
JOB_NBYTES = 112


# --- Native
def execute(job: int, arrays: int) -> int:
    """Runs the instructions [START, STOP) of a job. Returns 0, or 1 with STATUS of what stopped it. INDEX is that of the instruction
    that stopped it, or that would be next: a jump leads anywhere, and one out of [START, STOP) ends the run.

    `arrays`, where not 0, is a list whose addresses are written first, as WANTED says; MISSED where they cannot be.
    """
    memory = load64(job + MEMORY)
    if arrays != 0 and copy_addresses(load64(job + WANTED), arrays, memory) == 0:
        return MISSED
    halt, frame = load64(job + HALT), load64(job + FRAME)
    if frame != 0:
        begin(frame, halt)
    control = hire(load64(job + CONTROL), _threads(job), memory, halt if frame != 0 else 0)
    start, stop = load64(job + START), load64(job + STOP)
    brief = load64(job + BRIEF)  # its rounds are shorter than the waits between them would be
    index = start
    row = load64(job + TABLE) + 8 * INSTRUCTION * index
    status = done = 0
    while index < stop:
        if get(halt) != 0:
            status = HALTED
            break
        parts = load64(row + 16)
        if parts == 1:
            status = enter(frame, load64(row), load64(row + 8), memory, done, 1)
        elif control != 0 and parts <= MAX_PARTS and (brief == 0 or load64(row + 24) <= 1):
            status = share(control, row, parts, done * parts, frame)
        else:
            status = _alone(row, memory, parts, done * parts, frame)
        if status != 0:
            if status != TAKEN or load64(row + 24) >= 0:
                break
            index = -1 - load64(row + 24)
            row = load64(job + TABLE) + 8 * INSTRUCTION * index
            status = done = 0
            if index < start:
                break
            continue
        done += 1
        if done >= load64(row + 24):
            done = 0
            index += 1
            row += 8 * INSTRUCTION
    if control != 0:
        release(control)
    store64(job + INDEX, index)
    if status == 0:
        return 0
    store64(job + STATUS, status)
    return 1


def run_job(job: int, arrays: int) -> int:
    """Run a job as `execute` does, and take turns. Return CROWDED or LONELY if the GIL is to be released, or kept, from now on."""
    gil, turns = load64(job + GIL), load64(job + TURNS)
    if gil == HOLD:
        return execute(job, arrays)
    others = are_others_running(turns)
    if gil == ALONE:
        if others == 0:
            return execute(job, arrays)
        store64(job + GIL, SHARED)
        return CROWDED
    give_turn(turns)
    failed = execute(job, arrays)
    wait_for_turn(turns)
    if gil == SHARED and others == 0 and failed == 0:
        store64(job + GIL, ALONE)
        return LONELY
    return failed


def _threads(job: int) -> int:
    """Return the threads that a run asks for. A brief one goes alone unless its workers are near, and no other thread runs sessions."""
    threads = load64(job + THREADS)
    if threads < 2 or load64(job + BRIEF) == 0:
        return threads
    if others_may_run(load64(job + TURNS)) != 0 or not are_near(load64(job + CONTROL), threads):
        return 1
    return threads


def _alone(row: int, memory: int, parts: int, first: int, frame: int) -> int:
    """All parts of a round in order, from number `first` on, up to the first that fails."""
    for part in range(first, first + parts):
        status = enter(frame, load64(row), load64(row + 8), memory, part, parts)
        if status != 0:
            return status
    return 0


# --- Python
RUN_JOB = Spec.plain(run_job, "i64(i64,i64)")
_TURNS = ctypes.create_string_buffer(NBYTES)


@cache
def _entries() -> tuple[Any, Any]:
    """Return the two functions that run a job: with the GIL released, and with the GIL held."""
    [address] = load([RUN_JOB])
    # c_void_p converts an int in a third of c_int64's time.
    signature = ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    return ctypes.CFUNCTYPE(*signature)(address), ctypes.PYFUNCTYPE(*signature)(address)


class Halt:
    """A word that stops the runs whose jobs look at it: before their next instruction, and inside of one where `interrupt` is used. Set
    from any thread.

    What `RunOptions.terminate`, a deadline's timer and `close()` set. A signal's Python handler cannot: it waits until
    `run()` returns to the main thread. For a prompt Ctrl-C run a long program in slices of [start, stop).
    """

    def __init__(self) -> None:
        self._word = ctypes.c_int64(0)
        self.address = ctypes.addressof(self._word)

    @property
    def is_set(self) -> bool:
        """True from set() to clear()."""
        return self._word.value != 0

    def set(self) -> None:
        """Stops the runs in flight, and those that begin before clear()."""
        self._word.value = 1

    def clear(self) -> None:
        """Lets runs begin again."""
        self._word.value = 0


class Job:
    """The job that one run at a time hands to native code. A lease of scratch memory owns one; creating it costs 3 us.

        job = Job(threads=4)
        job.attach(table.ctypes.data, memory.ctypes.data, cost_us=900)   # once a binding
        if job.run(0, len(table)):
            index, status = job.failure

    The tables are the caller's: they stay while the run is in flight. Not for two threads at once; any number of jobs
    may run at once, and one of them has the workers.
    """

    WORTH_WAKING_US = 50.0  # a sleeping worker needs up to 100 us, and wakes at the cost of a system call
    WORTH_SHARING_US = 6.0  # for each thread of a brief run

    def __init__(self, threads: int = 1, halt: Halt | None = None, team: Team = TEAM) -> None:
        self._team = team
        self._asked = min(threads, MAX_PARTS)
        self._threads = 1
        self._record = (ctypes.c_int64 * (JOB_NBYTES // 8))()
        self._address = ctypes.addressof(self._record)
        self._record[CONTROL // 8] = team.control
        self._record[TURNS // 8] = ctypes.addressof(_TURNS)
        self._release, self._hold = _entries()
        self._entry = self._release
        self.watch(halt or Halt())

    def watch(self, halt: Halt, frame: int = 0) -> None:
        """Runs from now on look at this word. With a frame of the calling thread, kernels of its runs can be left (`interrupt`)."""
        self._halt = halt
        self._record[HALT // 8], self._record[FRAME // 8] = halt.address, frame

    def attach(self, table: int, memory: int, cost_us: float, gil: int = RELEASE, wanted: int = 0) -> None:
        """Addresses of the instructions and of the memory table; about how long one thread needs for all of it.

        A program that takes less than WORTH_WAKING_US is brief: it wakes no workers unless such runs follow one another, and has a
        thread for each WORTH_SHARING_US. gil: RELEASE, or ALONE or HOLD for what ends soon. wanted: where `address.copy_arguments`
        says whose addresses `again` writes.
        """
        self._record[TABLE // 8], self._record[MEMORY // 8], self._record[WANTED // 8] = table, memory, wanted
        brief = cost_us < self.WORTH_WAKING_US
        most = self._asked if not brief else 1 if gil == HOLD else int(cost_us // self.WORTH_SHARING_US)
        self._threads = max(min(self._asked, most), 1)
        self._record[THREADS // 8], self._record[BRIEF // 8] = self._threads, brief
        self._record[GIL // 8] = gil
        self._entry = self._release if gil == RELEASE else self._hold

    def run(self, start: int, stop: int) -> int:
        """Runs instructions [start, stop). Returns 0, or 1 where `failure` says what happened.

        Costs half a microsecond, 5 ns an instruction of one part, 100 to 200 ns a shared one. Releases the GIL unless `attach` says so.
        """
        record = self._record
        if self._threads > self._team.asked and not record[BRIEF // 8]:
            self._team.grow(self._threads)
        record[START // 8] = start
        record[STOP // 8] = stop
        failed: int = self._entry(self._address, 0)
        return failed if failed < CROWDED else self._change_entry(failed, 0)

    def again(self, arrays: list[Any]) -> int:
        """Repeat the last `run` with the addresses of other arrays. Returns what `run` returns, or MISSED.

        The caller looked whether these are lists that native code can read (`address.LISTS`).
        """
        if self._threads > self._team.asked:
            self._team.grow(self._threads)
        failed: int = self._entry(self._address, id(arrays))
        return failed if failed < CROWDED else self._change_entry(failed, id(arrays))

    def _change_entry(self, asked: int, arrays: int) -> int:
        """Release the GIL from now on, or keep it, as a run asked for. Return what the run returns."""
        self._entry = self._release if asked == CROWDED else self._hold
        failed: int = self._entry(self._address, arrays) if asked == CROWDED else 0
        return failed if failed < CROWDED else self._change_entry(failed, arrays)

    @property
    def next(self) -> int:
        """The instruction that would have followed those of the last run that returned 0."""
        return self._record[INDEX // 8]

    @property
    def failure(self) -> tuple[int, int]:
        """(instruction, status) of the last run that returned 1: its lowest part that failed, or HALTED."""
        return self._record[INDEX // 8], self._record[STATUS // 8]
