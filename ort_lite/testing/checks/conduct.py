"""Checks of how a compiled partition treats its inputs and outputs, other threads, other instances and failed runs."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from ort_lite.provider.provider import CPU, ExecutionProvider
from ort_lite.session.device_values import put
from ort_lite.testing import cases
from ort_lite.testing.cases import Case
from ort_lite.testing.checks.pauses import Pauses
from ort_lite.testing.checks.tries import bits, call_for, format_exception, problem, run_copy, session_with_constants, sessions
from ort_lite.testing.frozen import changes, snapshot
from ort_lite.testing.kit import Finding, Kit, copy_feed

THREADS, RUNS = 8, 12
PATIENCE = 120.0
"""Seconds that all runs of the threads may take; longer is a deadlock."""


def inputs_untouched(kit: Kit) -> list[Finding]:
    """Check that the provider writes neither to the caller's inputs nor to the model's constants, and accepts read-only arrays."""
    found = []
    for case, session in sessions(kit):
        feed = copy_feed(case.feed)
        session.run(None, feed)
        written = [name for name in feed if bits([feed[name]]) != bits([case.feed[name]])]
        found += [Finding("inputs_untouched", case.name, f"it wrote to input {name!r}") for name in written]
        for array in feed.values():
            array.setflags(write=False)
        locked = call_for(partial(session.run, None, feed))
        if isinstance(locked, Exception) and not written:
            found.append(Finding("inputs_untouched", case.name, f"with read-only inputs: {format_exception(locked)}"))
        found += _check_constants(kit, case)
    return found


def _check_constants(kit: Kit, case: Case) -> list[Finding]:
    given = session_with_constants(kit, case)
    if given is None or isinstance(given[0], Exception):
        return []
    session, feed = given
    held = kit.host.constants(session)
    before = bits(value.constant for value in held)
    run_copy(session, feed)
    after = bits(value.constant for value in held)
    names = [value.name for value, was, now in zip(held, before, after, strict=True) if now != was]
    return [Finding("inputs_untouched", case.name, f"it wrote to constant {name!r}") for name in names]


def outputs_owned(kit: Kit) -> list[Finding]:
    """Check that each result belongs to the caller: it is writable, and shares no memory with an input, a constant, another output
    or a later result.
    """
    found = []
    for case, session in sessions(kit):
        feed = copy_feed(case.feed)
        first = session.run(None, feed)
        kept = bits(first)
        others = {name: np.zeros_like(array) if array.dtype.kind == "f" else array for name, array in feed.items()}
        second = run_copy(session, others)
        for k, (array, was, now) in enumerate(zip(first, kept, bits(first), strict=True)):
            others_memory = [(f"input {name!r}", given) for name, given in feed.items()]
            others_memory += [(f"constant {v.name!r}", v.constant) for v in kit.host.constants(session)]
            others_memory += [(f"output {j}", b) for j, b in enumerate(first[:k])]
            if isinstance(second, list):
                others_memory += [(f"output {j} of the next run", b) for j, b in enumerate(second)]
            problems = [f"shares memory with {what}" for what, b in others_memory if np.shares_memory(array, b)]
            problems += ["cannot be written to"] * (not array.flags.writeable)
            problems += ["changed with the next run"] * (now != was)
            found += [Finding("outputs_owned", case.name, f"output {k} {what}") for what in problems]
    return found


def statelessness(kit: Kit) -> list[Finding]:
    """Check that a run does not change the compiled partition: neither its attributes nor its arrays. Caches by shape may grow.

    Runs are repeatable: the same inputs give the same bits, whatever ran in between.
    """
    found = []
    for case, session in sessions(kit):
        feed = copy_feed(case.feed)
        first = session.run(None, feed)
        compiled = kit.host.partitions(session)
        provider = kit.host.provider(session)
        outside = (provider, provider.allocator(), provider.data_transfer())  # their books are their own
        before = [snapshot(partition, outside) for partition in compiled]
        others = _scale(case, 1)
        run_copy(session, others)
        again = [session.run(None, feed) for _ in range(3)]
        for state, partition in zip(before, compiled, strict=True):
            what = changes(state, snapshot(partition, outside))
            found += [Finding("statelessness", case.name, f"a run changed {path}") for path in what[:3]]
        if any(bits(results) != bits(first) for results in again):
            found.append(Finding("statelessness", case.name, "the same inputs gave other bits in a later run"))
    return found


def threads(kit: Kit) -> list[Finding]:
    """Check that many threads in one session, each with its own inputs, get the bits that a single thread gets.

    The check runs twice: at full speed, and with pauses at each line of the provider's Python code, where other threads can run.
    """
    found = []
    for case, session in sessions(kit):
        feeds = [_scale(case, k) for k in range(THREADS)]
        wanted = [run_copy(session, feed) for feed in feeds]
        if any(isinstance(result, Exception) for result in wanted):
            continue
        begin = time.monotonic()
        problems = _hammer(session, feeds, wanted, RUNS)
        if not problems:
            pause = (time.monotonic() - begin) / RUNS
            pauses = Pauses(partial(run_copy, session, feeds[0]), THREADS, pause, kit.host.packages)
            problems = _hammer(session, feeds, wanted, pauses.runs, pauses.during)
        if problems:
            found.append(
                Finding("threads", case.name, f"{problems[0]} ({len(problems)} problems in runs of {THREADS} threads)")
            )
    return found


def _hammer(
    session: Any,
    feeds: Sequence[dict[str, Any]],
    wanted: Sequence[Any],
    runs: int,
    during: Callable[[int, int], AbstractContextManager[None]] | None = None,
) -> list[str]:
    """Run from many threads at once and return the problems. `during(thread, run)` is around each run."""
    problems: list[str] = []
    start, over = threading.Barrier(len(feeds)), threading.Event()

    def hammer(thread: int, feed: dict[str, Any], expected: Sequence[Any]) -> None:
        start.wait()
        for run in range(runs):
            if over.is_set():
                return
            with nullcontext() if during is None else during(thread, run):
                got = call_for(lambda: session.run(None, feed))
            if isinstance(got, Exception):
                problems.append(format_exception(got))
            elif bits(got) != bits(expected):
                problems.append("a result is another thread's or broken; if it is not thread-safe, `concurrency` says so")

    arguments = zip(range(len(feeds)), feeds, wanted, strict=True)
    workers = [threading.Thread(target=hammer, args=given, daemon=True) for given in arguments]
    end = time.monotonic() + PATIENCE
    with _fast_switches():
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(max(end - time.monotonic(), 0))
    over.set()
    stuck = sum(worker.is_alive() for worker in workers)
    return [f"{stuck} threads did not come back within {PATIENCE:g} s", *problems] if stuck else problems


@contextmanager
def _fast_switches() -> Iterator[None]:
    """Make Python switch threads more often, so that races show up sooner."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _scale(case: Case, k: int) -> dict[str, Any]:
    """Multiply floats by 1 + k / 8 and keep all else."""
    with np.errstate(all="ignore"):  # the largest numbers
        return {
            name: (array * array.dtype.type(1 + k / 8)).astype(array.dtype) if array.dtype.kind == "f" else array
            for name, array in case.feed.items()
        }


