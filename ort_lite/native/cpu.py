"""What the machine can do, and the targets that tests compile for. Imports no compiler."""

from functools import cache

from ort_lite.native import llvm
from ort_lite.record import Record


class Target(Record):
    """A machine to compile for: LLVM triple, CPU name and feature string ("+avx2,-avx512f")."""

    triple: str
    cpu: str
    features: str = ""

    def has(self, names: str) -> bool:
        """True if every feature of the comma-separated `names` is present; "|" separates alternatives."""
        present = frozenset(self.features.split(","))
        return any(all("+" + name in present for name in way.split(",") if name) for way in names.split("|"))

    def runs_on(self, machine: "Target") -> bool:
        """True if the machine has the architecture and all features of this target."""
        wanted = (name[1:] for name in self.features.split(",") if name.startswith("+"))
        return self.triple.partition("-")[0] == machine.triple.partition("-")[0] and machine.has(",".join(wanted))

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
    triple, features = llvm.process_triple(), llvm.host_cpu_features()
    if triple.startswith(("aarch64", "arm64")):
        from ort_lite.native import arm

        features = arm.with_capabilities(features, *arm.capabilities())
    return Target(triple, llvm.host_cpu_name(), features)


_HASWELL = "+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt"
SSE2 = Target("x86_64-unknown-linux-gnu", "x86-64", "+sse2")
HASWELL = Target("x86_64-unknown-linux-gnu", "haswell", _HASWELL)
SKYLAKE_AVX512 = Target(
    "x86_64-unknown-linux-gnu", "skylake-avx512", _HASWELL + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
)
AARCH64 = Target("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8")
