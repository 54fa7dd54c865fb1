"""Checks of work that a device has not finished: bound runs, which return early, and notifications."""

import threading
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.provider.abilities import has_events, has_state
from ort_lite.provider.provider import CPU, Partition
from ort_lite.session.device_values import fetch
from ort_lite.tensors.device_tensor import DeviceTensor
from ort_lite.testing.checks.handles import DeviceCalls, fed_partitions
from ort_lite.testing.checks.tries import bits, call_for, format_exception, new_sessions, run_copy
from ort_lite.testing.kit import Finding, Kit, copy_feed

SESSIONS, RUNS = 12, 4
SECONDS = 30
"""How long another thread may wait for work that is done."""


def events(kit: Kit) -> list[Finding]:
    """Check work in flight on a device: bound runs whose feeds are overwritten as soon as they return give the results of `run`, and
    the notification of a call can be waited for more than once, from any thread.
    """
    found = []
    for case, session in new_sessions(kit, SESSIONS):
        if kit.host.provider(session).device == CPU:
            return []
        texts = call_for(partial(_problems, kit, session, case.feed))
        texts = [format_exception(texts)] if isinstance(texts, Exception) else texts
        found += [Finding("events", case.name, text) for text in texts]
    return found


def _problems(kit: Kit, session: Any, feed: Mapping[str, Any]) -> list[str]:
    arrays = all(isinstance(array, np.ndarray) for array in feed.values())
    found = list(_bound_runs(session, feed, kit.host.provider(session).device)) if arrays else []
    for partition, compiled in fed_partitions(kit, session, feed):
        if has_events(compiled):
            found += _notifications(partition, compiled, feed)
    return found


def _bound_runs(session: Any, feed: Mapping[str, Any], device: Any) -> Iterator[str]:
    """Yield a problem if bound runs in flight do not give what each gives by itself."""
    feeds = [_vary(feed, k) for k in range(RUNS)]
    expected = [run_copy(session, one) for one in feeds]
    graph = session._stage_results.assignment.graph
    sizes = {size for value in graph.inputs for size in value.shape or ()}
    wanted = {value.name: device for value in graph.outputs if _may_stay(value, sizes)}
    made, given = [], copy_feed(feed)
    for one in feeds:
        for name, array in given.items():
            array[...] = one[name]
        made.append(session._start_run(None, given, None, wanted))
        for array in given.values():
            array[...] = np.ones((), array.dtype)
    for k, (results, alone) in enumerate(zip(made, expected, strict=True)):
        if bits(fetch(x) if isinstance(x, DeviceTensor) else x for x in results) != bits(alone):
            yield f"bound run {k + 1} of {RUNS} in flight gives another result than `run`"
            return


def _may_stay(value: Value, sizes: Collection[Any]) -> bool:
    """Return True for numbers of a shape that follows from the `sizes` of inputs: a value on the device need not know its own."""
    known = value.shape is not None and all(isinstance(size, int) or size in sizes for size in value.shape)
    return known and isinstance(value.type, TensorType) and value.dtype != "string"


def _vary(feed: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Return a copy of the feed with the elements of floats turned by `k`."""
    return {name: np.roll(array, k) if array.dtype.kind == "f" else array.copy() for name, array in feed.items()}


def _notifications(partition: Partition, compiled: Any, feed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the notification of a call."""
    provider = partition.provider
    calls = DeviceCalls(partition, compiled)
    inputs, _ = calls.inside(calls.operands(feed)[0])
    state = [compiled.create_state()] if has_state(compiled) else []
    results = compiled(inputs, *state)
    notification: Any = compiled.record(*state)
    if not callable(getattr(notification, "wait_on_host", None)):
        yield f"record() gave a {type(notification).__name__}; expected a notification with `wait_on_host`"
        return
    notification.wait_on_host()
    if hasattr(notification, "is_done") and not notification.is_done():
        yield "is_done() is False after wait_on_host()"
    again = threading.Thread(target=lambda: failures.append(call_for(notification.wait_on_host)), daemon=True)
    failures: list[Any] = []
    again.start()
    again.join(SECONDS)
    if not failures:
        yield f"a second wait_on_host(), in another thread, takes longer than {SECONDS} s"
    yield from (f"a second wait_on_host(), in another thread, raised {e}" for e in failures if isinstance(e, Exception))
    provider.sync()
    del results
