"""Memory: the way to the device and back, what is given back and when, and what a run leaves behind."""

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.provider import CPU, DataTransfer, Device
from ort_lite.testing.checks.tries import made, ran, sessions, told
from ort_lite.testing.kit import Finding, Kit, compare, copied
from ort_lite.testing.ledger import Ledger

RUNS = 40
LEAK = 100
"""Bytes a run: less may be noise of Python's own; an array that is kept costs more."""


def transfer(kit: Kit) -> list[Finding]:
    """With a memory of its own it has a data transfer: what goes in comes out, type, shape and bits, and is a copy."""
    provider = kit.configured()
    if provider.device == CPU:
        return []
    way = provider.data_transfer()
    if way is None:
        return [Finding("transfer", "", f"it is on {provider.device} and has no data_transfer()")]
    for source, to in ((CPU, provider.device), (provider.device, CPU)):
        if not way.can_copy(source, to):
            return [Finding("transfer", "", f"can_copy({source}, {to}) says no: values cannot come in and out")]
    found = []
    for array in _samples(kit):
        text = made(lambda array=array: _there_and_back(way, provider.device, array))  # type: ignore[misc]
        if text is not None:
            label = f"{array.dtype}{list(array.shape)}"
            found.append(Finding("transfer", label, told(text) if isinstance(text, Exception) else text))
    return found


def _samples(kit: Kit) -> Iterator[Any]:
    """Of each type that enters or leaves an operator which it takes alone: a matrix, nothing, a number."""
    whole = [case for case in kit.claimed if len(case.model.graph.node) == 1]
    arrays = [np.asarray(a) for case in whole for a in (*case.feed.values(), *case.expected)]
    for dtype in dict.fromkeys(array.dtype for array in arrays):
        for shape in ((3, 4), (0, 4), ()):
            yield np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def _there_and_back(way: DataTransfer, device: Device, array: Any) -> str | None:
    given = array.copy()
    inside = way.copy(given, CPU, device)
    given[...] = np.ones((), array.dtype)
    first, second = way.copy(inside, device, CPU), way.copy(inside, device, CPU)
    if not isinstance(first, np.ndarray):
        return f"it came back as {type(first).__name__}; expected an array"
    text = compare([first], [array], 0, 0)
    if text is not None:
        return f"what came back is not what went in: {text.removeprefix('output 0 ')}"
    if np.shares_memory(first, second) or np.shares_memory(first, given):
        return "what came back is no copy"
    return None


def release(kit: Kit) -> list[Finding]:
    """When a session is gone, so is what was compiled for it; when a run is over, so are its inputs and outputs."""
    found = []
    for case, session in sessions(kit, 8):
        what = _left_by_runs(session, case.feed)
        if what is not None:
            found.append(Finding("release", case.name, what))
        alive = [r for p in kit.partitions(session) if (r := _reference(p)) is not None]
        session.close()
        del session
        gc.collect()
        if any(reference() is not None for reference in alive):
            found.append(Finding("release", case.name, "the compiled partition outlives its session"))
    return found


def _left_by_runs(session: Any, feed: dict[str, Any] | Any) -> str | None:
    """Python's own books (tracemalloc) over two stretches of equal runs: what grows in both is kept."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        ran(session, feed)
        sizes = []
        for _ in range(3):
            for _ in range(RUNS):
                session.run(None, copied(feed))
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        if not running:
            tracemalloc.stop()
    grown = min(sizes[1] - sizes[0], sizes[2] - sizes[1]) // RUNS
    return f"each run leaves {grown} bytes behind" if grown >= LEAK else None


def _reference(partition: Any) -> "weakref.ref[Any] | None":
    try:
        return weakref.ref(partition)
    except TypeError:  # functions of C, objects with slots
        return None


def allocator(kit: Kit) -> list[Finding]:
    """The ledger: what is allocated is freed, once, at addresses that are multiples of 64, and runs leave nothing behind."""
    provider = kit.configured()
    memory = provider.allocator()
    if memory is None:
        return []
    found = []
    if memory.device != provider.device:
        found.append(Finding("allocator", "", f"it allocates on {memory.device}; the provider is on {provider.device}"))
    found += [Finding("allocator", "", text) for text in Ledger.of(memory).trials()]
    for case in kit.some[:8]:
        own = kit.make()
        session = made(lambda case=case, own=own: kit.session(case.model, own))  # type: ignore[misc]
        memory = own.allocator()
        if isinstance(session, Exception) or memory is None or isinstance(ran(session, case.feed), Exception):
            continue
        ledger = Ledger.of(memory)
        before = ledger.in_use()
        for _ in range(5):
            ran(session, case.feed)
        gc.collect()
        after = ledger.in_use()
        if after > before:
            found.append(Finding("allocator", case.name, f"5 runs left {after - before} bytes behind"))
        found += [Finding("allocator", case.name, text) for text in ledger.problems]
    return found
