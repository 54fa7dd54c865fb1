"""Slices of Python steps: between two, a cancelled run ends, and the session's memory limit is checked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from math import prod
from typing import Any, TypeVar

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidData, OrtLiteError, OutOfMemory, describe
from ort_lite.graph import Node
from ort_lite.memory.pool import ScratchPool
from ort_lite.provider.current import CURRENT, as_in

T = TypeVar("T")

ELEMENTS, CHARACTERS = 1 << 13, 1 << 16
"""A slice of texts: at most so many of them, and so many characters unless a single text has more. 20 ms of Python at most."""
CHEAP = 1 << 18
"""Elements of a slice where each costs some nanoseconds: a reference that is copied."""
_REFERENCE = 8


class Tally:
    """The bytes of strings that one call of a program has made, taken from the session's memory limit until the call ends.

    `handed_on`: bytes of the calls inside of it that have ended, whose results may live on.
    """

    __slots__ = ("_pool", "handed_on", "nbytes")

    def __init__(self, pool: ScratchPool[Any]) -> None:
        self._pool, self.nbytes, self.handed_on = pool, 0, 0

    @property
    def room(self) -> int:
        """The bytes that may still be allocated; 0 for no limit."""
        return self._pool.budget.room or 0

    def require(self, nbytes: int) -> None:
        """Raises OutOfMemory where there is no room for so many bytes, even without idle scratch memory."""
        if nbytes > self.room:
            self._pool.trim()
        if nbytes > self.room:
            raise self._pool.budget.refusal(nbytes, "strings of a run")

    def take(self, nbytes: int) -> None:
        """Raises OutOfMemory, and takes none."""
        self.require(nbytes)
        self._pool.budget.take(nbytes, "strings of a run")
        self.nbytes += nbytes

    def release(self) -> None:
        """Release the bytes that were counted."""
        with self._pool.budget.lock:
            self._pool.budget.held -= self.nbytes


class _Current(threading.local):
    tally: Tally | None = None


_CURRENT = _Current()


@contextmanager
def count_strings(pool: ScratchPool[Any]) -> Iterator[None]:
    """Inside, strings that steps of this thread make count towards the limit of the pool's budget."""
    outer, tally = _CURRENT.tally, Tally(pool)
    _CURRENT.tally = tally
    try:
        yield
    finally:
        _CURRENT.tally = outer
        tally.release()
        if outer is not None:
            outer.handed_on += tally.nbytes + tally.handed_on


def check(node: Node) -> None:
    """Raise Cancelled or DeadlineExceeded if the run must end. 60 ns."""
    options = CURRENT.options
    if options is not None and options.terminate:
        raise options.termination(f"in {node}").about(node)


