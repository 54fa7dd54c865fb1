"""Cases that do not pass, for the test of `tests.hostile.children`."""

import os
import signal
import time


def fail() -> None:
    raise ValueError("not as it should be")


def take_memory() -> None:
    bytearray(1 << 30)


CASES = {
    "passes": lambda: None,
    "fails": fail,
    "hangs": lambda: time.sleep(60),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "takes memory": take_memory,
    "passes last": lambda: None,
}
