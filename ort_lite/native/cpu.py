"""What code is compiled for: this machine, or less than it can do, by name. Imports no compiler.

A target is a set of features. How instructions are ordered and chosen among equals, LLVM's "tuning", is the same for all targets
of an architecture, whatever CPU they are named after: what was measured on one machine is what another one runs.
"""

import os
import sys
from functools import cache

from ort_lite.errors import InvalidArgument
from ort_lite.native import cache as store
from ort_lite.native import llvm
from ort_lite.native.digest import digest
from ort_lite.record import Record

_TUNINGS = {"x86_64": "x86-64"}
"""By architecture: LLVM's name of the CPU to tune for, which has the features that all machines of it have."""


class Target(Record):
    """What to compile for: LLVM triple, a name for messages, and LLVM's features ("+avx,+avx2")."""

    triple: str
    name: str
    features: str = ""

    @property
    def architecture(self) -> str:
        """Such as x86_64."""
        return self.triple.partition("-")[0]

    @property
    def tuning(self) -> str:
        """LLVM's name of the CPU that code is tuned for."""
        return _TUNINGS.get(self.architecture, "generic")

    def has(self, names: str) -> bool:
        """True if every feature of the comma-separated `names` is present; "|" separates alternatives."""
        present = frozenset(self.features.split(","))
        return any(all("+" + name in present for name in way.split(",") if name) for way in names.split("|"))

    def runs_on(self, machine: "Target") -> bool:
        """True if the machine has the architecture and all features of this target."""
        wanted = (name[1:] for name in self.features.split(",") if name.startswith("+"))
        return self.architecture == machine.architecture and machine.has(",".join(wanted))

    @property
    def vector_bytes(self) -> int:
        """Width of the widest vector register that arithmetic should use: 16, 32 or 64."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx") else 16

    @property
    def vector_registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.has("avx512f") or self.has("neon") else 16

    @property
    def has_fma(self) -> bool:
        """Fused multiply-add in vector registers."""
        return self.has("fma") or self.has("neon")

    @property
    def has_vnni(self) -> bool:
        """vpdpbusd at the full vector width."""
        return self.has("avx512vnni") or (self.has("avxvnni") and not self.has("avx512f"))

    @property
    def has_byte_products(self) -> bool:
        """Products of bytes, four by four, summed in 32 bits, at the full vector width."""
        return self.has_vnni or self.has("neon,dotprod")

    @property
    def has_bf16(self) -> bool:
        """vdpbf16ps."""
        return self.has("avx512bf16")

    @property
    def has_f16c(self) -> bool:
        """Conversions between half and single precision."""
        return self.has("f16c") or self.has("neon")


@cache
def host() -> Target:
    """This machine."""
    return _known() or _asked()


def _known() -> Target | None:
    """What LLVM says of a machine that is like this one in all that a processor says of itself: it is kept with the kernels, since
    loading LLVM takes longer than all else that a process does before its first kernel. None where that is not known.
    """
    if not (sys.platform == "linux" and os.uname().machine == "x86_64"):
        return None
    import llvmlite

    from ort_lite.native.cpuid import identity

    try:
        key = digest(b"host", llvmlite.__version__.encode(), identity()).hex()
    except OSError:
        return None  # LLVM may know how to make memory that can be executed; if not, it says so
    folder = store.directory()
    found = store.read(folder, key)
    if found is None:
        machine = _asked()
        store.write(folder, key, f"{machine.triple}\n{machine.name}\n{machine.features}".encode())
        return machine
    return Target(*found.decode().split("\n"))


def _asked() -> Target:
    """What LLVM says of this machine."""
    triple, known = llvm.process_triple(), llvm.host_cpu_features()
    if triple.startswith(("aarch64", "arm64")):
        from ort_lite.native import arm

        known = arm.with_capabilities(known, *arm.capabilities())
    return Target(triple, llvm.host_cpu_name(), ",".join(name for name in known.split(",") if name.startswith("+")))


# Of each level of x86-64 (its psABI), and of CPUs, what arithmetic can use.
_V2 = "sse2 sse3 ssse3 sse4.1 sse4.2 popcnt"
_V3 = f"{_V2} avx avx2 fma f16c bmi bmi2 lzcnt movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICELAKE = f"{_V4} avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq"
_X86_64 = {
    "x86-64": "sse2",
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "znver3": f"{_V3} vaes vpclmulqdq",
    "skylake-avx512": _V4,
    "sapphirerapids": f"{_ICELAKE} avx512bf16 avx512fp16 avxvnni",
    "znver4": f"{_ICELAKE} avx512bf16",
    "znver5": f"{_ICELAKE} avx512bf16 avx512vp2intersect avxvnni",
}
_ARMV8 = "fp-armv8 neon"
_ARMV82 = f"{_ARMV8} lse fullfp16 dotprod"
_AARCH64 = {
    "aarch64": _ARMV8,
    "armv8.0-a": _ARMV8,
    "armv8.2-a+dotprod": _ARMV82,
    "cortex-a72": _ARMV8,
    "neoverse-n1": _ARMV82,
}
NAMES = ("host", *_X86_64, *_AARCH64)


@cache
def named(name: str) -> Target:
    """The target of a name in NAMES, whether or not it runs here. Raises InvalidArgument for others."""
    if name == "host":
        return host()
    if name in _X86_64:
        return Target("x86_64-unknown-linux-gnu", name, _joined(_X86_64[name]))
    if name in _AARCH64:
        return Target("aarch64-unknown-linux-gnu", name, _joined(_AARCH64[name]))
    raise InvalidArgument(f"target {name!r}: expected one of {', '.join(NAMES)}")


@cache
def runnable(name: str) -> Target:
    """As `named`. Raises InvalidArgument, which names those that run here, for a target that does not."""
    machine = host()
    if name == "host":
        return machine
    here = [other for other in NAMES if named(other).runs_on(machine)]
    if name not in here:
        problem = f"this machine, {machine.name}, does not run it" if name in NAMES else "unknown"
        raise InvalidArgument(f"target {name!r}: {problem}; {', '.join(here)} run here")
    return named(name).replace(triple=machine.triple)


def _joined(features: str) -> str:
    return ",".join("+" + name for name in features.split())
