"""What a run is told of hangs on its arena, and is made right for the next program that has it."""

import ctypes

from ort_lite_cpu.run.run_context import RunContext


def test_a_lease_becomes_right_for_whoever_has_it_next() -> None:
    lease = RunContext()
    first = (1, 5)
    lease.fit(first)
    job, table = lease.job, lease.memory
    assert lease.fits is first
    assert len(table) == 5
    assert lease.memory_address == ctypes.addressof(table)
    lease.fit((1, 3))
    assert lease.job is job, "as many threads"
    assert lease.memory is table, "large enough"
    more = (2, 9)
    lease.fit(more)
    assert lease.fits is more
    assert lease.job is not job
    assert len(lease.memory) == 9
    assert lease.memory_address == ctypes.addressof(lease.memory)


def test_a_lease_keeps_the_jobs_of_a_few_bound_programs() -> None:
    lease, tokens = RunContext(), [object() for _ in range(RunContext.MOST_ATTACHED + 1)]
    lease.fit((1, 5))
    jobs = []
    for token in tokens:
        jobs.append(lease.job)
        lease.keep_job(token)
    assert list(lease.attached) == tokens[1:]
    assert list(lease.attached.values()) == jobs[1:], "the oldest one is told of what comes next"
    assert lease.job is jobs[0]
    lease.fit((1, 9))
    assert not lease.attached, "the table moved"
    for token in tokens:
        lease.keep_job(token)
        assert lease.job in jobs, "another program takes them over"
    lease.fit((2, 9))
    lease.keep_job(tokens[0])
    assert lease.job not in jobs, "they are for one thread"


def test_a_lease_is_an_arena() -> None:
    lease = RunContext()
    assert lease.reserve(1000) == lease.address == lease.buffer.ctypes.data
    assert lease.address % 64 == 0
