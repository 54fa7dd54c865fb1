"""The features of an AArch64 CPU as Linux reports them, by LLVM's names: LLVM itself misses most of them.

LLVM reads /proc/cpuinfo, for CPUs whose number it knows, and recognizes few features; in a container or under emulation there may
be nothing to read. The kernel's hardware capabilities are what a program may use.
"""

import ctypes

_HWCAP, _HWCAP2 = 16, 26  # entries of the auxiliary vector

# LLVM's feature -> the bits of AT_HWCAP, then of AT_HWCAP2, that it requires (arch/arm64/include/uapi/asm/hwcap.h).
_FIRST = {
    "fp-armv8": 1 << 0,
    "neon": 1 << 1,
    "aes": 3 << 3,
    "sha2": 3 << 5,
    "crc": 1 << 7,
    "lse": 1 << 8,
    "fullfp16": 3 << 9,
    "rdm": 1 << 12,
    "jsconv": 1 << 13,
    "complxnum": 1 << 14,
    "rcpc": 1 << 15,
    "sha3": 1 << 17 | 1 << 21,
    "dotprod": 1 << 20,
    "sve": 1 << 22,
    "fp16fml": 1 << 23,
}
_SECOND = {"sve2": 1 << 1, "i8mm": 1 << 13, "bf16": 1 << 14}


def capabilities() -> tuple[int, int]:
    """Return AT_HWCAP and AT_HWCAP2 of this process."""
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    return ask(_HWCAP), ask(_HWCAP2)


def features(first: int, second: int) -> str:
    """Return LLVM's names, sorted, of the features in the two capability words: "+fp-armv8,+neon"."""
    words = (_FIRST, first), (_SECOND, second)
    return ",".join(sorted(f"+{name}" for table, word in words for name, bits in table.items() if word & bits == bits))
