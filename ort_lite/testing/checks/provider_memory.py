"""Checks of memory: copies to the device and back, what is released and when, and what a run leaves behind."""

import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ort_lite.provider.narrowing import narrows
from ort_lite.provider.provider import CPU, DataTransfer, Device, ExecutionProvider
from ort_lite.testing.allocation_log import AllocationLog
from ort_lite.testing.cases import Case, of_size, with_open_dimensions
from ort_lite.testing.checks.tries import call_for, format_exception, new_sessions, run_copy
from ort_lite.testing.differences import compare
from ort_lite.testing.kit import Finding, Kit, copy_feed

RUNS, STRETCHES = 40, 8
SHAPES = 32
"""New shapes in a stretch of runs. A cache is bounded if a stretch keeps nothing."""
LEAK = 100
"""Bytes a run: less may be noise of Python's own, an array that is kept costs more. Caches fill in the first stretches."""
ROW = 2048
"""Bytes for one more along the first dimension; 576 of them are a megabyte."""


def transfer(kit: Kit) -> list[Finding]:
    """Check the data transfer of a provider with a memory of its own: type, shape and bits survive, and results are copies."""
    provider = kit.new_provider()
    if provider.device == CPU:
        return []
    way = provider.data_transfer()
    if way is None:
        return [Finding("transfer", "", f"it is on {provider.device} and has no data_transfer()")]
    for source, to in ((CPU, provider.device), (provider.device, CPU)):
        if not way.can_copy(source, to):
            return [Finding("transfer", "", f"can_copy({source}, {to}) says no: values cannot come in and out")]
    found = []
    for array in _samples(kit, provider):
        for label, inwards in _ways_in(provider, way).items():
            text = call_for(partial(_there_and_back, inwards, way, provider.device, array))
            if text is not None:
                what = f"{array.dtype}{list(array.shape)}{_layout(array)}, {label}"
                found.append(Finding("transfer", what, format_exception(text) if isinstance(text, Exception) else text))
    text = call_for(partial(_side_by_side, provider, way))
    if text is not None:
        found.append(Finding("transfer", "several", format_exception(text) if isinstance(text, Exception) else text))
    return found


def _layout(array: Any) -> str:
    return "" if array.flags.c_contiguous else f" with strides {list(array.strides)}"


def _side_by_side(provider: ExecutionProvider, way: Any) -> str | None:
    """Check that several values in consecutive allocations each keep their own elements."""
    memory = provider.allocator()
    if memory is None or not hasattr(way, "copy_into"):
        return None
    arrays = [np.full(size, k, np.float32) for k, size in enumerate((1, 64, 65, 1000, 3))]
    handles = [memory.allocate(array.nbytes) for array in arrays]
    inside = [way.copy_into(a, CPU, provider.device, handle) for a, handle in zip(arrays, handles, strict=True)]
    wrong = [k for k, one in enumerate(inside) if not np.array_equal(way.copy(one, provider.device, CPU), arrays[k])]
    for handle in handles:
        memory.free(handle)
    return (
        f"of {len(arrays)} values beside each other, the one of {arrays[wrong[0]].size} floats is another's" if wrong else None
    )


