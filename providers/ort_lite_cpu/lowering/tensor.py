"""What a value is inside a program that is being lowered: a Tensor over a Buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_lite.dtypes import Array, DType, itemsize
from ort_lite.record import Record, field
from ort_lite.shapes import product, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.expression import Expression

NATIVE_TYPES: dict[DType, str] = {
    "float32": "f32", "float64": "f64", "float16": "u16", "bfloat16": "u16", "bool": "u8",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64",
}  # fmt: skip
"""Element type -> pointer type of kernels; 16-bit floats travel as integers and are widened by helpers."""

NARROW_TYPES = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn",
    "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
"""Element types that are bits in a byte to kernels: moved, and converted by Cast, QuantizeLinear and DequantizeLinear."""

POINTER_TYPES = NATIVE_TYPES | dict.fromkeys(NARROW_TYPES, "u8")

PARTS: dict[DType, DType] = {"complex64": "float32", "complex128": "float64"}
"""Element types of real and imaginary parts."""

_BITS: dict[int, DType] = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


class Buffer(Record, frozen=False):
    """A piece of memory. `constant` ones are arrays read in place; the others get a place when lowering ends:

    scratch (planned, reused inside one segment) or an array of its own (inputs, outputs, what crosses two segments).
    """

    nbytes: Dim
    constant: Array | None = None
    place: int = -1
    """Index of the array of its own; -1: scratch or constant."""


class Tensor(Record, frozen=False):
    """A value: element type, logical shape, where it lies, and in which order.

    `perm` is the storage order: storage axis k holds logical axis perm[k]; None is the logical order. Storage is contiguous.
    `contents` are the elements where they are known as symbolic integers; `pending` an elementwise expression that no kernel
    has computed yet. A Tensor with contents or pending has no buffer before somebody needs its memory.
    """

    dtype: DType
    shape: Shape
    buffer: Buffer | None = None
    perm: tuple[int, ...] | None = None
    contents: tuple[Dim, ...] | None = None
    pending: Expression | None = None
    name: str = ""
    layouts: dict[tuple[int, ...] | None, Tensor] = field(default_factory=dict)
    """Copies in other storage orders made so far."""
    casts: dict[DType, Tensor] = field(default_factory=dict)
    """Copies in other element types made so far."""
    ranked: bool = True
    """False: not even the rank is known before the run; such a tensor only goes into host steps and out of the program."""

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        return self.size * itemsize(self.dtype)

    @property
    def constant(self) -> Array | None:
        """The array, in logical order, when the value is a constant."""
        return None if self.buffer is None or self.perm is not None else self.buffer.constant

    @property
    def stored_shape(self) -> Shape:
        """Dimensions in storage order."""
        return self.shape if self.perm is None else tuple(self.shape[axis] for axis in self.perm)

    @property
    def native(self) -> str:
        return POINTER_TYPES[self.dtype]


# --- The same memory read as elements of another type. Nobody else makes a Tensor of another type over a buffer.
def reread(x: Tensor, dtype: DType, shape: Shape) -> Tensor:
    """The bytes of x, which is in memory, as a tensor of `dtype` and `shape`. Raises TypeError where those are not as many bytes."""
    made = Tensor(dtype, shape, x.buffer, name=x.name)
    if not same(made.nbytes, x.nbytes):
        raise TypeError(f"{x.name!r} is {x.nbytes} bytes of {x.dtype} {x.shape}; {dtype} {shape} would be {made.nbytes}")
    return made


def bits(x: Tensor) -> Tensor:
    """The elements as unsigned integers of their size, for kernels that only move data; complex128 as pairs of them."""
    dtype = _BITS[min(itemsize(x.dtype), 8)]
    if dtype == x.dtype:
        return x
    if itemsize(x.dtype) == 16:
        return reread(x, dtype, (*x.shape, 2))
    return Tensor(dtype, x.shape, x.buffer, x.perm, name=x.name)


def pairs(x: Tensor) -> Tensor:
    """Complex numbers in memory as twice as many floats: the real part, then the imaginary one."""
    return reread(x, PARTS[x.dtype], (*x.shape, 2))


def channels_last(rank: int) -> tuple[int, ...]:
    """The storage order (N, spatial axes, C) of an activation whose logical order is (N, C, spatial axes)."""
    return (0, *range(2, rank), 1)


def as_channels_last(x: Tensor) -> Tensor:
    """x (N, spatial axes, C), in memory, as a tensor (N, C, spatial axes) that is stored in that order."""
    return Tensor(x.dtype, (x.shape[0], x.shape[-1], *x.shape[1:-1]), x.buffer, channels_last(len(x.shape)))