def instances(kit: Kit) -> list[Finding]:
    """Check that instances are independent: sessions of two instances over two models, used in turn, each give their own model's
    results, and take values of another instance on the same device unless `shares_device` is True.
    """
    found = list(_check_foreign_values(kit))
    several = kit.some[:8]
    for case, other in zip(several, (*several[1:], *several[:1]), strict=True):
        first, second = call_for(partial(kit.session, case.model)), call_for(partial(kit.session, other.model))
        if isinstance(first, Exception) or isinstance(second, Exception):
            continue  # a finding of `claims`
        for session, expected in ((first, case), (second, other), (first, case)):
            got = run_copy(session, expected.feed)
            text = problem(kit, got, expected.expected, expected)
            if text is not None:
                found.append(Finding("instances", f"{case.name} beside {other.name}", text))
    return found


def _check_foreign_values(kit: Kit) -> Iterator[Finding]:
    """Yield a finding for a session that cannot read values of another instance on its device."""
    other = kit.make()
    if kit.host.name or other.device == CPU or other.shares_device:
        return
    for case in kit.some[:2]:
        session = call_for(partial(kit.session, case.model))
        feed = call_for(partial(_put_all, case.feed, other))
        if not isinstance(session, Exception) and not isinstance(feed, Exception):
            text = problem(kit, call_for(partial(session.run, None, feed)), case.expected, case)
            if text is not None:
                what = f"with values of another instance on {other.device}: {text}: set shares_device = True"
                yield Finding("instances", case.name, what)


def _put_all(feed: Mapping[str, Any], provider: ExecutionProvider) -> dict[str, Any]:
    return {name: put(array, provider) for name, array in copy_feed(feed).items()}


def errors(kit: Kit) -> list[Finding]:
    """Check that a failed run, or a run with other sizes, does not affect the next run of the session."""
    found: list[Finding] = []
    for case in kit.some:
        session = call_for(partial(kit.session, cases.with_open_dimensions(case)))
        wanted = session if isinstance(session, Exception) else run_copy(session, case.feed)
        if isinstance(wanted, Exception):
            continue  # a finding of `shapes`
        for _, feed in cases.other_sizes(case):
            run_copy(session, feed)
        again = run_copy(session, case.feed)
        if isinstance(again, Exception):
            found.append(Finding("errors", case.name, f"after runs of other sizes: {format_exception(again)}"))
        elif bits(again) != bits(wanted):
            found.append(Finding("errors", case.name, "after runs of other sizes the result is another"))
    return found
