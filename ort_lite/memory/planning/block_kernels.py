"""A Python interface to the packing kernels: arrays in, offsets out. Kernels are compiled or loaded on first use."""

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from ort_lite.errors import KernelMissing
from ort_lite.memory.planning import packing, wide
from ort_lite.memory.planning.neighbours import Words, most_alive, table
from ort_lite.native.loader import load
from ort_lite.native.missing import WAIT
from ort_lite.native.spec import Spec


def spec(kernel: Callable[..., int]) -> Spec:
    """Return the spec for compiling a function of `packing`: int64 arguments, int64 result."""
    return Spec.plain(kernel, f"i64({','.join(['i64'] * kernel.__code__.co_argcount)})")


@cache
def compile_kernel(kernel: Callable[..., int], compile: str = WAIT) -> Callable[..., int]:
    """Compile or load a kernel and return it as a Python callable. `ort_lite.native.missing` explains `compile`."""
    (address,) = load([spec(kernel)], compile=compile)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * kernel.__code__.co_argcount)(address)


class Hints:
    """Results of packing that help with other sizes of the same lifetimes.

    Threads read them concurrently, so an attribute is replaced and never modified.
    """

    __slots__ = ("near", "orders", "used")

    def __init__(self) -> None:
        self.near: Words | None = None
        """The table of `Blocks.near`, once computed."""
        self.orders: tuple[Words, ...] = ()
        """Orders for first fit that were good for earlier sizes."""
        self.used = False
        """True once any sizes were packed."""


