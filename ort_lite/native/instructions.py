"""The instructions that kernels multiply with, and a loop of each on registers alone: its rate is the peak of such kernels.

The name of an instruction has its kind, by which kernels choose among them, and the types of its factors. Nothing here is imported
before somebody asks for peaks. Spec: Intel SDM, volume 2; Arm Architecture Reference Manual.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from ort_lite.native.cpu import Target
from ort_lite.native.lang import OK, Static, emitter, native
from ort_lite.native.loader import is_available, load
from ort_lite.native.missing import compiler_lacks
from ort_lite.native.spec import Spec
from ort_lite.record import Record

ROUNDS = 1 << 14
"""The rounds of one call of a loop."""
BYTES = "avx512f,avx512vnni,amx-tile,amx-int8|avx512f,avx512vnni|avxvnni|neon,dotprod,i8mm|neon,dotprod|"
BFLOAT16 = "avx512f,avx512bw,avx512bf16,amx-tile,amx-bf16|avx512f,avx512bw,avx512bf16|"
"""The CPU features of the instructions for bytes and for bfloat16, the best first."""
_SIGNATURE = "void(i64,i64,static,static,static,static)"


class Loop(Record):
    """A way to compute an instruction: what it needs, LLVM's name of it, the vectors of sums and factors, and its operations.

    AMX has tiles instead of vectors. An intrinsic that returns products instead of new sums is followed by an addition.
    """

    needs: str
    intrinsic: str
    operations: int
    sums: str = ""
    factors: str = ""


INSTRUCTIONS: Final[Mapping[str, tuple[Loop, ...]]] = {
    "fma f32": (
        Loop("avx512f", "fmuladd.v16f32", 32, "16 f32", "16 f32"),
        Loop("avx", "fmuladd.v8f32", 16, "8 f32", "8 f32"),
        Loop("", "fmuladd.v4f32", 8, "4 f32", "4 f32"),
    ),
    "amx u8s8": (Loop("amx-tile,amx-int8", "x86.tdpbusd", 1 << 15),),
    "amx s8s8": (Loop("amx-tile,amx-int8", "x86.tdpbssd", 1 << 15),),
    "i8mm u8s8": (Loop("neon,dotprod,i8mm", "aarch64.neon.usmmla.v4i32.v16i8", 64, "4 i32", "16 i8"),),
    "i8mm s8s8": (Loop("neon,dotprod,i8mm", "aarch64.neon.smmla.v4i32.v16i8", 64, "4 i32", "16 i8"),),
    "dots u8s8": (
        Loop("avx512vnni", "x86.avx512.vpdpbusd.512", 128, "16 i32", "16 i32"),
        Loop("avxvnni", "x86.avx512.vpdpbusd.256", 64, "8 i32", "8 i32"),
    ),
    "dots s8s8": (Loop("neon,dotprod", "aarch64.neon.sdot.v4i32.v16i8", 32, "4 i32", "16 i8"),),
    "pairs s16s16": (
        Loop("avx512bw", "x86.avx512.pmaddw.d.512", 64, "16 i32", "32 i16"),
        Loop("avx2", "x86.avx2.pmadd.wd", 32, "8 i32", "16 i16"),
        Loop("sse2", "x86.sse2.pmadd.wd", 16, "4 i32", "8 i16"),
        Loop("neon", "aarch64.neon.smull.v4i32", 8, "4 i32", "4 i16"),
    ),
    "amx bf16": (Loop("avx512bf16,amx-tile,amx-bf16", "x86.tdpbf16ps", 1 << 14),),
    "dots bf16": (Loop("avx512bf16", "x86.avx512bf16.dpbf16ps.512", 64, "16 f32", "16 i32"),),
}
"""The instructions by name, each with the ways to compute it, the fastest first. "fma" is two instructions if the CPU has no FMA."""


def loops(target: Target) -> dict[str, tuple[Spec, float]]:
    """Return, for each instruction that a target has, the spec of its loop and the operations of a call."""
    found = dict[str, tuple[Spec, float]]()
    for name, ways in INSTRUCTIONS.items():
        kernel, needs = _KERNELS.get(name.split()[1], (repeat, ""))
        there = target.narrow([needs])
        way = next((way for way in ways if there.has(way.needs)), None)
        if way is not None:
            count = target.vector_registers * 3 // 4 if way.sums else 6
            statics = {"intrinsic": way.intrinsic, "sums": way.sums, "factors": way.factors, "count": count}
            found[name] = Spec.plain(kernel, "i64(i64,i64)", statics), float(ROUNDS * count * way.operations)
    return found


def runs(target: Target) -> dict[str, tuple[Callable[[], int], float]]:
    """Return, for each instruction of a target that runs here, a function that runs its loop, and the operations of a call.

    Without a compiler, these are the instructions whose loops a kernel pack or the cache has.
    """
    able = not compiler_lacks()
    found = {name: pair for name, pair in loops(target).items() if able or is_available(pair[0], target)}
    configuration = np.zeros(64, np.uint8)
    configuration[0], configuration[16:32:2], configuration[48:56] = 1, 64, 16  # eight tiles of 16 rows of 64 bytes
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    addresses = load([spec for spec, _ in found.values()], target)
    return {
        name: (partial(_call, kind(address), configuration), operations)
        for address, (name, (_, operations)) in zip(addresses, found.items(), strict=True)
    }


def _call(entry: Callable[[int, int], int], configuration: Any) -> int:
    return entry(configuration.ctypes.data, ROUNDS)


def _emit(builder: Any, tiles: Any, rounds: Any, intrinsic: str, sums: str, factors: str, count: int) -> None:
    """Emit `count` independent sums in registers, in vectors or, if there are no `sums`, in tiles."""
    from llvmlite import ir

    if not sums:
        _emit_tiles(builder, tiles, rounds, intrinsic, count)
        return
    kinds = {"f32": ir.FloatType(), "i32": ir.IntType(32), "i16": ir.IntType(16), "i8": ir.IntType(8)}
    total, factor = (ir.VectorType(kinds[name], int(lanes)) for lanes, name in (text.split() for text in (sums, factors)))
    register = "v" if builder.module.triple.startswith("x86_64") else "w"
    multiplies, first = "pmadd" in intrinsic or "smull" in intrinsic, intrinsic.startswith("fmuladd")
    order = [factor, factor] if multiplies else [factor, factor, total] if first else [total, factor, factor]
    function = _declare(builder, intrinsic, total, order)

    def hide(value: Any) -> Any:
        """Return the value from empty assembly, so that the compiler does not know it."""
        return builder.asm(ir.FunctionType(value.type, [value.type]), "", f"={register},0", [value], False)

    def step(values: list[Any]) -> list[Any]:
        x, made = values[0], list[Any]()
        for z in values[1:]:
            x = hide(x)
            product = builder.call(function, [x, y] if multiplies else [x, y, z] if first else [z, x, y])
            made.append(builder.add(z, product) if multiplies else product)
        return [x, *made]

    y = hide(ir.Constant(factor, None))
    values = [hide(ir.Constant(kind, None)) for kind in [factor, *[total] * count]]
    for value in _rounds(builder, rounds, values, step)[1:]:
        builder.asm(ir.FunctionType(ir.VoidType(), [value.type]), "", register, [value], True)


def _emit_tiles(builder: Any, tiles: Any, rounds: Any, intrinsic: str, count: int) -> None:
    """Emit products of the last two tiles, which are added to the `count` others."""
    from llvmlite import ir

    numbers = [ir.Constant(ir.IntType(8), k) for k in range(8)]

    def call(name: str, *arguments: Any) -> None:
        builder.call(_declare(builder, name, ir.VoidType(), [x.type for x in arguments]), arguments)

    def step(_: list[Any]) -> list[Any]:
        for k in numbers[:count]:
            call(intrinsic, k, *numbers[6:])
        return []

    call("x86.ldtilecfg", builder.inttoptr(tiles, ir.IntType(8).as_pointer()))
    for k in numbers:
        call("x86.tilezero", k)
    _rounds(builder, rounds, [], step)
    call("x86.tilerelease")


def _declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    from llvmlite import ir

    found = builder.module.globals.get(f"llvm.{name}")
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), f"llvm.{name}")


def _rounds(builder: Any, rounds: Any, values: list[Any], step: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Emit `values = step(values)`, `rounds` times, once at least. Return the last values."""
    before, inside, after = builder.block, builder.append_basic_block("round"), builder.append_basic_block("end")
    builder.branch(inside)
    builder.position_at_end(inside)
    carried = [builder.phi(value.type) for value in (rounds, *values)]
    for phi, value in zip(carried, (rounds, *values), strict=True):
        phi.add_incoming(value, before)
    left = builder.sub(carried[0], rounds.type(1))
    made = step(carried[1:])
    for phi, value in zip(carried, (left, *made), strict=True):
        phi.add_incoming(value, inside)
    builder.cbranch(builder.icmp_signed(">", left, rounds.type(0)), inside, after)
    builder.position_at_end(after)
    return made


