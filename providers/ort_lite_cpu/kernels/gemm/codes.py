"""Codes of 2, 4 or 8 bits: how weights lie in memory, and the emission of operations on them."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native.lang import Ptr, native, shift
from ort_lite_cpu.kernels.gemm.pack import panels
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.run.kernels import Kernels

WORD = 32
"""The bits of a word, which holds codes of one column in the order of k from its lowest bits."""
AHEAD = 4096
"""The bytes of weights that are prefetched before they are read."""


def columns_together(x: Array, width: int, kernels: Kernels) -> Array:
    """Return (n, r), a row for each column of weights, as panels (ceil(n / width), r, width). O(size)."""
    return panels(np.ascontiguousarray(x).T, width, kernels)


def words(b: Array, width: int, kernels: Kernels) -> Array:
    """Return codes (n, bytes), a multiple of four bytes a column, as panels of words: (ceil(n / width), words, width)."""
    return columns_together(np.ascontiguousarray(b).view("<u4"), width, kernels)


class BlockedProduct(NamedTuple):
    """A product (m, k) @ (k, n) with a right operand whose columns have `blocks` blocks of `size` codes, the first k of which count."""

    m: int
    n: int
    k: int
    blocks: int
    size: int
    """A multiple of the codes of a word."""


class WeightPanel(NamedTuple):
    """A panel of weights: codes (blocks * size * bits / 32, width), scales and zeros (blocks, width)."""

    codes: Ptr
    scales: Ptr
    zeros: Ptr
    blocks: int
    size: int


@native
def weight_panel(b: Ptr, scales: Ptr, zeros: Ptr, number: int, g: BlockedProduct, bits: int, width: int) -> WeightPanel:
    """Return panel `number` of weights."""
    at = number * g.blocks * width
    return WeightPanel(shift(b, at * (g.size * bits // WORD)), shift(scales, at), shift(zeros, at), g.blocks, g.size)


class Codes(Vectors):
    """Emits operations on vectors of float32, and on the codes that become them."""

    def __init__(self, builder: Any, lanes: int, bits: int, lookup: bool) -> None:
        from llvmlite import ir

        super().__init__(builder, ir.FloatType(), lanes)
        self.integers = ir.VectorType(ir.IntType(32), lanes)
        self.bits, self.lookup, self.most, self.middle = bits, lookup, (1 << bits) - 1, 1 << (bits - 1)

    def load_word(self, pointer: Any, at: int) -> Any:
        """Return the words from element `at` on."""
        address = self.builder.bitcast(self.move(pointer, self.integer(at)), self.integers.as_pointer())
        return self.builder.load(address, align=4)

    def prefetch_codes(self, pointer: Any, vectors: int) -> None:
        """Prefetch the words of some vectors, AHEAD of those that lie at the pointer."""
        for line in range(0, vectors * self.lanes * 4, CACHE_LINE):
            self.prefetch(self.move(pointer, self.integer((AHEAD + line) // 4)))

    def load_codes(self, pointer: Any, at: int) -> Any:
        """Return the words from element `at` on, for `code`."""
        held = self.load_word(pointer, at)
        if self.lookup:
            return held
        return self.builder.xor(held, self._each(sum(self.middle << k for k in range(0, WORD, self.bits))))

    def code(self, held: Any, number: int) -> Any:
        """Return code `number` of each word of `load_codes`, less the middle: a number from -`middle` to `middle` - 1.

        Sums of numbers around 0 lose less than sums of numbers from 0 on, from which the middle is subtracted at the end.
        """
        if self.lookup:  # by the lowest four bits of each lane, which saves the conversion
            if number:
                held = self.builder.lshr(held, self._each(self.bits * number))
            kind = self.ir.VectorType(self.element, 16)
            found = self._declare("llvm.x86.avx512.permvar.sf.512", kind, [kind, self.integers])
            table = [float(x % (2 * self.middle) - self.middle) for x in range(16)]
            return self.builder.call(found, [self.ir.Constant(kind, table), held])
        above = WORD - self.bits * (number + 1)
        if above:
            held = self.builder.shl(held, self._each(above))
        return self.builder.sitofp(self.builder.ashr(held, self._each(WORD - self.bits)), self.type)

    def _each(self, value: int) -> Any:
        return self.ir.Constant(self.integers, [value] * self.lanes)

    def reduce(self, operation: str, held: Any) -> Any:
        """Return one integer from those of a vector: their sum ("add"), or the largest unsigned one ("umax")."""
        name = f"llvm.vector.reduce.{operation}.v{self.lanes}i32"
        return self.builder.call(self._declare(name, self.integers.element, [self.integers]), [held])

    def nearest(self, values: Any) -> Any:
        """Return the nearest integers, even ones halfway; the values must fit 32 bits."""
        rounded = self.builder.call(self._declare(f"llvm.rint.{self.name}", self.type, [self.type]), [values])
        return self.builder.fptosi(rounded, self.integers)

    def zeros(self, pointer: Any, at: int) -> Any:
        """Return zero points, which are bytes or floats."""
        held = self.ir.VectorType(pointer.type.pointee, self.lanes)
        values = self.builder.load(self.builder.bitcast(self.move(pointer, self.integer(at)), held.as_pointer()), align=1)
        return values if held == self.type else self.builder.sitofp(self.builder.zext(values, self.integers), self.type)

    def away_from_middle(self, pointer: Any, at: int) -> Any:
        """Return zero points less the middle, as `code` counts."""
        return self.sub(self.zeros(pointer, at), self.constant(self.middle))
