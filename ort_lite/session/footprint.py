"""The memory of a session: figures as plain data, one limit, and ways to release memory."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.compile import lifecycle
from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.graph.model import Model
from ort_lite.load.spans import span_of
from ort_lite.memory.arenas import address_of
from ort_lite.memory.session_memory import SessionMemory
from ort_lite.options.config_keys import SHRINK
from ort_lite.options.options import RunOptions
from ort_lite.provider.abilities import holds_memory, trims
from ort_lite.provider.ask import ask, ask_object, format_answer
from ort_lite.provider.provider import CPU, ExecutionProvider
from ort_lite.transform.contract import all_graphs

if TYPE_CHECKING:
    from ort_lite.provider.compiled import Holdings
    from ort_lite.session.prepare import Prepared


def figures(prepared: Sequence["Prepared"], session_memory: SessionMemory) -> dict[str, Any]:
    """Return the figures of `InferenceSession.memory` for the compiled forms of one model."""
    constants = list(_unique(c for p in prepared for c in _constants(p.model)))
    mapped = sum(array.nbytes for array in constants if _in_a_file(array))
    known = {_root(array) for array in constants}
    providers: dict[str, dict[str, Any]] = {}
    own: list[Any] = []
    for each in prepared:
        for label, name, partition in _partitions(each):
            held = _memory_of(partition, name)
            arrays = [array for array in _unique(held["arrays"]) if _root(array) not in known]
            row = providers.setdefault(label, {"packed_weights": 0, "plans": 0, "plan_bytes": 0})
            row["packed_weights"] += sum(array.nbytes for array in arrays)
            row["plans"] += held["plans"]
            row["plan_bytes"] += held["plan_bytes"]
            own += arrays
        for label, provider in each.assignment.providers.items():
            if (allocator := _allocator(provider)) is not None:
                providers.setdefault(label, {})["allocator"] = dict(ask_object(allocator, "statistics", _of(label), Mapping))
    return {
        "constants": sum(array.nbytes for array in constants),
        "constants_in_files": mapped,
        "packed_weights": sum(array.nbytes for array in _unique(own)),
        "scratch": session_memory.figures(),
        "plans": sum(row.get("plans", 0) for row in providers.values()),
        "plan_bytes": sum(row.get("plan_bytes", 0) for row in providers.values()),
        "limit": session_memory.budget.limit,
        "providers": providers,
    }


def _in_a_file(array: Any) -> bool:
    span = span_of(array)
    return (
        span is not None and span.owner is not None and os.path.isabs(span.owner.name)
    )  # the owner of a mapped file is named by its path


def _memory_of(partition: Any, name: str) -> "Holdings":
    """Return what a compiled partition reports about its memory. Raises ProviderError for a malformed report."""
    held: Holdings = ask_object(partition, "memory", name, dict)
    if not (
        isinstance(held.get("arrays"), list)
        and all(isinstance(array, np.ndarray) for array in held["arrays"])
        and all(isinstance(held.get(key), int) for key in ("plans", "plan_bytes"))
    ):
        raise ProviderError(
            f"{name}: memory returned {format_answer(held)}; expected arrays, a list of them, plans and plan_bytes"
        )
    return held


def _of(label: str) -> str:
    return f"{label}: the allocator's"


def _partitions(prepared: "Prepared") -> Iterator[tuple[str, str, Any]]:
    """Yield the label, name and compiled form of each partition that reports its memory."""
    for partition in prepared.assignment.partitions:
        compiled = prepared.compiled.partitions[partition.name]
        if holds_memory(compiled):
            yield prepared.assignment.label(partition), partition.name, compiled


def _allocator(provider: ExecutionProvider) -> Any:
    """Return the provider's allocator if it has statistics."""
    found = ask(provider, "allocator")
    return found if hasattr(found, "statistics") else None


def _constants(model: Model) -> Iterator[Any]:
    for graph in all_graphs(model.graph):
        for value in graph.initializers.values():
            if isinstance(value.constant, np.ndarray):
                yield value.constant


def _unique(arrays: Iterable[Any]) -> Iterator[Any]:
    seen = set[tuple[int, int]]()
    for array in arrays:
        key = (address_of(array), array.nbytes)
        if key not in seen:
            seen.add(key)
            yield array


def _root(array: Any) -> int:
    """Return the address of the memory of which an array is a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return address_of(array)


def charge(prepared: "Prepared", session_memory: SessionMemory) -> None:
    """Deduct constants and packed weights from the session's limit. Raises OutOfMemory if they exceed it."""
    session_memory.budget.take(_weights(prepared, session_memory), "constants and packed weights")


def refund(prepared: "Prepared", session_memory: SessionMemory, drop: Callable[[], object]) -> None:
    """Call `drop`, and give the session's limit the bytes of the constants back that it frees."""
    before = _weights(prepared, session_memory)
    drop()
    session_memory.budget.take(_weights(prepared, session_memory) - before, "constants and packed weights")


def _weights(prepared: "Prepared", session_memory: SessionMemory) -> int:
    """Return the bytes of constants in memory and of packed weights."""
    held = figures([prepared], session_memory)
    return int(held["constants"] - held["constants_in_files"] + held["packed_weights"])


def trim(prepared: Iterable["Prepared"], session_memory: SessionMemory) -> None:
    """Release idle scratch memory, caches that partitions can rebuild, and free regions of the providers' allocators.

    Everything is trimmed even if one part fails; the first error is raised at the end.
    """
    failures = lifecycle.failures_of(call for each in prepared for call in _trims(each))
    session_memory.trim()
    lifecycle.raise_first(failures)


def _trims(prepared: "Prepared") -> Iterator[Callable[[], object]]:
    for name, partition in prepared.compiled.partitions.items():
        if trims(partition):
            yield partial(ask_object, partition, "trim", name)
    for label, provider in prepared.assignment.providers.items():
        yield partial(_shrink, provider, label)


def _shrink(provider: ExecutionProvider, label: str) -> None:
    if (allocator := _allocator(provider)) is not None:
        ask_object(allocator, "shrink", _of(label))


def shrinking(
    options: RunOptions, providers: Mapping[str, ExecutionProvider], session_memory: SessionMemory
) -> tuple[Callable[[], None], ...]:
    """Return the functions to call after a run with these options. Raises InvalidArgument for a device without an arena."""
    text = options.config(SHRINK, "")
    devices: dict[str, list[Any]] = {str(CPU): [session_memory.trim]}
    for label, provider in providers.items():
        if (allocator := _allocator(provider)) is not None:
            devices.setdefault(str(allocator.device), []).append(partial(ask_object, allocator, "shrink", _of(label)))
    wanted = [part.strip() for part in text.split(";") if part.strip()]
    for device in wanted:
        if device not in devices:
            raise InvalidArgument(f"{SHRINK} is {text!r}: {device!r} has no arena here; those are {', '.join(devices)}")
    return tuple(shrink for device in wanted for shrink in devices[device])
