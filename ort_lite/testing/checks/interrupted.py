"""Checks of runs that end early, because of an error or because they were terminated."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ort_lite.errors import RunTerminated
from ort_lite.options.options import RunOptions
from ort_lite.testing import cases
from ort_lite.testing.allocation_log import AllocationLog
from ort_lite.testing.cases import Case
from ort_lite.testing.checks.provider_memory import short_collections
from ort_lite.testing.checks.tries import bits, call_for, format_exception, run_copy
from ort_lite.testing.kit import Finding, Kit, copy_feed

FAILURES, CASES = 3, 24


def interrupted(kit: Kit) -> list[Finding]:
    """Check that a failed or terminated run leaves nothing behind: the next run gives the same results, and no memory is lost."""
    with short_collections():
        return [Finding("interrupted", case.name, text) for case in kit.some[:CASES] for text in _spoilt(kit, case)]


def _spoilt(kit: Kit, case: Case) -> Iterator[str]:
    provider = kit.make()
    memory = provider.allocator()
    log = None if memory is None else AllocationLog.of(memory)
    session = call_for(partial(kit.session, cases.with_any_sizes(case), provider))
    wanted = session if isinstance(session, Exception) else run_copy(session, case.feed)
    if isinstance(wanted, Exception):
        return  # a finding of `sizes`
    unfitting = list(_unfitting(case))
    _run_all(session, unfitting)
    before = _in_use(log)  # some sizes fit, and a scratch memory may have grown for them
    for _ in range(FAILURES):
        _run_all(session, unfitting)
    yield from _check_termination(session, case.feed)
    after = _in_use(log)
    if after > before:
        yield f"runs that failed left {after - before} bytes behind"
    again = run_copy(session, case.feed)
    if isinstance(again, Exception):
        yield f"after runs that failed: {format_exception(again)}"
    elif bits(again) != bits(wanted):
        yield "after runs that failed the result is another"


def _run_all(session: Any, feeds: Iterable[Mapping[str, Any]]) -> None:
    for feed in feeds:
        run_copy(session, feed)


def _in_use(log: AllocationLog | None) -> int:
    if log is None:
        return 0
    gc.collect()
    return log.in_use()


def _unfitting(case: Case) -> Iterator[dict[str, Any]]:
    """Yield feeds in which one input has one more element along its last axis, so that shapes no longer match."""
    for name, array in case.feed.items():
        if array.ndim and array.size:
            longer = np.concatenate([array, array[..., :1]], axis=-1)
            yield {**copy_feed(case.feed), name: longer}


def _check_termination(session: Any, feed: Mapping[str, Any]) -> Iterator[str]:
    options = RunOptions()
    options.terminate = True
    ended = call_for(lambda: session.run(None, copy_feed(feed), options))
    if isinstance(ended, Exception) and not isinstance(ended, RunTerminated):
        yield f"a run that was terminated raised {format_exception(ended)}; expected RunTerminated"
