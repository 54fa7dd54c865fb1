"""A short soak: bits under many threads, and what is left over."""

import os
import sys

import pytest

from tests.nasty.soak import MODELS, Case, held, soak


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what a process holds")
def test_many_threads_change_no_bit_and_leave_nothing() -> None:
    cases = [Case(name) for name in MODELS]
    soak(cases, 4, 60)
    memory, threads, descriptors = held()
    soak(cases, 4, 120)
    now = held()
    assert now[2] == descriptors
    assert now[1] <= threads + 4, "threads that wait for work are as many as once worked together; each session made one"
    assert now[0] - memory < 8192, "kilobytes: 17 that each run leaves would show"


@pytest.mark.skipif(os.name != "posix", reason="a soak needs threads that share")
def test_a_soak_sees_other_bits() -> None:
    cases = [Case(name) for name in MODELS]
    cases[1].wanted[2] = cases[1].wanted[2] + 1
    with pytest.raises(AssertionError, match=r"shared by .*, 64 rows: other bits"):
        soak(cases, 2, 30)
