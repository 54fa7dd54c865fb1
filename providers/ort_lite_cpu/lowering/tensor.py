"""Values inside a program that is being lowered: a Tensor over a Buffer, or an Expression that has none yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ort_lite.dtypes import Array, DType, itemsize
from ort_lite.graph import Node
from ort_lite.record import Record, field
from ort_lite.shapes import product, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.types import BITS, PARTS, POINTER_TYPES


class Buffer(Record, frozen=False):
    """A piece of memory. `constant` ones are arrays read in place; the others get a place when lowering ends:

    scratch (planned, reused inside one segment) or an array of its own (inputs, outputs, what crosses two segments).
    """

    nbytes: Dim
    constant: Array | None = None
    place: int = -1
    """The index of its own array; -1 for scratch and constants."""


class Tensor(Record, frozen=False):
    """A value: element type, logical shape, where it lies, and in which order.

    `perm` is the storage order: storage axis k holds logical axis perm[k]; None is the logical order. Storage is contiguous.
    `contents` are the elements where they are known as symbolic integers; `pending` an elementwise expression that no kernel
    has computed yet, `later` another instruction that was put off. A Tensor with contents, pending or later has no buffer before
    somebody needs its memory.
    """

    dtype: DType
    shape: Shape
    buffer: Buffer | None = None
    perm: tuple[int, ...] | None = None
    contents: tuple[Dim, ...] | None = None
    pending: Expression | None = None
    later: DeferredInstruction | None = None
    name: str = ""
    layouts: dict[tuple[int, ...] | None, Tensor] = field(default_factory=dict)
    """Copies in other storage orders made so far."""
    casts: dict[DType, Tensor] = field(default_factory=dict)
    """Copies in other element types made so far."""
    ranked: bool = True
    """False if not even the rank is known before the run; such a tensor only goes into host steps and out of the program."""

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        """The size in bytes, symbolic in free dimensions."""
        return self.size * itemsize(self.dtype)

    @property
    def constant(self) -> Array | None:
        """The array, in logical order, when the value is a constant."""
        return None if self.buffer is None or self.perm is not None else self.buffer.constant

    @property
    def storage_shape(self) -> Shape:
        """The dimensions in storage order."""
        return self.shape if self.perm is None else tuple(self.shape[axis] for axis in self.perm)

    @property
    def native(self) -> str:
        """The type of pointers to its elements in kernels."""
        return POINTER_TYPES[self.dtype]


class Expression(Record, eq=False):
    """`formula` is text in the language of kernels: {0}, {1}, ... are the operands, {s0}, {s1}, ... the scalars.

    Scalars have the type of the first operand's values. `cost` is about how many nanoseconds an element takes,
    apart from the memory that it comes from.
    """

    formula: str
    operands: tuple[Tensor, ...]
    scalars: tuple[float | Dim, ...] = ()
    cost: float = 0.03
    node: Node | None = None
    """The node that the formula computes, for error messages."""


class DeferredInstruction(Protocol):
    """A deferred instruction, since the only reader may do its work as well."""

    def emit(self, y: Tensor) -> None:
        """Emit the instruction, with y as its result, which is needed in memory."""


# --- The same memory read as elements of another type. Nobody else makes a Tensor of another type over a buffer.
def reread(x: Tensor, dtype: DType, shape: Shape) -> Tensor:
    """Return the bytes of x, in memory, as a tensor of `dtype` and `shape`. Raises TypeError if that has another number of bytes."""
    made = Tensor(dtype, shape, x.buffer, name=x.name)
    if not same(made.nbytes, x.nbytes):
        raise TypeError(f"{x.name!r} is {x.nbytes} bytes of {x.dtype} {x.shape}; {dtype} {shape} would be {made.nbytes}")
    return made


def bits(x: Tensor) -> Tensor:
    """Return the elements as unsigned integers of their size, for kernels that only move data; complex128 as pairs of them."""
    dtype = BITS[min(itemsize(x.dtype), 8)]
    if dtype == x.dtype:
        return x
    if itemsize(x.dtype) == 16:
        return reread(x, dtype, (*x.shape, 2))
    return Tensor(dtype, x.shape, x.buffer, x.perm, name=x.name)


def pairs(x: Tensor) -> Tensor:
    """Return complex numbers in memory as twice as many floats: the real part, then the imaginary one."""
    return reread(x, PARTS[x.dtype], (*x.shape, 2))


def channels_last(rank: int) -> tuple[int, ...]:
    """Return the storage order (N, spatial axes, C) of an activation whose logical order is (N, C, spatial axes)."""
    return (0, *range(2, rank), 1)


def as_channels_last(x: Tensor) -> Tensor:
    """Return x (N, spatial axes, C), in memory, as a tensor (N, C, spatial axes) that is stored in that order."""
    return Tensor(x.dtype, (x.shape[0], x.shape[-1], *x.shape[1:-1]), x.buffer, channels_last(len(x.shape)))


# --- What an expression reads
def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Return True if the shapes are equal for all values of symbols."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def leaves_of(tensor: Tensor) -> list[Tensor]:
    """Return the tensors in memory that the expression reads, each once, in order of appearance."""
    if tensor.pending is None:
        return [tensor]
    found: dict[int, Tensor] = {}
    for operand in tensor.pending.operands:
        for leaf in leaves_of(operand):
            found[id(leaf)] = leaf
    return list(found.values())


def buffers_of(tensors: Iterable[Tensor | None]) -> list[Buffer]:
    """Return the buffers of those tensors that have one."""
    return [tensor.buffer for tensor in tensors if tensor is not None and tensor.buffer is not None]


def narrow_operands(tensor: Tensor, size: int) -> list[Tensor]:
    """Return the intermediate values of the expression, of its own shape, with elements of fewer than `size` bytes."""
    found = []
    for operand in () if tensor.pending is None else tensor.pending.operands:
        if operand.pending is not None and same_shape(operand.shape, tensor.shape):
            found += [operand] if itemsize(operand.dtype) < size else narrow_operands(operand, size)
    return found


def storage_order(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the storage order that an expression takes over: its leaves' of the same shape where they agree, else channels last
    where one of them has it, else the logical order.
    """
    orders = {leaf.perm for leaf in leaves_of(tensor) if same_shape(leaf.shape, tensor.shape)}
    if len(orders) == 1:
        return orders.pop()
    last = channels_last(len(tensor.shape)) if len(tensor.shape) > 2 else None
    return last if last in orders else None


def widened_from(tensor: Tensor) -> Tensor | None:
    """Return the bfloat16 that a pending expression makes float32, and nothing else, or None."""
    pending = tensor.pending
    if pending is None or pending.formula != "{0}" or tensor.dtype != "float32":
        return None
    [source] = pending.operands
    return source if source.dtype == "bfloat16" else None


def scalar_constant(tensor: Tensor) -> float | Dim | None:
    """Return the value of a one-element constant, or of known contents, to be handed over as a scalar; else None."""
    if any(not same(dim, 1) for dim in tensor.shape):
        return None
    if tensor.contents is not None:
        return tensor.contents[0]
    if tensor.buffer is not None and tensor.buffer.constant is not None:
        value = tensor.buffer.constant.reshape(-1)[0]
        if tensor.dtype in ("float32", "float64", "float16"):
            return float(value)
        if tensor.dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"):
            return int(value)
    return None
