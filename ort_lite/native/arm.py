"""What an AArch64 CPU can do, as its operating system says: LLVM looks elsewhere, and misses most of it.

LLVM reads /proc/cpuinfo for CPUs that it knows by number, and knows few of the features; in a container or under emulation
there may be nothing to read. The kernel's hardware capabilities are those that a program may use.
"""

import ctypes
import sys

_HWCAP, _HWCAP2 = 16, 26  # entries of the auxiliary vector

# LLVM's feature -> the bits of AT_HWCAP, then of AT_HWCAP2, that it takes (arch/arm64/include/uapi/asm/hwcap.h).
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
    """AT_HWCAP and AT_HWCAP2 of this process; zeros where no Linux tells them."""
    if sys.platform != "linux":
        return 0, 0
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    return ask(_HWCAP), ask(_HWCAP2)


def with_capabilities(features: str, first: int, second: int) -> str:
    """LLVM's feature string, in its order by name, with what the words of capabilities hold besides."""
    signs = {feature[1:]: feature[0] for feature in features.split(",") if feature}
    for table, word in ((_FIRST, first), (_SECOND, second)):
        signs.update({name: "+" for name, bits in table.items() if word & bits == bits})
    return ",".join(signs[name] + name for name in sorted(signs))