_emit_plain = emitter(_SIGNATURE)(_emit)
_emit_bytes = emitter(_SIGNATURE, needs=BYTES)(_emit)
_emit_bfloat16 = emitter(_SIGNATURE, needs=BFLOAT16)(_emit)


@native
def repeat(tiles: int, rounds: int, intrinsic: Static, sums: Static, factors: Static, count: Static) -> int:
    """Compute `count` sums for some rounds. `tiles` is the address of the configuration of AMX."""
    _emit_plain(tiles, rounds, intrinsic, sums, factors, count)
    return OK


@native
def repeat_bytes(tiles: int, rounds: int, intrinsic: Static, sums: Static, factors: Static, count: Static) -> int:
    """Compute sums of products of bytes as `repeat` does."""
    _emit_bytes(tiles, rounds, intrinsic, sums, factors, count)
    return OK


@native
def repeat_bfloat16(tiles: int, rounds: int, intrinsic: Static, sums: Static, factors: Static, count: Static) -> int:
    """Compute sums of products of bfloat16 as `repeat` does."""
    _emit_bfloat16(tiles, rounds, intrinsic, sums, factors, count)
    return OK


_KERNELS = {"u8s8": (repeat_bytes, BYTES), "s8s8": (repeat_bytes, BYTES), "bf16": (repeat_bfloat16, BFLOAT16)}
"""The kernel and the features of instructions beyond a target's level, by the types of their factors."""
