"""Atomic words, and calls of functions through their addresses, for native code that works between threads.

A word is 8 bytes and aligned. Every access is sequentially consistent: on x86-64 a load costs what a plain one does.
"""

from typing import Any

from ort_lite.native.lang import emitter

_ATOMIC = "lse|"
"""On AArch64 one instruction instead of a loop, where there is one."""


def _word(builder: Any, number: Any) -> Any:
    from llvmlite import ir

    return builder.inttoptr(number, ir.IntType(64).as_pointer())


def call_by_name(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """A call of the function of that name: an intrinsic of LLVM's, or a symbol that the loader finds."""
    from llvmlite import ir

    kind = ir.FunctionType(result, [value.type for value in arguments])
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), arguments)


@emitter("i64(i64)")
def get(builder: Any, number: Any) -> Any:
    """The word at an address."""
    return builder.load_atomic(_word(builder, number), "seq_cst", 8)


@emitter("void(i64,i64)")
def put(builder: Any, number: Any, value: Any) -> None:
    """Writes a word."""
    builder.store_atomic(value, _word(builder, number), "seq_cst", 8)


@emitter("i64(i64,i64)", needs=_ATOMIC)
def fetch_add(builder: Any, number: Any, value: Any) -> Any:
    """Adds to a word; the sum wraps. Returns what it was."""
    return builder.atomic_rmw("add", _word(builder, number), value, "seq_cst")


@emitter("i64(i64,i64)", needs=_ATOMIC)
def fetch_or(builder: Any, number: Any, bits: Any) -> Any:
    """Sets bits of a word. Returns what it was."""
    return builder.atomic_rmw("or", _word(builder, number), bits, "seq_cst")


@emitter("i64(i64,i64)", needs=_ATOMIC)
def fetch_and(builder: Any, number: Any, bits: Any) -> Any:
    """Clears the bits of a word that `bits` lacks. Returns what it was."""
    return builder.atomic_rmw("and", _word(builder, number), bits, "seq_cst")


@emitter("b1(i64,i64,i64)", needs=_ATOMIC)
def swap(builder: Any, number: Any, old: Any, new: Any) -> Any:
    """Writes `new` if the word is `old`; True if it was."""
    pair = builder.cmpxchg(_word(builder, number), old, new, "seq_cst", "seq_cst")
    return builder.extract_value(pair, 1)


@emitter("i64(i64)")
def lowest_bit(builder: Any, bits: Any) -> Any:
    """Number of the lowest bit that is set; 64 if none is."""
    from llvmlite import ir

    return call_by_name(builder, "llvm.cttz.i64", ir.IntType(64), bits, ir.Constant(ir.IntType(1), 0))


def _no_hint() -> None:
    pass


@emitter("void()", needs="neon", otherwise=_no_hint)
def _yield_hint(builder: Any) -> None:
    from llvmlite import ir

    call_by_name(builder, "llvm.aarch64.hint", ir.VoidType(), ir.Constant(ir.IntType(32), 1))


def _pause_elsewhere() -> None:
    _yield_hint()


@emitter("void()", needs="sse2", otherwise=_pause_elsewhere)
def pause(builder: Any) -> None:
    """Tells the core that this is a waiting loop."""
    from llvmlite import ir

    call_by_name(builder, "llvm.x86.sse2.pause", ir.VoidType())


@emitter(*(f"i64({','.join(['i64'] * count)})" for count in range(1, 9)))
def call(builder: Any, function: Any, *arguments: Any) -> Any:
    """Call the function at an address with integer arguments. Of an `int` result, the low half holds."""
    from llvmlite import ir

    kind = ir.FunctionType(ir.IntType(64), [value.type for value in arguments])
    return builder.call(builder.inttoptr(function, kind.as_pointer()), arguments)
