"""Checks for the optional members of a compiled partition that `ort_lite.provider.compiled` defines.

They look at attributes: defining nine runtime-checkable Protocols would cost every process 3 ms.
"""

from typing import TYPE_CHECKING, TypeGuard

from ort_lite.errors import ProviderError, format_error

if TYPE_CHECKING:
    from ort_lite.provider.compiled import (
        ComputesIntoMemory,
        ConsumesConstants,
        DeclaresAliases,
        DefersCompile,
        HasEvents,
        HasMachineImage,
        HasState,
        HoldsMemory,
        KnowsUnread,
        PlansMemory,
        PreparesCalls,
        ReleasesState,
        Replays,
        Restores,
        TakesDonations,
        TellsFacts,
        TellsKernels,
        Trims,
    )


def _has(one: object, name: str) -> bool:
    """Return True if the object has the attribute. Raises ProviderError if a property fails with another error."""
    try:
        return hasattr(one, name)
    except Exception as error:
        raise ProviderError(f"{type(one).__name__}, a compiled partition: {name} failed: {format_error(error)}") from error


def computes_into_memory(one: object) -> "TypeGuard[ComputesIntoMemory]":
    """Return True for a partition with `into_memory`."""
    return _has(one, "into_memory")


def takes_donations(one: object) -> "TypeGuard[TakesDonations]":
    """Return True for a partition with `call_donating`."""
    return _has(one, "call_donating")


def declares_aliases(one: object) -> "TypeGuard[DeclaresAliases]":
    """Return True for a partition with `call_donating` and `aliases`."""
    return _has(one, "call_donating") and _has(one, "aliases")


def replays(one: object) -> "TypeGuard[Replays]":
    """Return True for a partition with `capture`."""
    return _has(one, "capture")


def lends(one: object) -> bool:
    """Return True for a partition with `call_donating` or `capture`, whose callers lend it their memory."""
    return _has(one, "call_donating") or _has(one, "capture")


def has_events(one: object) -> "TypeGuard[HasEvents]":
    """Return True for a partition with `record`."""
    return _has(one, "record")


def tells_facts(one: object) -> "TypeGuard[TellsFacts]":
    """Return True for a partition with `facts`."""
    return _has(one, "facts")


def tells_kernels(one: object) -> "TypeGuard[TellsKernels]":
    """Return True for a partition with `kernels`."""
    return _has(one, "kernels")


def holds_memory(one: object) -> "TypeGuard[HoldsMemory]":
    """Return True for a partition with `memory`."""
    return _has(one, "memory")


def trims(one: object) -> "TypeGuard[Trims]":
    """Return True for a partition with `trim`."""
    return _has(one, "trim")


def plans_memory(one: object) -> "TypeGuard[PlansMemory]":
    """Return True for a partition with `memory_plan`."""
    return _has(one, "memory_plan")


def has_state(one: object) -> "TypeGuard[HasState]":
    """Return True for a partition with `create_state`."""
    return _has(one, "create_state")


def releases_state(one: object) -> "TypeGuard[ReleasesState]":
    """Return True for a partition with `release_state`."""
    return _has(one, "release_state")


def consumes_constants(one: object) -> "TypeGuard[ConsumesConstants]":
    """Return True for a partition with `absorbed`."""
    return _has(one, "absorbed")


def restores(one: object) -> "TypeGuard[Restores]":
    """Return True for a partition with `restorer`."""
    return _has(one, "restorer")


def knows_unread(one: object) -> "TypeGuard[KnowsUnread]":
    """Return True for a partition with `unread`."""
    return _has(one, "unread")


def defers_compile(one: object) -> "TypeGuard[DefersCompile]":
    """Return True for a partition with `complete`."""
    return _has(one, "complete")


def prepares_calls(one: object) -> "TypeGuard[PreparesCalls]":
    """Return True for a partition with `prepare_calls`."""
    return _has(one, "prepare_calls")


def has_machine_image(one: object) -> "TypeGuard[HasMachineImage]":
    """Return True for a partition with `machine_image`."""
    return _has(one, "machine_image")
