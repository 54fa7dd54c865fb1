"""The kernel language: what a Python function that is compiled to native code may use. Never imports numba.

A kernel is a plain function over pointers, integers and floats:

    @native
    def add(x: Ptr, y: Ptr, z: Ptr, n: int, part: int, parts: int) -> int:
        for i in span(n, part, parts):
            z[i] = x[i] + y[i]
        return OK

Helpers are plain functions too; those that a kernel refers to are compiled with it. Functions marked `@emitter` or `@arithmetic`
have no Python body to compile: the compiler calls them to emit LLVM IR at the place of the call.
"""

from typing import Any

from ort_lite.native.floats import (
    bits,
    ceil,
    copysign,
    erf,
    exp,
    fabs,
    floor,
    fma,
    fmax,
    fmin,
    from_bits,
    isinf,
    isnan,
    log,
    log1p,
    rint,
    sigmoid,
    sqrt,
    tanh,
    trunc,
)
from ort_lite.native.halves import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from ort_lite.native.integers import (
    cast,
    iabs,
    idiv,
    ifloormod,
    imax,
    imin,
    imod,
    like,
    shl,
    shr,
    wadd,
    wmul,
    wneg,
    wsub,
)
from ort_lite.native.libm import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    cosh,
    exp2,
    expm1,
    fmod_trunc,
    log2,
    log10,
    power,
    sinh,
    tan,
)
from ort_lite.native.marks import (
    CONTRACT,
    ELEMENTS,
    REDUCE,
    STRICT,
    SUMS,
    Ptr,
    Static,
    StaticInt,
    arithmetic,
    emitted,
    emitter,
    native,
)
from ort_lite.native.trigonometry import cos, sin

__all__ = [
    "CONTRACT",
    "ELEMENTS",
    "INDEX_OUT_OF_RANGE",
    "OK",
    "RAISED",
    "REDUCE",
    "STRICT",
    "SUMS",
    "Ptr",
    "Static",
    "StaticInt",
    "acos",
    "acosh",
    "address",
    "arithmetic",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bf16_to_f32",
    "bits",
    "cast",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "emitted",
    "emitter",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_f16",
    "fabs",
    "failed",
    "failure_status",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod_trunc",
    "from_bits",
    "from_end",
    "iabs",
    "idiv",
    "ifloormod",
    "imax",
    "imin",
    "imod",
    "isinf",
    "isnan",
    "like",
    "load64",
    "log",
    "log1p",
    "log2",
    "log10",
    "native",
    "null",
    "pointer_f32",
    "pointer_f64",
    "pointer_i8",
    "pointer_i16",
    "pointer_i32",
    "pointer_i64",
    "pointer_u8",
    "pointer_u16",
    "pointer_u32",
    "pointer_u64",
    "power",
    "read_once",
    "rint",
    "select",
    "shift",
    "shl",
    "shr",
    "sigmoid",
    "sin",
    "sinh",
    "span",
    "sqrt",
    "store64",
    "tan",
    "tanh",
    "trunc",
    "wadd",
    "wmul",
    "wneg",
    "wsub",
]

# Status codes. A kernel returns OK or failure_status(code, where).
OK = 0
INDEX_OUT_OF_RANGE = 1
RAISED = 255  # compiled code tried to raise: a bug in the kernel


def failure_status(code: int, detail: int = 0) -> int:
    """Return the status (> 0) of a kernel that found the error `code` at position `detail`, such as the number of a bad index."""
    return code + 256 * detail


failed = failure_status
"""The name in earlier releases."""


@emitter("i64(i64,i64,i64)")
def _share(builder: Any, n: Any, part: Any, parts: Any) -> Any:
    """Return n * part / parts, for part >= 0 and parts > 0."""
    return builder.sdiv(builder.mul(n, part), parts)


def span(n: int, part: int, parts: int) -> range:
    """Return this part's share of range(n): contiguous, in order; sizes differ by at most one."""
    return range(_share(n, part, parts), _share(n, part + 1, parts))


def from_end(i: int, n: int) -> int:
    """Return an ONNX index as a position: negative ones count from the end."""
    return i + n if i < 0 else i


@arithmetic("T(b1,T,T)")
def select(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` if the condition is true, else `no`. Both are evaluated, so that loops vectorise."""
    return condition.choose(yes, no)


# --- Memory
@emitter("*T(*T,i64)")
def shift(builder: Any, x: Any, n: Any) -> Any:
    """Return x advanced by n elements."""
    return builder.gep(x, [n], inbounds=True)


@emitter("T(*T,i64)")
def read_once(builder: Any, x: Any, i: Any) -> Any:
    """Return x[i], by a single load that the compiler may not repeat, so that the checked value is the one that is used.

    It is for elements that determine an address. The memory of a feed, and of a bound output, belongs to the caller, whose threads
    may write to it while a kernel runs. LLVM may repeat a plain load where its value is used, but never an `unordered` one. That
    compiles to the same instruction; only loops around it are not vectorised.
    """
    place = builder.gep(x, [i], inbounds=True)
    width = {"float": 4, "double": 8}.get(str(place.type.pointee)) or place.type.pointee.width // 8
    return builder.load_atomic(place, "unordered", width)


@emitter("i64(*T)")
def address(builder: Any, x: Any) -> Any:
    """Return the pointer as a number."""
    from llvmlite import ir

    return builder.ptrtoint(x, ir.IntType(64))


@emitter("b1(*T)")
def null(builder: Any, x: Any) -> Any:
    """Return True for the pointer of a missing optional operand."""
    from llvmlite import ir

    return builder.icmp_unsigned("==", builder.ptrtoint(x, ir.IntType(64)), ir.Constant(ir.IntType(64), 0))


def _pointer(name: str) -> Any:
    @emitter(f"*{name}(i64)")
    def pointer(builder: Any, number: Any) -> Any:
        """Return the address as a pointer."""
        from ort_lite.native.values import llvm_type

        return builder.inttoptr(number, llvm_type(name).as_pointer())

    return pointer


pointer_u8, pointer_u16, pointer_u32, pointer_u64 = (_pointer(f"u{width}") for width in (8, 16, 32, 64))
pointer_i8, pointer_i16, pointer_i32, pointer_i64 = (_pointer(f"i{width}") for width in (8, 16, 32, 64))
pointer_f32, pointer_f64 = _pointer("f32"), _pointer("f64")


def load64(number: int) -> int:
    """Return the int64 at an address."""
    value: int = pointer_i64(number)[0]
    return value


def store64(number: int, value: int) -> None:
    """Write an int64 to an address."""
    pointer_i64(number)[0] = value
