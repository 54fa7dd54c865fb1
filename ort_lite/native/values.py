"""Arithmetic on LLVM values, for functions marked `@arithmetic`. Imports llvmlite.ir."""

from typing import Any, Union

from llvmlite import ir

from ort_lite.native.marks import CONTRACT

Number = Union["LlvmValue", int, float]


class LlvmValue:
    """A scalar of one of the language's types. Operators need equal types; Python numbers take the value's type.

    Integers wrap. Comparisons give b1 and are False for NaN, except `differs`. Floats may be contracted to fma.
    """

    __slots__ = ("builder", "name", "raw")

    def __init__(self, builder: Any, raw: Any, name: str) -> None:
        self.builder, self.raw, self.name = builder, raw, name

    # --- Types
    @property
    def is_float(self) -> bool:
        """True for a floating-point number."""
        return self.name[0] == "f"

    @property
    def is_signed(self) -> bool:
        """True for a signed integer."""
        return self.name[0] == "i"

    @property
    def width(self) -> int:
        """The width in bits."""
        return int(self.name[1:])

    def const(self, number: Any, name: str = "") -> "LlvmValue":
        """Return a constant of this value's type, or of the named one."""
        name = name or self.name
        return LlvmValue(self.builder, ir.Constant(llvm_type(name), number), name)

    def _other(self, other: Number) -> Any:
        if isinstance(other, LlvmValue):
            if other.name != self.name:
                raise TypeError(f"{self.name} and {other.name} in one operation")
            return other.raw
        return ir.Constant(llvm_type(self.name), other)

    def _with(self, raw: Any, name: str = "") -> "LlvmValue":
        return LlvmValue(self.builder, raw, name or self.name)

    # --- Operators
    def _binary(self, kind: str, left: Any, right: Any) -> "LlvmValue":
        if self.is_float:
            return self._with(getattr(self.builder, "f" + kind)(left, right, flags=CONTRACT))
        return self._with(getattr(self.builder, kind)(left, right))

    def __add__(self, other: Number) -> "LlvmValue":
        return self._binary("add", self.raw, self._other(other))

    def __sub__(self, other: Number) -> "LlvmValue":
        return self._binary("sub", self.raw, self._other(other))

    def __mul__(self, other: Number) -> "LlvmValue":
        return self._binary("mul", self.raw, self._other(other))

    def __truediv__(self, other: Number) -> "LlvmValue":
        return self._binary("div", self.raw, self._other(other))

    def __radd__(self, other: Number) -> "LlvmValue":
        return self._binary("add", self._other(other), self.raw)

    def __rsub__(self, other: Number) -> "LlvmValue":
        return self._binary("sub", self._other(other), self.raw)

    def __rmul__(self, other: Number) -> "LlvmValue":
        return self._binary("mul", self._other(other), self.raw)

    def __rtruediv__(self, other: Number) -> "LlvmValue":
        return self._binary("div", self._other(other), self.raw)

    def __neg__(self) -> "LlvmValue":
        return self._with(self.builder.fneg(self.raw)) if self.is_float else 0 - self

    def __and__(self, other: Number) -> "LlvmValue":
        return self._with(self.builder.and_(self.raw, self._other(other)))

    def __or__(self, other: Number) -> "LlvmValue":
        return self._with(self.builder.or_(self.raw, self._other(other)))

    def __xor__(self, other: Number) -> "LlvmValue":
        return self._with(self.builder.xor(self.raw, self._other(other)))

    def __lshift__(self, count: Number) -> "LlvmValue":
        return self._with(self.builder.shl(self.raw, self._other(count)))

    def __rshift__(self, count: Number) -> "LlvmValue":
        """Shift right: arithmetic for signed integers, logical for unsigned ones."""
        shift = self.builder.ashr if self.is_signed else self.builder.lshr
        return self._with(shift(self.raw, self._other(count)))

    # --- Comparisons
    def _compare(self, kind: str, other: Number) -> "LlvmValue":
        if self.is_float:
            return self._with(self.builder.fcmp_ordered(kind, self.raw, self._other(other)), "b1")
        compare = self.builder.icmp_signed if self.is_signed else self.builder.icmp_unsigned
        return self._with(compare(kind, self.raw, self._other(other)), "b1")

    def __lt__(self, other: Number) -> "LlvmValue":
        return self._compare("<", other)

    def __le__(self, other: Number) -> "LlvmValue":
        return self._compare("<=", other)

    def __gt__(self, other: Number) -> "LlvmValue":
        return self._compare(">", other)

    def __ge__(self, other: Number) -> "LlvmValue":
        return self._compare(">=", other)

    def equals(self, other: Number) -> "LlvmValue":
        """Return a b1 that is true if the values are equal."""
        return self._compare("==", other)

    def differs(self, other: Number) -> "LlvmValue":
        """Return a b1 that is true if the values differ; always true for NaN, even against itself."""
        if self.is_float:
            return self._with(self.builder.fcmp_unordered("!=", self.raw, self._other(other)), "b1")
        return self._compare("!=", other)

    def choose(self, yes: "LlvmValue", no: Number) -> "LlvmValue":
        """Return `yes` where this b1 is true, else `no`."""
        return yes._with(self.builder.select(self.raw, yes.raw, yes._other(no)))

    # --- Functions
    def bits(self) -> "LlvmValue":
        """Return the float's bit pattern as a signed integer."""
        return self._with(self.builder.bitcast(self.raw, ir.IntType(self.width)), f"i{self.width}")

    def from_bits(self) -> "LlvmValue":
        """Return the float whose bit pattern is this integer."""
        return self._with(self.builder.bitcast(self.raw, llvm_type(f"f{self.width}")), f"f{self.width}")

    def intrinsic(self, name: str, *others: Number) -> "LlvmValue":
        """Return llvm.<name> of this value and others of its type."""
        arguments = [self.raw, *map(self._other, others)]
        kind = self.raw.type
        function = self.builder.module.declare_intrinsic(
            f"llvm.{name}", (kind,), ir.FunctionType(kind, [kind] * len(arguments))
        )
        return self._with(self.builder.call(function, arguments, fastmath=CONTRACT if self.is_float else ()))

    def scale(self, n: "LlvmValue") -> "LlvmValue":
        """Return the float times 2**n, rounded once. Only targets with AVX-512 have an instruction for it."""
        kinds = self.raw.type, n.raw.type
        function = self.builder.module.declare_intrinsic("llvm.ldexp", kinds, ir.FunctionType(kinds[0], kinds))
        return self._with(self.builder.call(function, (self.raw, n.raw)))

    def libm(self, name: str, *others: Number) -> "LlvmValue":
        """Return the result of the C library's function: for "exp", `expf` if this is f32."""
        arguments = [self.raw, *map(self._other, others)]
        symbol = name + ("f" if self.name == "f32" else "")
        kind = ir.FunctionType(self.raw.type, [self.raw.type] * len(arguments))
        function = self.builder.module.globals.get(symbol) or ir.Function(self.builder.module, kind, symbol)
        return self._with(self.builder.call(function, arguments))

    def largest(self, other: Number) -> "LlvmValue":
        """Return the larger value; NaN if either is NaN."""
        return self.intrinsic("maximum" if self.is_float else "smax" if self.is_signed else "umax", other)

    def smallest(self, other: Number) -> "LlvmValue":
        """Return the smaller value; NaN if either is NaN."""
        return self.intrinsic("minimum" if self.is_float else "smin" if self.is_signed else "umin", other)

    def to(self, name: str) -> "LlvmValue":
        """Return the value converted to another type; floats to integers as by `lang.cast`."""
        if name == self.name:
            return self
        if name == "b1":
            return self.differs(0)
        kind = llvm_type(name)
        if self.is_float:
            return self._float_to_integer(name) if name[0] != "f" else self._resize_float(name)
        if name[0] == "f":
            convert = self.builder.sitofp if self.is_signed else self.builder.uitofp
        elif self.name == "b1" or int(name[1:]) > self.width:
            convert = self.builder.sext if self.is_signed else self.builder.zext
        elif int(name[1:]) == self.width:
            return self._with(self.raw, name)
        else:
            convert = self.builder.trunc
        return self._with(convert(self.raw, kind), name)

    def _resize_float(self, name: str) -> "LlvmValue":
        convert = self.builder.fpext if name == "f64" else self.builder.fptrunc
        return self._with(convert(self.raw, llvm_type(name)), name)

    def _float_to_integer(self, name: str) -> "LlvmValue":
        """Truncate to the smaller of i32 and i64 that x86 code would use, then cut to the type's bits."""
        if name == "u64":
            top = 2.0**63
            large = self >= top
            return (large.choose(self - top, self)._float_to_integer("i64") ^ large.sign_bit("i64")).to("u64")
        bits = 64 if name in ("i64", "u32") else 32
        limit = 2.0 ** (bits - 1)
        # fptosi of an out-of-range value is poison, which a later select cannot undo.
        fits = (self >= -limit) & (self < limit)
        if bits == 32 and self.name == "f64":
            fits = (self > -limit - 1.0) & (self < limit)
        safe = fits.choose(self, 0.0)
        whole = LlvmValue(self.builder, self.builder.fptosi(safe.raw, ir.IntType(bits)), f"i{bits}")
        return fits.choose(whole, -(2 ** (bits - 1))).to(name)

    def sign_bit(self, name: str) -> "LlvmValue":
        """Return the smallest value of a signed type where this b1 is true, else 0."""
        return self.choose(self.const(-(2 ** (int(name[1:]) - 1)), name), 0)


def llvm_type(name: str) -> Any:
    """Return llvmlite's type of a scalar of the language."""
    if name == "f32":
        return ir.FloatType()
    return ir.DoubleType() if name == "f64" else ir.IntType(int(name[1:]))
