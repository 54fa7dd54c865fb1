"""The last steps of a product of bytes, while its sums are in registers: sums as they are, floats, or bytes again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.lang import Ptr, StaticInt
from ort_lite_cpu.kernels.gemm.vectors import Vectors

SUMS, FLOATS, BIASED_FLOATS, UNSIGNED_BYTES, SIGNED_BYTES = range(5)
"""The forms of a result: int32; float32, sum * factor or sum * factor + bias; uint8 or int8, sum * factor + zero, saturated."""
FORMS = {"int32": SUMS, "float32": FLOATS, "uint8": UNSIGNED_BYTES, "int8": SIGNED_BYTES}
"""The form of a result by its element type."""


class Rescaling(NamedTuple):
    """The conversion of sums to the result."""

    form: StaticInt
    spread: int
    """1 if there is a factor for each column, 0 if there is one for all."""
    zero: float
    """The zero point of bytes."""


class Ending(NamedTuple):
    """A `Rescaling`, and where its factors (n,) or (1,) and its bias (n,) begin for a panel."""

    factors: Ptr
    bias: Ptr
    spread: int
    zero: float


class IntegerEpilogue:
    """Emits the last steps for vectors of sums, whose factors and bias stay in registers.

    NaN becomes the least byte, numbers are rounded half to even: bit for bit what `elementwise.quantize` makes of the sums.
    """

    def __init__(self, sums: Vectors, ending: Any, form: int, vectors: int, n: Any) -> None:
        ir, builder = sums.ir, sums.builder
        self.sums, self.form, self.builder = sums, form, builder
        self.floats = Vectors(builder, ir.FloatType(), sums.lanes)
        self.masks = sums.masks(n, vectors)
        if form == SUMS:
            return
        one = self.floats.splat(builder.load(ending.factors))
        each = builder.icmp_signed("!=", ending.spread, sums.integer(0))
        pointer = builder.select(each, ending.factors, builder.inttoptr(sums.integer(0), ending.factors.type))
        inside = [builder.and_(mask, sums.splat_bit(each)) for mask in self.masks]
        self.factors = [builder.select(each, self.floats.load(pointer, j * sums.lanes, inside[j]), one) for j in range(vectors)]
        if form == BIASED_FLOATS:
            self.bias = [self.floats.load(ending.bias, j * sums.lanes, self.masks[j]) for j in range(vectors)]
        if form in (UNSIGNED_BYTES, SIGNED_BYTES):
            low = 0.0 if form == UNSIGNED_BYTES else -128.0
            self.low, self.high = (
                self.floats.splat(builder.fsub(ir.Constant(ir.FloatType(), limit), ending.zero)) for limit in (low, low + 255)
            )
            self.zero = sums.splat(builder.fptosi(ending.zero, sums.element))

    def finish(self, total: Any, j: int) -> Any:
        """Return the elements of the result for sums of vector j of a panel."""
        builder = self.builder
        if self.form == SUMS:
            return total
        value = builder.sitofp(total, self.floats.type)
        value = builder.fmul(value, self.factors[j])
        if self.form == BIASED_FLOATS:
            return builder.fadd(value, self.bias[j])
        if self.form == FLOATS:
            return value
        value = builder.select(builder.fcmp_ordered(">", value, self.low), value, self.low)
        value = builder.select(builder.fcmp_ordered("<", value, self.high), value, self.high)
        # Adding 1.5 * 2**23 leaves the rounded integer in the low bits: quicker than rounding and then converting.
        magic = self.sums.ir.Constant(self.sums.type, [0x4B400000] * self.sums.lanes)
        whole = builder.bitcast(self.floats.add(value, self.floats.constant(12582912.0)), self.sums.type)
        byte = self.sums.ir.VectorType(self.sums.ir.IntType(8), self.sums.lanes)
        return builder.trunc(builder.add(builder.sub(whole, magic), self.zero), byte)

    def store(self, totals: Sequence[Any], target: Any, whole: bool) -> None:
        """Write the elements of a row for its vectors of sums. Unless `whole`, those beyond n are left as they are."""
        for j, total in enumerate(totals):
            place = self.builder.gep(target, [self.sums.integer(j * self.sums.lanes)])
            self.sums.store_as(self.finish(total, j), place, None if whole else self.masks[j])
