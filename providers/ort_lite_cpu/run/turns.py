"""Threads that run sessions take turns in Python.

A thread that needs the GIL sleeps until another one gives it away, and takes longer to wake than a short run takes. So a run that has
ended waits for its turn first, spinning, while another thread is on its way through Python from one run to the next.

Short runs keep the GIL while one thread alone runs sessions: other Python code would have it for 5 ms each time.
"""

from ort_lite.native.lang import load64, store64
from ort_lite_cpu.run.atomics import pause, put, swap
from ort_lite_cpu.run.interrupt import this_thread

# Byte offsets of the words. TAKEN: 1 while a thread that came out of a run may have the GIL. LAST: the thread that ran last.
# CROWDED: the runs of that thread for which others are expected to run as well.
TAKEN, LAST, CROWDED = range(0, 24, 8)
NBYTES = 64

RUNS = 64
"""The runs of one thread after which others are no longer expected."""
_PAUSES = 400
"""The longest wait for a turn: twice the Python code of a run (10 us on Zen 4, 20 where a pause takes 140 cycles).

A thread may have gone with its turn.
"""


def are_others_running(turns: int) -> int:
    """Note that the calling thread runs. Return a number other than 0 if other threads have run sessions lately."""
    thread = this_thread()
    if load64(turns + LAST) != thread:
        store64(turns + LAST, thread)
        store64(turns + CROWDED, RUNS)
    elif load64(turns + CROWDED) > 0:
        store64(turns + CROWDED, load64(turns + CROWDED) - 1)
    return load64(turns + CROWDED)


def others_may_run(turns: int) -> int:
    """Return what `are_others_running` returned last."""
    return load64(turns + CROWDED)


def give_turn(turns: int) -> None:
    """Let another thread have its turn. The caller has released the GIL, so nobody is in the middle of one."""
    put(turns + TAKEN, 0)


def wait_for_turn(turns: int) -> None:
    """Take the turn, before the caller takes the GIL."""
    waits = 0
    while waits < _PAUSES and not swap(turns + TAKEN, 0, 1):
        pause()
        waits += 1
