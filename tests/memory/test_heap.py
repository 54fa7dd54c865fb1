"""What the C library keeps goes back to the system."""

import os
from pathlib import Path

import numpy as np
import pytest

from ort_lite.memory import heap

BLOCK, COUNT = 32 << 10, 1000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(heap._trim() is None, reason="the C library is not glibc")
def test_holes_in_the_heap_go_back() -> None:
    blocks = [np.ones(BLOCK, np.uint8) for _ in range(COUNT)]
    kept = blocks[-1]  # above the others: without help they cannot go
    del blocks
    before = resident()
    heap.give_back()
    assert before - resident() > BLOCK * COUNT // 2
    assert kept.all()


def test_where_the_c_library_cannot_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_trim", lambda: None)
    heap.give_back()
