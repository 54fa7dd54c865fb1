"""The features of an x86-64 CPU, as it reports them, by LLVM's names, without loading LLVM.

They come from two instructions instead of /proc/cpuinfo: translators of x86-64 code, such as QEMU and Rosetta, show another machine
there. Spec: CPUID and XGETBV in the Intel SDM, volume 2; System V ABI.
"""

import ctypes
import struct
from collections.abc import Callable

from ort_lite.native.mapping import executable

# push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; mov [r8], eax; [r8+4], ebx; [r8+8], ecx; [r8+12], edx; pop rbx; ret
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
# xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")

Leaf = Callable[[int, int], tuple[int, ...]]
"""A function from (leaf, subleaf) to the registers EAX, EBX, ECX, EDX."""

_EAX, _EBX, _ECX, _EDX = range(4)
_BASIC, _EXTENDED = 0, 0x80000000  # leaves that return the number of leaves
_HAS_XGETBV = 27
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
# State bits of the registers that the operating system saves: XMM; plus YMM; plus masks and ZMM. Tiles have two bits of their own.
SSE_STATE, AVX_STATE, _AVX512_STATE, _TILE_STATE = 0b010, 0b110, 0b11100110, 0b11 << 17

# LLVM's feature -> (leaf, subleaf, register, bit, required state). Lists features that affect the code of kernels, but not those
# that need intrinsics no kernel uses (AES, SHA, ...): machines that differ only in these share their kernels.
FEATURES = {
    "cx16": (1, 0, _ECX, 13, 0),
    "fma": (1, 0, _ECX, 12, AVX_STATE),
    "movbe": (1, 0, _ECX, 22, 0),
    "pclmul": (1, 0, _ECX, 1, 0),
    "popcnt": (1, 0, _ECX, 23, 0),
    "sse2": (1, 0, _EDX, 26, 0),
    "sse3": (1, 0, _ECX, 0, 0),
    "sse4.1": (1, 0, _ECX, 19, 0),
    "sse4.2": (1, 0, _ECX, 20, 0),
    "ssse3": (1, 0, _ECX, 9, 0),
    "avx": (1, 0, _ECX, 28, AVX_STATE),
    "f16c": (1, 0, _ECX, 29, AVX_STATE),
    "avx2": (7, 0, _EBX, 5, AVX_STATE),
    "bmi": (7, 0, _EBX, 3, 0),
    "bmi2": (7, 0, _EBX, 8, 0),
    "avx512f": (7, 0, _EBX, 16, _AVX512_STATE),
    "avx512dq": (7, 0, _EBX, 17, _AVX512_STATE),
    "avx512ifma": (7, 0, _EBX, 21, _AVX512_STATE),
    "avx512cd": (7, 0, _EBX, 28, _AVX512_STATE),
    "avx512bw": (7, 0, _EBX, 30, _AVX512_STATE),
    "avx512vl": (7, 0, _EBX, 31, _AVX512_STATE),
    "avx512vbmi": (7, 0, _ECX, 1, _AVX512_STATE),
    "avx512vbmi2": (7, 0, _ECX, 6, _AVX512_STATE),
    "gfni": (7, 0, _ECX, 8, 0),
    "vaes": (7, 0, _ECX, 9, AVX_STATE),
    "vpclmulqdq": (7, 0, _ECX, 10, AVX_STATE),
    "avx512vnni": (7, 0, _ECX, 11, _AVX512_STATE),
    "avx512bitalg": (7, 0, _ECX, 12, _AVX512_STATE),
    "avx512vpopcntdq": (7, 0, _ECX, 14, _AVX512_STATE),
    "avx512vp2intersect": (7, 0, _EDX, 8, _AVX512_STATE),
    "avx512fp16": (7, 0, _EDX, 23, _AVX512_STATE),
    "amx-bf16": (7, 0, _EDX, 22, _TILE_STATE),
    "amx-tile": (7, 0, _EDX, 24, _TILE_STATE),
    "amx-int8": (7, 0, _EDX, 25, _TILE_STATE),
    "avxvnni": (7, 1, _EAX, 4, AVX_STATE),
    "avx512bf16": (7, 1, _EAX, 5, _AVX512_STATE),
    "avxifma": (7, 1, _EAX, 23, AVX_STATE),
    "avxvnniint8": (7, 1, _EDX, 4, AVX_STATE),
    "avxneconvert": (7, 1, _EDX, 5, AVX_STATE),
    "avxvnniint16": (7, 1, _EDX, 10, AVX_STATE),
    "sahf": (0x80000001, 0, _ECX, 0, 0),
    "lzcnt": (0x80000001, 0, _ECX, 5, 0),
}


def features(leaf: Leaf, saved: int) -> str:
    """Return LLVM's features, sorted: "+avx,+avx2,...". `saved` is the register state that the operating system saves."""
    highest = {_BASIC: leaf(_BASIC, 0)[_EAX], _EXTENDED: leaf(_EXTENDED, 0)[_EAX]}
    needed = {(number, part) for number, part, *_ in FEATURES.values() if number <= highest[number & _EXTENDED]}
    parts = leaf(7, 0)[_EAX] if highest[_BASIC] >= 7 else 0
    registers = {where: leaf(*where) for where in needed if where[1] <= (parts if where[0] == 7 else 0)}
    nothing = (0,) * 4
    return ",".join(
        f"+{name}"
        for name, (number, part, register, bit, state) in sorted(FEATURES.items())
        if registers.get((number, part), nothing)[register] >> bit & 1 and saved & state == state
    )


def name(leaf: Leaf) -> str:
    """Return the CPU's name given by its maker."""
    if leaf(_EXTENDED, 0)[_EAX] < 0x80000004:
        return "x86-64"
    words = [word for number in (0x80000002, 0x80000003, 0x80000004) for word in leaf(number, 0)]
    return struct.pack("<12I", *words).partition(b"\0")[0].decode("ascii", "replace").strip() or "x86-64"


def ask_for_tiles() -> bool:
    """Ask the system to let this process use tiles (AMX), which it keeps off until then. Return False if it refuses.

    Processes that are forked later have the permission as well. Spec: Linux, arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
    """
    return not ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)


def processor() -> tuple[Leaf, int]:
    """Return a function that queries this CPU, and the state that the operating system saves.

    Raises OSError if executable memory is not allowed.
    """
    code = executable(_CPUID + _XGETBV)
    call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(code)
    registers = (ctypes.c_uint32 * 4)()

    def leaf(number: int, part: int) -> tuple[int, ...]:
        call(number, part, ctypes.addressof(registers))
        return tuple(registers)

    if not leaf(1, 0)[_ECX] >> _HAS_XGETBV & 1:
        return leaf, 0
    return leaf, ctypes.CFUNCTYPE(ctypes.c_uint64)(code + len(_CPUID))()
