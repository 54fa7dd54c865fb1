"""Decorators that mark functions for the compiler (`@native`, `@emitter`, `@arithmetic`) and types of parameters."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ort_lite.record import Record

F = TypeVar("F", bound=Callable[..., Any])

# Compile-time constant parameter: int, float, bool or str. Branches on it are decided by the compiler.
if TYPE_CHECKING:
    Static: TypeAlias = Any
    """The annotation of a compile-time constant; a separate class, so that `Any` stays an ordinary annotation."""
    StaticInt: TypeAlias = int
    """The annotation of such a field of a record, an integer that Python reads as well."""
else:

    class Static:
        """The annotation of a compile-time constant; a class of its own, so that `Any` stays an ordinary annotation."""

    StaticInt = Static


ELEMENTS = ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64")

# LLVM's floating-point flags. Never nnan or ninf: they make isnan(nan) False.
STRICT: tuple[str, ...] = ()
CONTRACT = ("contract", "nsz")
SUMS = ("reassoc", "contract", "nsz")
REDUCE = (*SUMS, "arcp")  # with it, 1 / sqrt(inf) may become an estimate and a Newton step, which give NaN
_FLAGS = frozenset((*REDUCE, "afn"))


class Ptr:
    """A pointer to elements of one type: x[i] reads, x[i] = v writes. No bounds checks, no negative indices."""

    def __getitem__(self, index: int) -> Any:
        raise TypeError("a Ptr is read by compiled kernels only")

    def __setitem__(self, index: int, value: Any) -> None:
        raise TypeError("a Ptr is written by compiled kernels only")


class NativeOptions(Record):
    """Compiler options of one function: LLVM floating-point flags, and whether it is inlined into callers."""

    fastmath: tuple[str, ...] = CONTRACT
    inline: bool = True


DEFAULT_OPTIONS = NativeOptions()


@overload
def native(function: F) -> F: ...
@overload
def native(*, fastmath: tuple[str, ...] = ..., inline: bool = ...) -> Callable[[F], F]: ...
def native(function: F | None = None, *, fastmath: tuple[str, ...] = CONTRACT, inline: bool = True) -> Any:
    """Mark a function to be compiled, without registering anything. For kernels and helpers; helpers need no mark.

    The flags apply to this function's own arithmetic, not to functions that it calls. `inline=False` keeps a helper out of line,
    for a body so large that copies of it would cost more than calls. Raises ValueError for unknown flags.
    """
    unknown = sorted(set(fastmath) - _FLAGS)
    if unknown:
        raise ValueError(f"fastmath={unknown}: expected some of {sorted(_FLAGS)}")

    def mark(target: F) -> F:
        target.__native__ = NativeOptions(tuple(sorted(fastmath)), inline)  # type: ignore[attr-defined]
        return target

    return mark if function is None else mark(function)


class Emitted:
    """A function whose code is LLVM IR, which only kernels can call. Created by `@emitter` and `@arithmetic`.

    If `typed`, the emitter takes and returns `values.LlvmValue` instead of a builder and LLVM's values.
    """

    def __init__(
        self,
        emitter: Callable[..., Any],
        signatures: tuple[str, ...],
        needs: str = "",
        otherwise: Callable[..., Any] | None = None,
        typed: bool = False,
    ) -> None:
        self.emitter, self.signatures, self.typed = emitter, signatures, typed
        self.needs, self.otherwise = needs, otherwise
        self.__name__, self.__doc__, self.__module__ = emitter.__name__, emitter.__doc__, emitter.__module__

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__name__}"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.__name__} is emitted code: it runs in compiled kernels only")


def emitter(
    *signatures: str, needs: str = "", otherwise: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark `f(builder, *llvm_args)`, which emits IR and returns the resulting value (None for void).

    A signature is `result(arguments)` over the element types, `b1`, pointers `*f32` and type variables: `T` any element type, `F` a
    float, `I` an integer, `A` any scalar. Arguments are converted to it, never floats to integers. An argument declared `static`
    arrives as the Python value of a constant; a result `@k` is the type named by static argument k. With `needs="avx2,f16c"` the
    emitter is for targets that have these features ("|" separates alternatives, best first), and the function `otherwise` is for
    all others. Features beyond the target's level are used only if listed there; "lse|" lists one that is used if present.
    """

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        return Emitted(target, signatures, needs, otherwise)

    return mark


emitted = emitter
"""The name in earlier releases."""


def arithmetic(*signatures: str, needs: str = "", otherwise: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """Mark `f(*values)`, which computes with `values.LlvmValue`: Python operators on it emit IR of exactly its type."""

    def mark(target: F) -> F:
        return cast(F, Emitted(target, signatures, needs, otherwise, typed=True))

    return mark
