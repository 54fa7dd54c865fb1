"""What the auxiliary vector says of an AArch64 CPU, in LLVM's words."""

import sys

import pytest

from ort_lite.native import arm
from ort_lite.native.cpu import Target, host

CORTEX_A53 = (0x8FB, 0)
CORTEX_A76 = (0x119FFB, 0)
NEOVERSE_V1 = (1 << 24) - 1, 1 << 13 | 1 << 14


def target(capabilities: tuple[int, int]) -> Target:
    return Target("aarch64-unknown-linux-gnu", "generic", arm.features(*capabilities))


@pytest.mark.parametrize(
    ("capabilities", "has", "has_not"),
    [
        (CORTEX_A53, "fp-armv8,neon,aes,sha2,crc", ["lse", "fullfp16", "dotprod", "sve", "sve2", "i8mm", "bf16"]),
        (CORTEX_A76, "fp-armv8,neon,lse,fullfp16,rdm,rcpc,dotprod", ["sve", "fp16fml", "jsconv", "i8mm", "bf16"]),
        (NEOVERSE_V1, "fp-armv8,neon,lse,fullfp16,dotprod,sve,fp16fml,i8mm,bf16", ["sve2"]),
        ((0, 0), "", ["neon", "fp-armv8"]),
    ],
    ids=["cortex-a53", "cortex-a76", "neoverse-v1", "nothing"],
)
def test_capabilities_are_features(capabilities: tuple[int, int], has: str, has_not: list[str]) -> None:
    machine = target(capabilities)
    assert machine.has(has)
    assert [name for name in has_not if machine.has(name)] == []


def test_any_aarch64_machine_has_neon_and_its_registers() -> None:
    machine = target(CORTEX_A53)
    assert (machine.vector_bytes, machine.vector_registers, machine.has_fma) == (16, 32, True)


def test_half_of_a_capability_is_none() -> None:
    assert not target((1 << 3 | 1 << 9, 0)).has("aes|fullfp16")  # AES without PMULL, scalar halves without vectors of them


def test_features_are_in_order() -> None:
    assert arm.features(1 << 20 | 3, 1 << 14) == "+bf16,+dotprod,+fp-armv8,+neon"
    assert arm.features(0, 0) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says it")
def test_this_process_has_capabilities_which_fit_what_the_host_is() -> None:
    first, second = arm.capabilities()
    assert first >= 0 <= second
    if host().triple.startswith("aarch64"):
        assert host().has("neon")
