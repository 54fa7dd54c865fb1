"""A case that ends its process, hangs or takes too much memory fails alone, and its outcome says how."""

import ctypes
import os
import re
import sys
import time

import pytest

from tests.case_server import Outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cases run in forked processes with limits, as on Linux")


def fail() -> None:
    raise ValueError("not as it should be")


CASES = {
    "passes": lambda: None,
    "fails": fail,
    "hangs": lambda: time.sleep(60),
    "crashes": lambda: ctypes.string_at(8),
    "leaves": lambda: os._exit(3),
    "takes memory": lambda: bytearray(1 << 30),
    "passes last": lambda: None,
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("passes", "^$"),
        ("fails", "ValueError: not as it should be"),
        ("hangs", r"the process hung: no answer for 1 s after 1\.\d s\nSIGABRT\n(.|\n)*in <lambda>"),
        ("crashes", r"the process died: SIGSEGV after .*\nSIGSEGV\naddress 0x8\n"),
        ("leaves", "the process died: exit status 3"),
        ("takes memory", "MemoryError"),
        ("passes last", "^$"),
    ],
)
def test_each_case_has_an_outcome(outcome: Outcome, name: str, words: str) -> None:
    assert re.search(words, outcome(__name__, name, seconds=1, megabytes=512))
