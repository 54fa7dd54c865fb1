"""A bound program whose long instructions are cut into slices (see `run.slices`): what a run with RunOptions goes through.

Results are the same bits: parts share outputs, and no sum is cut in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native import load
from ort_lite.native.extents import contract
from ort_lite.record import Record
from ort_lite_cpu.lowering.lowered import Instruction
from ort_lite_cpu.run.slices import EACH, ENTRY, FIRST, PARTS, SLICED, STRIDE, WORDS
from ort_lite_cpu.types import WIDTHS

LONG_NS = 4_000_000
"""Estimated work of a thread from which on an instruction is cut, and that of a slice."""
MOST = 4096
"""Slices of an instruction."""

_BY_PART = [
    "attention.attend",
    "attention.attend_few",
    "byte_dots.dot_gemm",
    "convolution.conv",
    "four_bits.four_bits",
    "gemm.matmul",
    "integer.integer_gemm",
    "integer_convolution.dot_conv",
    "integer_convolution.integer_conv",
    "linear_attention.recur",
    "pixels.conv_pixels",
    "planes.depthwise_planes",
    "planes.pointwise",
    "svm.vote",
    "trees.walk",
    "winograd.winograd",
    "words.count_words",
]
"""Kernels whose parts have memory of their own that begins at `part` times its size. Others that have such memory are not cut."""


class Sliced(Record, eq=False):
    """Address of the instructions to run instead, and the arrays behind it."""

    address: int
    kept: Sequence[Array]


def cut(table: Array, work: Array, instructions: Sequence[Instruction], descriptors: Array, starts: Array) -> Sliced:
    """`work`: estimated nanoseconds of each instruction; `descriptors` are those of all, `starts` where each begins. O(long ones)."""
    made = table.copy()
    kept = [made]
    for k in np.flatnonzero(work >= LONG_NS).tolist():
        each, instruction = int(table[k, 2]), instructions[k]
        slices = _slices(int(work[k]) // each)
        if slices < 2 or instruction.jump or int(table[k, 3]) not in (0, 1):
            continue
        end = int(starts[k + 1]) if k + 1 < len(starts) else len(descriptors)
        shifts = _shifts(instruction, descriptors[int(starts[k]) : end], each)
        if shifts is None:
            continue
        own = np.repeat(descriptors[None, int(starts[k]) : end], slices, 0)
        for operand, nbytes in shifts.items():
            own[:, 2 * operand + 1] -= nbytes * np.arange(slices)
        record = np.zeros(WORDS, np.int64)
        record[ENTRY], record[EACH], record[PARTS] = table[k, 0], each, each * slices
        record[FIRST], record[STRIDE] = own.ctypes.data, own.strides[0]
        made[k] = _entry(), record.ctypes.data, each, slices
        kept += [own, record]
    return Sliced(made.ctypes.data, kept)


@cache
def _entry() -> int:
    return load([SLICED])[0]


def _slices(each_ns: int) -> int:
    """A power of two: products are cut in both directions."""
    found = 1
    while found * LONG_NS < each_ns and found < MOST:
        found *= 2
    return found


def _shifts(instruction: Instruction, descriptor: Array, parts: int) -> dict[int, int] | None:
    """Operands of which each part has memory of its own, with the bytes of a round's parts. None: who knows where a part's lies."""
    function = instruction.spec.function
    if function is None:
        return {}  # a fused loop: parts share its elements
    made, count = contract(function), len(instruction.operands)
    numbers = descriptor[2 * count :].tolist()
    scalars = [0.0 if isinstance(value, float) else number for value, number in zip(instruction.scalars, numbers, strict=True)]
    statics = dict(instruction.spec.statics)
    one, two = (made.reaches(scalars, statics, parts) for parts in (1, 2))
    shifts = {}
    for k, (less, more) in enumerate(zip(one, two, strict=True)):
        if less == more or instruction.operands[k] is None:
            continue
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        if name not in _BY_PART or not isinstance(less, int) or not isinstance(more, int):
            return None
        shifts[k] = parts * (more - less) * WIDTHS[instruction.spec.types[k]]
    return shifts