class Blocks:
    """Sizes, half-open lifetimes [start, end) and alignments of n blocks, as the kernels need them.

    Times may be any integers. Only their order matters, so each becomes an index into the distinct start times; `lifetimes` has the
    originals. Raises ValueError if the lengths differ or a lifetime is empty.
    """

    def __init__(self, size: Any, start: Any, end: Any, align: Any = None, compile: str = WAIT) -> None:
        """`compile` says if missing kernels may be compiled, see `ort_lite.native.missing`."""
        self.n, self._compile = len(size), compile
        self.size = np.ascontiguousarray(size, np.int64)
        born, gone = np.asarray(start, np.int64), np.asarray(end, np.int64)
        if not self.size.shape == born.shape == gone.shape == (self.n,):
            raise ValueError(f"sizes {self.size.shape}, starts {born.shape}, ends {gone.shape}: expected equal lengths")
        if (born >= gone).any():
            raise ValueError(f"block {int(np.argmax(born >= gone))} has an empty lifetime, expected start < end")
        moments = np.array(sorted(set(born.tolist())), np.int64)  # np.unique would import numpy.ma
        self.times = len(moments)
        self.start: Words = np.searchsorted(moments, born).astype(np.int64)
        self.end: Words = np.searchsorted(moments, gone).astype(np.int64)
        self.align = None if align is None else np.array(align, np.int64)
        for kept in (self.start, self.end, self.align):
            if kept is not None:
                kept.flags.writeable = False  # shared with blocks of other sizes
        self.lifetimes = born, gone
        self.hints = Hints()

    def dump(self) -> bytes:
        """Return what was computed from the lifetimes, for `restore`."""
        near = self.near()
        words = [np.array([self.times, near is not None]), self.start, self.end, *(() if near is None else (near,))]
        return np.concatenate(words).astype(np.int64).tobytes()

    @classmethod
    def restore(cls, start: Any, end: Any, align: Any, dumped: bytes, compile: str = WAIT) -> "Blocks":
        """Return blocks of the size 0 with these lifetimes, which are not read: `dumped` is what `dump` of such blocks returned."""
        made, n = cls.__new__(cls), len(start)
        words: Words = np.frombuffer(dumped, np.int64)
        if len(words) < 2 or len(words) < 2 + (4 if words[1] else 2) * n:
            raise ValueError(f"{len(words)} numbers of {n} blocks")
        align.flags.writeable = False
        made.n, made._compile, made.size, made.align, made.lifetimes = n, compile, np.zeros(n, np.int64), align, (start, end)
        made.times, made.start, made.end, made.hints = int(words[0]), words[2 : 2 + n], words[2 + n : 2 + 2 * n], Hints()
        if words[1]:
            made.hints.near = words[2 + 2 * n :]
        return made

    def of(self, size: Words) -> "Blocks":
        """Return blocks of other sizes with the same lifetimes, alignments and hints. O(1)."""
        made = Blocks.__new__(Blocks)
        made.__dict__.update(self.__dict__)
        made.size = size
        return made

    def by_start(self) -> Words:
        """Return the block numbers sorted by start, then by number. O(n log n)."""
        return np.argsort(self.start, kind="stable").astype(np.int64, copy=False)

    def by_size(self) -> Words:
        """Return the block numbers sorted by size, largest first, then by number. O(n log n)."""
        return np.argsort(-self.size, kind="stable").astype(np.int64, copy=False)

    def near(self) -> Words | None:
        """Return the table of neighbours for `first_fit`, which depends only on the lifetimes. O(n), once.

        None for very many blocks, which `first_fit` places without a table.
        """
        if self.n < wide.WIDE and self.hints.near is None:
            self.hints.near = table(self.start, self.end)
        return self.hints.near

    def place(self, order: Any, capacity: int = packing.LIMIT) -> Words:
        """Return the offsets of a first fit in `order`, -1 for a block that does not fit.

        Raises ValueError if `order` does not have every block exactly once.
        """
        wanted = np.ascontiguousarray(order, np.int64)
        if wanted.shape != (self.n,) or (np.sort(wanted) != np.arange(self.n)).any():
            raise ValueError(f"expected an order of {self.n} blocks: every number from 0 to {self.n - 1} once")
        return self.first_fit(wanted, self.near(), capacity)[0]

    def first_fit(self, order: Words, near: Words | None = None, capacity: int = packing.LIMIT) -> tuple[Words, int]:
        """Return (offsets, peak): an offset per block, -1 if it does not fit `capacity`.

        If blocks do not fit, the second item is minus their number. `order` is not checked; `place` does that.
        """
        if self.n >= wide.WIDE:
            return self._first_fit_wide(order, capacity)
        offset, scratch = _words(self.n), _words(packing.first_fit_words(self.n))
        peak = self._call(
            packing.first_fit,
            *(order, self.n, self.size, self.start, self.end, self.align, near, capacity, self.n, offset, scratch),
        )
        return offset, peak

    def _first_fit_wide(self, order: Words, capacity: int) -> tuple[Words, int]:
        room, total = self._ranges
        offset, scratch = _words(self.n), _words(wide.first_fit_wide_words(total))
        problem = (order, self.n, self.size, self.start, self.end, self.align)
        return offset, self._call(wide.first_fit_wide, *problem, self.times, room, total, capacity, offset, scratch)

    @cached_property
    def _ranges(self) -> tuple[Words, int]:
        room = _words(wide.RANGES)
        return room, self._call(wide.count_per_range, self.n, self.start, self.end, self.times, room)

    def improve(self, order: Words, offset: Words, peak: int, near: Words | None, goal: int, steps: int, state: Words) -> int:
        """Run the local search of `order_search.improve` from a complete first fit. Overwrites order, offset and state.

        If its kernel is missing and may not be compiled, the first fit stays.
        """
        from ort_lite.memory.planning import order_search

        fit = packing.first_fit_words(self.n)
        scratch = _words(order_search.search_words(self.n, fit))
        problem = (order, self.n, self.size, self.start, self.end, self.align, near)
        try:
            return self._call(order_search.improve, *problem, peak, goal, steps, state, offset, scratch)
        except KernelMissing:
            return peak

    def lower_bound(self) -> int:
        """Return the most bytes in use at once. O(n)."""
        return most_alive(self.size, self.start, self.end, self.times)

    def _call(self, kernel: Callable[..., int], *arguments: Words | int | None) -> int:
        """Call a kernel with arrays as addresses and None as null. `arguments` keeps the arrays alive until it returns."""
        entry = compile_kernel(kernel, self._compile)
        return entry(*(a if isinstance(a, int) else 0 if a is None else a.ctypes.data for a in arguments))


def _words(count: int) -> Words:
    return np.empty(count, np.int64)
