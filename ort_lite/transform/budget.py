"""The budget of transforms that compute constants: how many bytes they may make of a model, and how much work that may be.

A model of 200 bytes can ask for constants of gigabytes. Budgets are counted in bytes and elements, not in seconds, so that the same
model becomes the same graph on every machine. What exceeds the budget stays in the graph and is computed by the run.
"""

from math import prod
from typing import Any

import numpy as np

NEW_BYTES = 256 << 20
"""Bytes of new arrays that transforms may make, besides PER_WEIGHT times those of the model's own weights."""
FILLED_BYTES = 1 << 30
"""The same for views of constants, which take no memory before a kernel packs them."""
LARGEST_VIEW = 512 << 20
"""Bytes that one view may stand for, besides those that its operands hold. The largest weight of VGG-19 has 411 MB."""
WORK = 1 << 27
"""Elements that folded nodes may read and write, besides WORK_PER_WEIGHT times the bytes of the weights. About a second."""
LARGEST_WORK = 1 << 25
"""Elements that one folded node may read and write, besides WORK_PER_WEIGHT times the bytes that its operands hold."""
PER_WEIGHT, WORK_PER_WEIGHT = 4, 16


class OverBudget(Exception):
    """A transform would make more bytes of constants than the budget has left. The text says how many."""


class Budget:
    """The remaining bytes for transforms of one graph and its bodies, whose weights have `weights` bytes."""

    def __init__(self, weights: int) -> None:
        self.new_bytes = NEW_BYTES + PER_WEIGHT * weights
        self.filled_bytes = FILLED_BYTES + PER_WEIGHT * weights
        self.work = WORK + WORK_PER_WEIGHT * weights

    def spend(self, nbytes: int) -> None:
        """Count a new array. Raises OverBudget if there are not as many bytes left."""
        if why := self.refusal(nbytes, 0, 0):
            raise OverBudget(why)

    def refusal(self, nbytes: int, work: int, held: int) -> str:
        """Why a new array is not within the budget, or "" once it is counted: its bytes, and the elements that are read and written for
        it. `held`: the bytes that the operands really hold.
        """
        most = min(self.work, LARGEST_WORK + WORK_PER_WEIGHT * held)
        if work > most:
            return f"folding it reads and writes {work} elements, more than the {most} that are left"
        if nbytes > self.new_bytes:
            return f"its {nbytes} bytes are more than the {self.new_bytes} that are left for new constants"
        self.new_bytes -= nbytes
        self.work -= work
        return ""

    def refusal_of_view(self, nbytes: int, held: int) -> str:
        """The same of a new view, for the bytes that it stands for."""
        most = min(self.filled_bytes, LARGEST_VIEW + held)
        if nbytes > most:
            return f"its {nbytes} bytes are more than the {most} that are left for views of constants"
        self.filled_bytes -= nbytes
        return ""

    def affords(self, nbytes: int) -> bool:
        """True if there are as many bytes left for new constants. Transforms ask before they compute a large one."""
        return nbytes <= self.new_bytes


def bytes_in_memory(array: Any) -> int:
    """Bytes of memory behind an array: a broadcast view of one element holds one element, and a dropped constant none."""
    if not isinstance(array, np.ndarray):
        return 0
    if array.flags.c_contiguous:
        return array.nbytes
    elements = prod(size for size, stride in zip(array.shape, array.strides, strict=True) if stride)
    return int(elements * array.itemsize)
