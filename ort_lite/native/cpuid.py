"""What an x86-64 processor says of itself, as raw numbers: they name a kind of machine, and nobody here reads more into them.

System V ABI; the instructions are CPUID and XGETBV of the Intel SDM, volume 2.
"""

import ctypes
import struct

from ort_lite.native.elf import executable

# push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; mov [r8], eax; [r8+4], ebx; [r8+8], ecx; [r8+12], edx; pop rbx; ret
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
# xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")

_LEAVES = ((0, 0), (1, 0), (7, 0), (7, 1), (0xD, 1), (0x14, 0), (0x19, 0), (0x1E, 1), (0x24, 0))
_EXTENDED = ((0x80000001, 0), (0x80000007, 0), (0x80000008, 0), (0x80000021, 0))
"""Those that LLVM reads to tell a processor's name and features; what a processor lacks reads as nothing."""


def identity() -> bytes:
    """Equal for two processes if processor and operating system offer both the same. Raises OSError where no code may be made."""
    call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(executable(_CPUID))
    registers = (ctypes.c_uint32 * 4)()

    def leaf(number: int, part: int) -> tuple[int, ...]:
        call(number, part, ctypes.addressof(registers))
        return tuple(registers)

    highest, highest_extended = leaf(0, 0)[0], leaf(0x80000000, 0)[0]
    found = [leaf(*each) if each[0] <= highest else (0,) * 4 for each in _LEAVES]
    found += [leaf(*each) if each[0] <= highest_extended else (0,) * 4 for each in _EXTENDED]
    signature, _, features, more = found[1]  # the second says which core this is
    found[1] = signature, 0, features, more
    saved = ctypes.CFUNCTYPE(ctypes.c_uint64)(executable(_XGETBV))() if features >> 27 & 1 else 0
    return struct.pack(f"<{4 * len(found)}IQ", *(number for registers in found for number in registers), saved)
