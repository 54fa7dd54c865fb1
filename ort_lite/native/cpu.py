"""Compilation targets: this machine, or a named one with fewer features. Imports no compiler.

A target is a set of features: those of a level, by the names that C compilers use, and some beyond it. A kernel is compiled for the
level plus only those other features that it names (`Target.narrow`), so machines that differ in the rest share its object and a few
objects serve all. LLVM's "tuning", which orders instructions and chooses among equivalent ones, is the same for all targets of an
architecture: what was measured on one machine is what another one runs.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache

from ort_lite.errors import InvalidArgument
from ort_lite.native import x86
from ort_lite.native.compilers import llvm
from ort_lite.record import Record

_LINUX = "{}-unknown-linux-gnu"
_TUNINGS = {"x86_64": "x86-64"}
"""LLVM's name of the CPU to tune for, by architecture. All machines of the architecture have its features."""


class Target(Record):
    """A compilation target: an LLVM triple, a name for messages, and LLVM features ("+avx,+avx2")."""

    triple: str
    name: str
    features: str = ""

    @property
    def architecture(self) -> str:
        """The architecture, for example "x86_64"."""
        return self.triple.partition("-")[0]

    @property
    def tuning(self) -> str:
        """LLVM's name of the CPU that code is tuned for."""
        return _TUNINGS.get(self.architecture, "generic")

    def has(self, names: str) -> bool:
        """Return True if all of the comma-separated features are present; "|" separates alternatives."""
        return _has(self.features, names)

    def narrow(self, needs: Iterable[str]) -> "Target":
        """Return this target's level plus, for each of `needs`, the first alternative that is present."""
        return _narrow(self, tuple(needs))

    def runs_on(self, machine: "Target") -> bool:
        """Return True if the machine has the architecture and all features of this target."""
        wanted = (name[1:] for name in self.features.split(",") if name.startswith("+"))
        return self.architecture == machine.architecture and machine.has(",".join(wanted))

    @property
    def vector_bytes(self) -> int:
        """The width in bytes of the widest vector register that arithmetic should use: 16, 32 or 64."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx") else 16

    @property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.has("avx512f") or self.has("neon") else 16

    @property
    def has_fma(self) -> bool:
        """True if there is fused multiply-add in vector registers."""
        return self.has("fma") or self.has("neon")

    @property
    def has_vnni(self) -> bool:
        """True if there is vpdpbusd at the full vector width."""
        return self.has("avx512vnni") or (self.has("avxvnni") and not self.has("avx512f"))

    @property
    def has_tiles(self) -> bool:
        """True if there are tiles, and instructions that multiply those of bytes (AMX)."""
        return self.has("avx512f,avx512vnni,amx-tile,amx-int8")

    @property
    def has_bfloat16_products(self) -> bool:
        """True if there is an instruction that multiplies pairs of bfloat16, at the full vector width."""
        return self.has("avx512f,avx512bw,avx512bf16")

    @property
    def has_bfloat16_tiles(self) -> bool:
        """True if there are also instructions that multiply tiles of bfloat16 (AMX)."""
        return self.has_bfloat16_products and self.has("amx-tile,amx-bf16")

    @property
    def has_byte_products(self) -> bool:
        """True if there are instructions that sum four products of bytes in 32 bits, at the full vector width."""
        return self.has_vnni or self.has("neon,dotprod")


@cache
def _has(features: str, names: str) -> bool:
    """Cache the result of `Target.has`, which lowering calls for every kernel."""
    present = frozenset(features.split(","))
    return any(all("+" + name in present for name in way.split(",") if name) for way in names.split("|"))


@cache
def _narrow(target: Target, needs: tuple[str, ...]) -> Target:
    """Cache the result of `Target.narrow`. A target of another architecture, or below all levels, is unchanged."""
    levels = _LEVELS.get(target.architecture, {})
    level = next((name for name, own in levels.items() if target.has(own)), None)
    if level is None:
        return target
    own = levels[level].split(",")
    ways = (next((way for way in names.split("|") if target.has(way)), "") for names in needs)
    beyond = sorted({name for way in ways for name in way.split(",") if name} - set(own))
    found = [*own, *beyond]
    named = (name for name, features in (_X86_64 | _AARCH64).items() if set(features.split()) == set(found))
    return Target(target.triple, next(named, "+".join([level, *beyond])), _join(" ".join(found)))


@cache
def host() -> Target:
    """Return this machine."""
    return _detect()


def _detect() -> Target:
    """Detect this machine. On Linux, the processor and the system report what it is, so no compiler is needed."""
    architecture = os.uname().machine if sys.platform == "linux" else ""
    if architecture == "x86_64":
        leaf, saved = x86.processor()
        found = _of_whole_levels(leaf, saved)
        if _has(found, "amx-tile") and not x86.ask_for_tiles():
            found = ",".join(name for name in found.split(",") if not name.startswith("+amx"))
        return Target(_LINUX.format(architecture), x86.name(leaf), found)
    if architecture == "aarch64":
        from ort_lite.native import arm

        return Target(_LINUX.format(architecture), "AArch64", arm.features(*arm.capabilities()))
    lib = llvm()
    known = lib.host_cpu_features().split(",")
    return Target(lib.process_triple(), lib.host_cpu_name(), ",".join(name for name in known if name.startswith("+")))


def _of_whole_levels(leaf: x86.Leaf, saved: int) -> str:
    """Return the features, without wide registers unless the level that introduces them is complete.

    An early processor, or a virtual machine that hides some features, therefore has the level below.
    """
    found = x86.features(leaf, saved)
    for level, state in (("x86-64-v4", x86.AVX_STATE), ("x86-64-v3", x86.SSE_STATE)):
        if not _has(found, _LEVELS["x86_64"][level]):
            found = x86.features(leaf, saved & state)
    return found


# The features that arithmetic can use, for each level of x86-64 (its psABI) and for CPUs.
_V2 = "sse2 sse3 ssse3 sse4.1 sse4.2 popcnt"
_V3 = f"{_V2} avx avx2 fma f16c bmi bmi2 lzcnt movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICELAKE = f"{_V4} avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq"
_AMX = "amx-tile amx-int8"
_X86_64 = {
    "x86-64": "sse2",
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v3+avxvnni": f"{_V3} avxvnni",
    "x86-64-v4": _V4,
    "x86-64-v4+avx512vnni": f"{_V4} avx512vnni",
    "x86-64-v4+avx512vnni+amx": f"{_V4} avx512vnni {_AMX}",
    "haswell": _V3,
    "znver3": f"{_V3} vaes vpclmulqdq",
    "skylake-avx512": _V4,
    "sapphirerapids": f"{_ICELAKE} avx512bf16 avx512fp16 avxvnni {_AMX} amx-bf16",
    "znver4": f"{_ICELAKE} avx512bf16",
    "znver5": f"{_ICELAKE} avx512bf16 avx512vp2intersect avxvnni",
}
_ARMV8 = "fp-armv8 neon"
_ARMV82 = f"{_ARMV8} lse fullfp16 dotprod"
_ARMV86 = f"{_ARMV82} i8mm bf16"
_AARCH64 = {
    "aarch64": _ARMV8,
    "armv8.0-a": _ARMV8,
    "armv8.2-a+dotprod": _ARMV82,
    "armv8.6-a": _ARMV86,
    "cortex-a72": _ARMV8,
    "neoverse-n1": _ARMV82,
    "neoverse-v1": _ARMV86,
}
_LEVELS = {
    "x86_64": {name: _X86_64[name].replace(" ", ",") for name in ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")},
    "aarch64": {"aarch64": _ARMV8.replace(" ", ",")},
}
"""The features of each level by architecture, the highest level first."""
NAMES = ("host", *_X86_64, *_AARCH64)


@cache
def parse_target(name: str) -> Target:
    """Return the target of a name in NAMES, even if it does not run here. Raises InvalidArgument for other names."""
    if name == "host":
        return host()
    if name in _X86_64:
        return Target(_LINUX.format("x86_64"), name, _join(_X86_64[name]))
    if name in _AARCH64:
        return Target(_LINUX.format("aarch64"), name, _join(_AARCH64[name]))
    raise InvalidArgument(f"target {name!r}: expected one of {', '.join(NAMES)}")


@cache
def runnable(name: str) -> Target:
    """Return a target by name. Raises InvalidArgument, listing those that run here, for one that does not."""
    machine = host()
    if name == "host":
        return machine
    here = [other for other in NAMES if parse_target(other).runs_on(machine)]
    if name not in here:
        problem = f"this machine, {machine.name}, does not run it" if name in NAMES else "unknown"
        raise InvalidArgument(f"target {name!r}: {problem}; {', '.join(here)} run here")
    return parse_target(name).replace(triple=machine.triple)


def _join(features: str) -> str:
    return ",".join("+" + name for name in features.split())