class Pace:
    """The pace of one node's step. It has no state: `check` and `take` ask for the run that the calling thread is in."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    # --- cancellation
    def check(self) -> None:
        """Raise Cancelled or DeadlineExceeded if the run must end. 60 ns."""
        check(self._node)

    def slices(self, count: int, most: int = ELEMENTS) -> Iterator[slice]:
        """Slices of so many elements, in order. Checks between two of them."""
        for start in range(0, count, most):
            if start:
                self.check()
            yield slice(start, start + most)

    def texts(self, texts: list[str]) -> Iterator[list[str]]:
        """The texts in order, in slices of ELEMENTS and CHARACTERS. Checks between two of them."""
        if len(texts) <= ELEMENTS:
            yield from self._smaller(texts)
            return
        for part in self.slices(len(texts)):
            yield from self._smaller(texts[part])

    def _smaller(self, block: list[str]) -> Iterator[list[str]]:
        if sum(map(len, block)) <= CHARACTERS:
            if block:
                yield block
            return
        start = total = 0
        for k, text in enumerate(block):
            total += len(text)
            if total > CHARACTERS and k > start:
                yield block[start:k]
                self.check()
                start, total = k, len(text)
        yield block[start:]

    def pieces(self, text: str) -> Iterator[str]:
        """A long text in pieces of CHARACTERS. Checks between two of them."""
        return (text[part] for part in self.slices(len(text), CHARACTERS))

    def each(self, function: Callable[[str], str], texts: list[str]) -> list[str]:
        """function(text) for each. The function looks at each character alone: long texts come in pieces."""
        if len(texts) <= ELEMENTS and sum(map(len, texts)) <= CHARACTERS:
            results = list(map(function, texts))
            self.take_texts(results)
            return results
        results = []
        for block in self.texts(texts):
            if len(block) > 1 or len(block[0]) <= CHARACTERS:
                results += map(function, block)
            else:
                results.append("".join(map(function, self.pieces(block[0]))))
            if _CURRENT.tally is not None:
                self.take_texts(results[-len(block) :])
        return results

    def sort_blocks(self, blocks: Iterable[list[Any]]) -> list[Any]:
        """Return the items of all blocks sorted. Each block is sorted by itself; checks at each item while they are merged."""
        runs = [sorted(block) for block in blocks]
        if len(runs) <= 1:
            return runs[0] if runs else []
        found = []
        for item in merge(*runs):
            self.check()
            found.append(item)
        return found

    def beside(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments), in a thread of its own that is not waited for once the run is cancelled.

        For calls of native code that hold no GIL and cannot be cancelled; the thread ends behind the one that it is in, at its next
        `check`. A run without options is not cancelled, and needs no thread.
        """
        options = CURRENT.options
        if options is None:
            return function(*arguments)
        work = _Work(function, arguments, lambda: as_in(options, None), _CURRENT.tally)
        try:
            threading.Thread(target=work, name=f"ort-lite-{self._node.op_type}").start()
        except RuntimeError:  # no more threads
            return function(*arguments)
        with options.on_terminate(work.done.set):
            work.done.wait()
        if not work.results:
            raise options.termination(f"in {self._node}").about(self._node)
        result: T = work.result()
        return result

    # --- memory
    @property
    def counts(self) -> bool:
        """True if strings of this run count towards a limit."""
        return _CURRENT.tally is not None

    def take(self, nbytes: int) -> None:
        """Takes bytes from the session's memory limit. Raises OutOfMemory, which names the node."""
        tally = _CURRENT.tally
        if tally is not None:
            self._within_limit(tally.take, nbytes)

    def _within_limit(self, ask: Callable[[int], None], nbytes: int) -> None:
        try:
            ask(nbytes)
        except OutOfMemory as error:
            raise OutOfMemory(f"{self._node} (CPUExecutionProvider): {describe(error)}").about(self._node) from None

    def take_texts(self, texts: Sequence[str]) -> None:
        """Account for new strings as `take` does: their bytes and a reference to each. Python shares single characters."""
        if _CURRENT.tally is not None:
            self.take(_REFERENCE * len(texts) + sum(sys.getsizeof(text) for text in texts if len(text) > 1 or text > "\xff"))

    def take_references(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The arrays. As `take`, the bytes of a copy of the references in arrays of texts."""
        if _CURRENT.tally is not None:
            self.take(sum(array.nbytes for array in arrays if array.dtype == object))
        return arrays

    def settle(self, kept: Sequence[Any]) -> None:
        """Raises OutOfMemory where the strings that a loop keeps from trip to trip exceed the limit.

        They are measured only when its bodies have made as many bytes as there is room for: a comparison a trip.
        """
        tally = _CURRENT.tally
        if tally is None or tally.handed_on <= tally.room:
            return
        tally.handed_on = _nbytes(kept, set())
        self._within_limit(tally.require, tally.handed_on)

    # --- arrays of texts
    def empty(self, shape: Sequence[int]) -> Array:
        """An array of objects, without texts yet."""
        self.take(_REFERENCE * prod(shape))
        return np.empty(tuple(shape), object)

    def elements(self, x: Array) -> list[Any]:
        """The elements in flat order."""
        flat = x.reshape(-1)
        if flat.size <= CHEAP:
            found: list[Any] = flat.tolist()
            return found
        return [element for part in self.slices(flat.size, CHEAP) for element in flat[part].tolist()]

    def array(self, texts: Sequence[Any], shape: Sequence[int]) -> Array:
        """The texts as an array."""
        if len(texts) <= CHEAP:
            self.take(_REFERENCE * len(texts))
            return np.fromiter(texts, object, len(texts)).reshape(tuple(shape))
        y = self.empty((len(texts),))
        for part in self.slices(len(texts), CHEAP):
            y[part] = texts[part]
        return y.reshape(tuple(shape))

    def map(self, function: Callable[[list[Any]], Sequence[Any]], x: Array, dtype: Any) -> Array:
        """function of the elements, a slice at a time, as an array of x's shape."""
        flat = x.reshape(-1)
        if _CURRENT.tally is not None and np.dtype(dtype).hasobject:
            self.take(_REFERENCE * x.size)
        if x.size <= ELEMENTS:
            return np.fromiter(function(flat.tolist()), dtype, x.size).reshape(x.shape)
        y = np.empty(x.size, dtype)
        for part in self.slices(x.size):
            y[part] = function(flat[part].tolist())
        return y.reshape(x.shape)

    def pick(self, pool: Array, positions: Array) -> Array:
        """pool[positions], of a pool of objects (n,)."""
        y, flat = self.empty((positions.size,)), positions.reshape(-1)
        for part in self.slices(flat.size, CHEAP):
            y[part] = pool[flat[part]]
        return y.reshape(positions.shape)


class _Work:
    """A call in another thread, as that thread sees it."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], inside: Any, tally: Tally | None) -> None:
        self._function, self._arguments, self._inside, self._tally = function, arguments, inside, tally
        self.done = threading.Event()
        self.results: list[tuple[Any, BaseException | None]] = []

    def __call__(self) -> None:
        _CURRENT.tally = self._tally
        try:
            with self._inside():
                self.results.append((self._function(*self._arguments), None))
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            self.results.append((None, error))
        finally:
            self.done.set()

    def result(self) -> Any:
        result, error = self.results[0]
        if error is not None:
            raise error
        return result


def _nbytes(value: Any, seen: set[int]) -> int:
    """The bytes of texts and of references to them, each text once."""
    if isinstance(value, np.ndarray):
        return value.nbytes + _nbytes(value.reshape(-1).tolist(), seen) if value.dtype == object else 0
    if isinstance(value, list | tuple):
        return _REFERENCE * len(value) + sum(_nbytes(item, seen) for item in value)
    if isinstance(value, str) and id(value) not in seen:
        seen.add(id(value))
        return sys.getsizeof(value)
    return 0


def step_error(node: Node, error: Exception) -> OrtLiteError:
    """Return the error that a run raises for an exception of a Python step."""
    text = describe(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{node} (CPUExecutionProvider): its results do not fit into memory: {text}").about(node)
    return InvalidData(f"{node} (CPUExecutionProvider): {text}").about(node)
