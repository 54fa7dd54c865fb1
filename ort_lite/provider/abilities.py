"""Whether a compiled partition has what `ort_lite.provider.compiled` names.

By its attributes: nine Protocols that can be asked at run time take 3 ms to define, in every process.
"""

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from ort_lite.provider.compiled import (
        Absorbs,
        ComputesIntoMemory,
        HasMachineImage,
        HasState,
        HoldsMemory,
        PlansMemory,
        PutsOff,
        ReleasesState,
        Restores,
        TellsFacts,
        Trims,
    )


def computes_into_memory(one: object) -> "TypeGuard[ComputesIntoMemory]":
    return hasattr(one, "into_memory")


def tells_facts(one: object) -> "TypeGuard[TellsFacts]":
    return hasattr(one, "facts")


def holds_memory(one: object) -> "TypeGuard[HoldsMemory]":
    return hasattr(one, "memory")


def trims(one: object) -> "TypeGuard[Trims]":
    return hasattr(one, "trim")


def plans_memory(one: object) -> "TypeGuard[PlansMemory]":
    return hasattr(one, "memory_plan")


def has_state(one: object) -> "TypeGuard[HasState]":
    return hasattr(one, "create_state")


def releases_state(one: object) -> "TypeGuard[ReleasesState]":
    return hasattr(one, "release_state")


def absorbs(one: object) -> "TypeGuard[Absorbs]":
    return hasattr(one, "absorbed")


def restores(one: object) -> "TypeGuard[Restores]":
    return hasattr(one, "restorer")


def puts_off(one: object) -> "TypeGuard[PutsOff]":
    return hasattr(one, "complete")


def has_machine_image(one: object) -> "TypeGuard[HasMachineImage]":
    return hasattr(one, "machine_image")
