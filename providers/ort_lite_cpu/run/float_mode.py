"""The rounding mode and the treatment of subnormals of a thread: one word, so that a worker can compute as its leader does."""

from typing import Any

from ort_lite.native.lang import emitter
from ort_lite_cpu.run.atomics import call_by_name

_FLAGS = 0x3F  # of MXCSR: exceptions that have happened, no mode


def _slot(builder: Any) -> Any:
    from llvmlite import ir

    with builder.goto_entry_block():  # once a call of the function, also where the builder is in a loop
        return builder.alloca(ir.IntType(32))


def _unknown() -> int:
    return 0


def _nothing(mode: int) -> None:
    pass


@emitter("i64()", needs="neon", otherwise=_unknown)
def _fpcr(builder: Any) -> Any:
    from llvmlite import ir

    return call_by_name(builder, "llvm.aarch64.get.fpcr", ir.IntType(64))


@emitter("void(i64)", needs="neon", otherwise=_nothing)
def _set_fpcr(builder: Any, mode: Any) -> None:
    from llvmlite import ir

    call_by_name(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), mode)


def _mode_elsewhere() -> int:
    mode: int = _fpcr()
    return mode


def _set_mode_elsewhere(mode: int) -> None:
    _set_fpcr(mode)


@emitter("i64()", needs="sse2", otherwise=_mode_elsewhere)
def float_mode(builder: Any) -> Any:
    """The mode: MXCSR without its flags, or FPCR; 0 where neither exists. 3 ns."""
    from llvmlite import ir

    slot = _slot(builder)
    call_by_name(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, ir.IntType(8).as_pointer()))
    mode = builder.and_(builder.load(slot), ir.Constant(ir.IntType(32), ~_FLAGS))
    return builder.zext(mode, ir.IntType(64))


@emitter("void(i64)", needs="sse2", otherwise=_set_mode_elsewhere)
def set_float_mode(builder: Any, mode: Any) -> None:
    """Makes a mode that `float_mode` returned that of this thread."""
    from llvmlite import ir

    slot = _slot(builder)
    builder.store(builder.trunc(mode, ir.IntType(32)), slot)
    call_by_name(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), builder.bitcast(slot, ir.IntType(8).as_pointer()))