def _ways_in(provider: ExecutionProvider, way: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the ways into the device: by `copy`, and into memory of the allocator if the two support it."""
    found: dict[str, Callable[[Any], Any]] = {"copy": lambda array: way.copy(array, CPU, provider.device)}
    memory = provider.allocator()
    if memory is not None and hasattr(way, "copy_into"):
        kept = memory
        found["copy_into"] = lambda array: way.copy_into(array, CPU, provider.device, kept.allocate(array.nbytes))
    return found


def _samples(kit: Kit, provider: ExecutionProvider) -> Iterator[Any]:
    """Yield samples of each element type that a claimed single-node case reads or returns: matrices, an empty one, a scalar and
    views. A device that narrows int64 gets int32.
    """
    whole = [case for case in kit.positive_cases if len(case.model.graph.node) == 1]
    arrays = [np.asarray(a) for case in whole for a in (*case.feed.values(), *case.expected)]
    narrow = {np.dtype(np.int64): np.dtype(np.int32)} if narrows(provider) else {}
    for dtype in dict.fromkeys(narrow.get(array.dtype, array.dtype) for array in arrays):
        for shape in ((3, 4), (0, 4), ()):
            yield np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        table = np.arange(24).reshape(4, 6).astype(dtype)
        yield from (table.T, table[::2, 1:], table[::-1])


def _there_and_back(inwards: Callable[[Any], Any], way: DataTransfer, device: Device, array: Any) -> str | None:
    array, given = array.copy(), array.copy() if array.flags.c_contiguous else array
    inside = inwards(given)
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
    """Check that compiled code is freed with its session, and inputs and outputs with their run."""
    with short_collections():
        return [finding for case, session in new_sessions(kit, 8) for finding in _check_release(kit, case, session)]


@contextmanager
def short_collections() -> Iterator[None]:
    """Limit `gc.collect` to objects created inside the block. A test process has millions of other objects."""
    if gc.get_freeze_count():  # somebody else's freeze stays as it is
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _check_release(kit: Kit, case: Case, session: Any) -> Iterator[Finding]:
    what = _check_leak(session, case.feed)
    if what is not None:
        yield Finding("release", case.name, what)
    alive = [r for p in kit.host.partitions(session) if (r := _reference(p)) is not None]
    session.close()
    del session
    gc.collect()
    if any(reference() is not None for reference in alive):
        yield Finding("release", case.name, "the compiled partition outlives its session")


def _check_leak(session: Any, feed: Mapping[str, Any]) -> str | None:
    """Describe a leak: memory, as tracemalloc counts it, that grows in every stretch of equal runs. None: there is none."""
    with _tracing():
        least, size = sys.maxsize, _size_after_runs(session, feed)
        for _ in range(STRETCHES):
            before, size = size, _size_after_runs(session, feed)
            least = min(least, (size - before) // RUNS)
            if least < LEAK:
                return None
    return f"each run leaves {least} bytes behind"


def caches(kit: Kit) -> list[Finding]:
    """Check that caches by shape are bounded: with ever new shapes, memory on the host and on the device stops growing.

    Only cases that the provider claims completely are used, because nodes of the CPU provider keep memory of their own. Small ones
    come first: large images take minutes and keep no more. `Kit.shapes` is the number of shapes.
    """
    whole = [case for case in kit.some if set(case.operators) <= set(kit.operators_by_case[case])]
    whole = [case for case in whole if _largest(case) <= ROW] or whole
    with short_collections():
        return [Finding("caches", case.name, text) for case in whole[:8] if (text := _check_shape_cache(kit, case)) is not None]


def _largest(case: Case) -> int:
    """Return the most bytes that one more element along the first dimension costs."""
    return max((array.nbytes // max(array.shape[0], 1) for array in case.feed.values() if array.ndim), default=0)


def _check_shape_cache(kit: Kit, case: Case) -> str | None:
    """Describe an unbounded cache, after stretches of runs with new shapes. None: one stretch kept nothing.

    The largest shape comes first, so that growth with the size alone does not count.
    """
    provider = kit.make()
    session = call_for(partial(kit.session, with_open_dimensions(case), provider))
    left = list(range(1, kit.shapes // SHAPES * SHAPES + 1))
    if isinstance(session, Exception) or isinstance(run_copy(session, of_size(case, left[-1])), Exception):
        return None  # a finding of `shapes`, or a size that the operator does not have
    with _tracing():
        size, grown = _memory_in_use(provider), 0
        while left:
            for _ in range(SHAPES):
                run_copy(session, of_size(case, left.pop()))
            before, size = size, _memory_in_use(provider)
            grown = max(now - then for now, then in zip(size, before, strict=True))
            if grown < SHAPES * LEAK:
                return None
    return f"{SHAPES} new shapes keep {grown} bytes, after {kit.shapes // SHAPES * SHAPES - SHAPES} others: the cache needs a limit"


def _memory_in_use(provider: ExecutionProvider) -> tuple[int, int]:
    """Return the bytes allocated by Python, and by the device if its allocator counts them."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0], getattr(provider.allocator(), "bytes_in_use", 0)


@contextmanager
def _tracing() -> Iterator[None]:
    """Trace Python's allocations, unless tracemalloc is already on."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        yield
    finally:
        if not running:
            tracemalloc.stop()


def _size_after_runs(session: Any, feed: Mapping[str, Any]) -> int:
    for _ in range(RUNS):
        session.run(None, copy_feed(feed))
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _reference(partition: Any) -> "weakref.ref[Any] | None":
    try:
        return weakref.ref(partition)
    except TypeError:  # functions of C, objects with slots
        return None


def allocator(kit: Kit) -> list[Finding]:
    """Check that the allocator frees each allocation exactly once, aligns addresses to 64 bytes, and that runs leave nothing
    behind.
    """
    provider = kit.new_provider()
    memory = provider.allocator()
    if memory is None:
        return []
    found = []
    if memory.device != provider.device:
        found.append(Finding("allocator", "", f"it allocates on {memory.device}; the provider is on {provider.device}"))
    found += [Finding("allocator", "", text) for text in AllocationLog.of(memory).trials()]
    with short_collections():
        for case in kit.some[:8]:
            found += [Finding("allocator", case.name, text) for text in _books(kit, case)]
    return found


def _books(kit: Kit, case: Case) -> list[str]:
    """Return the problems in the allocation log of a new instance, after five runs and the end of the session."""
    provider = kit.make()
    memory = provider.allocator()
    if memory is None:
        return []
    log = AllocationLog.of(memory)
    at_first = log.in_use()
    session = call_for(partial(kit.session, case.model, provider))
    if isinstance(session, Exception) or isinstance(run_copy(session, case.feed), Exception):
        return []  # a finding of `claims`
    gc.collect()
    before = log.in_use()
    for _ in range(5):
        run_copy(session, case.feed)
    gc.collect()
    after = log.in_use()
    found = [f"5 runs left {after - before} bytes behind"] * (after > before)
    session.close()
    del session
    gc.collect()
    left = log.in_use() - at_first - max(after - before, 0)
    found += [f"{left} bytes stay in use when the session is closed"] * (left > 0)
    return found + log.problems
