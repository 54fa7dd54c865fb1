"""The packing kernels from Python: arrays in, offsets out. The kernels are compiled or loaded when first called."""

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
    """The spec under which a function of `packing` is compiled: int64 arguments, int64 result."""
    return Spec.plain(kernel, f"i64({','.join(['i64'] * kernel.__code__.co_argcount)})")


@cache
def compiled(kernel: Callable[..., int], compile: str = WAIT) -> Callable[..., int]:
    """`compile`: see `ort_lite.native.missing`."""
    (address,) = load([spec(kernel)], compile=compile)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * kernel.__code__.co_argcount)(address)


class Hints:
    """Knowledge from packing some sizes, for other sizes of the same lifetimes. Each attribute is replaced, never changed:
    many threads may read it.
    """

    __slots__ = ("near", "orders", "used")

    def __init__(self) -> None:
        self.near: Words | None = None
        """The table of `Blocks.near`, once it was asked for."""
        self.orders: tuple[Words, ...] = ()
        """Orders of first fit that were good before."""
        self.used = False
        """Whether sizes were packed before."""


class Blocks:
    """Sizes, half-open lifetimes [start, end) and alignments of n blocks, as the kernels want them.

    Times may be any integers: only their order counts, so they become the positions of the distinct starts; `lifetimes` has
    them as they came. Raises ValueError where the lengths differ or a lifetime is empty.
    """

    def __init__(self, size: Any, start: Any, end: Any, align: Any = None, compile: str = WAIT) -> None:
        """`compile`: whether kernels that are missing may be compiled, see `ort_lite.native.missing`."""
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
                kept.flags.writeable = False  # blocks of other sizes have them too
        self.lifetimes = born, gone
        self.hints = Hints()

    def of(self, size: Words) -> "Blocks":
        """Blocks of other sizes with the same lifetimes, alignments and hints. O(1)."""
        made = Blocks.__new__(Blocks)
        made.__dict__.update(self.__dict__)
        made.size = size
        return made

    def by_start(self) -> Words:
        """The order of starts; of those that start together by number. O(n log n)."""
        return np.argsort(self.start, kind="stable").astype(np.int64, copy=False)

    def by_size(self) -> Words:
        """The order of sizes, largest first; equal ones by number. O(n log n)."""
        return np.argsort(-self.size, kind="stable").astype(np.int64, copy=False)

    def near(self) -> Words | None:
        """The table of neighbours that `first_fit` takes. It depends on the lifetimes alone. O(n), once.

        None for very many blocks, which `first_fit` places without one.
        """
        if self.n < wide.WIDE and self.hints.near is None:
            self.hints.near = table(self.start, self.end)
        return self.hints.near

    def place(self, order: Any, capacity: int = packing.LIMIT) -> Words:
        """The offsets of a first fit in an order of all blocks, -1 where one does not fit. Raises ValueError for no such order."""
        wanted = np.ascontiguousarray(order, np.int64)
        if wanted.shape != (self.n,) or (np.sort(wanted) != np.arange(self.n)).any():
            raise ValueError(f"expected an order of {self.n} blocks: every number from 0 to {self.n - 1} once")
        return self.first_fit(wanted, self.near(), capacity)[0]

    def first_fit(self, order: Words, near: Words | None = None, capacity: int = packing.LIMIT) -> tuple[Words, int]:
        """(offset of each block, or -1 where it does not fit `capacity`; peak, or minus the number of such blocks).

        Nobody looks whether `order` has every block once: see `place`.
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
        room, total = self._listed
        offset, scratch = _words(self.n), _words(wide.first_fit_wide_words(total))
        problem = (order, self.n, self.size, self.start, self.end, self.align)
        return offset, self._call(wide.first_fit_wide, *problem, self.times, room, total, capacity, offset, scratch)

    @cached_property
    def _listed(self) -> tuple[Words, int]:
        room = _words(wide.RANGES)
        return room, self._call(wide.count_listed, self.n, self.start, self.end, self.times, room)

    def improve(self, order: Words, offset: Words, peak: int, near: Words | None, goal: int, steps: int, state: Words) -> int:
        """Local search from a first fit without misfits: `search.improve`. Writes to order, offset and state.

        Where its kernel is missing and may not be compiled, the first fit stays.
        """
        from ort_lite.memory.planning import search

        fit = packing.first_fit_words(self.n)
        scratch = _words(search.search_words(self.n, fit))
        problem = (order, self.n, self.size, self.start, self.end, self.align, near)
        try:
            return self._call(search.improve, *problem, peak, goal, steps, state, offset, scratch)
        except KernelMissing:
            return peak

    def lower_bound(self) -> int:
        """The most bytes that are alive at once. O(n)."""
        return most_alive(self.size, self.start, self.end, self.times)

    def _call(self, kernel: Callable[..., int], *arguments: Words | int | None) -> int:
        """Calls a kernel; arrays go as their addresses, None as null. They live until it returns: `arguments` holds them."""
        entry = compiled(kernel, self._compile)
        return entry(*(a if isinstance(a, int) else 0 if a is None else a.ctypes.data for a in arguments))


def _words(count: int) -> Words:
    return np.empty(count, np.int64)
