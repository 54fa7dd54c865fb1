"""Optional members of a compiled partition, each a Protocol of its own to type against.

A class that has the methods of one has what it stands for; nothing is registered. ort_lite asks by `ort_lite.provider.abilities`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from ort_lite.graph.graph import Value


class Holdings(TypedDict):
    """`arrays` that a partition reads, packed weights among them, and what it keeps for each shape."""

    arrays: list[Any]
    plans: int
    plan_bytes: int


class ComputesInto(Protocol):
    """A partition that can compute into memory of its caller. `targets` holds, for each output, None or a C-contiguous array
    that shares no memory with an input. It may compute such an output there and return the array itself, if type and shape
    are right.
    """

    def into(self, inputs: Sequence[Any], targets: Sequence[Any]) -> Sequence[Any]: ...


class ComputesIntoMemory(Protocol):
    """A partition on a device whose provider has an `allocator()`; called in place of a call. `memory` holds, for each
    output, a handle of as many bytes as it has, or None if only the run tells its size. It computes such an output there
    and returns an object of its own that a weak reference may point to; when it is gone, the handle goes back to the
    allocator. `state` is passed to one that has a state.
    """

    def into_memory(self, inputs: Sequence[Any], memory: Sequence[Any], *state: Any) -> Sequence[Any]: ...


class TellsFacts(Protocol):
    """A partition with facts for `InferenceSession.explain()`; "python_steps" is summed."""

    def facts(self) -> Mapping[str, int | str]: ...


class HoldsMemory(Protocol):
    """A partition with figures for `InferenceSession.memory()`."""

    def memory(self) -> Holdings: ...


class Trims(Protocol):
    """Forgets what it keeps for each shape."""

    def trim(self) -> None: ...


class PlansMemory(Protocol):
    """Its printed result is what `ort-lite dump --stage plan` shows after a run."""

    def memory_plan(self) -> Any: ...


class HasState(Protocol):
    """It is called as `compiled(inputs, state)`. A session makes one state before its first run, or one a thread where the
    provider's `concurrency` is "per-thread".
    """

    def create_state(self) -> Any: ...


class ReleasesState(HasState, Protocol):
    """Told when the session is closed or collected and no run is in flight."""

    def release_state(self, state: Any) -> None: ...


class ConsumesConstants(Protocol):
    """The Values of `partition.constants` whose arrays it will not read again, because it holds them in a form of its own.
    A session gives up the array of a constant that all its readers absorbed.
    """

    @property
    def absorbed(self) -> Sequence[Value]: ...


class Restores(ConsumesConstants, Protocol):
    """It can make the array of a Value that it absorbed again, bit for bit: what `restorer` returns does, as long as it lives.
    Such a constant is there for whoever asks, and the partition itself may ask.
    """

    def restorer(self, value: Value) -> Callable[[], Any]: ...


class DefersCompile(Protocol):
    """A `nested` partition that leaves work undone until it knows whether the provider of the node around it will call it.
    `complete` is called once when all partitions of a session are compiled, the outer ones first, and raises what
    `compile` would. An error that says that shapes, contents or memory do not fit (Fail, InvalidArgument, InvalidGraph,
    MemoryError) does not stop the session: the body may never run. Calling the partition then raises it.
    """

    def complete(self) -> None: ...


class HasMachineImage(Protocol):
    """A partition that `ort_lite.tools.machine` can step through: its instructions over one piece of memory, for these
    inputs.
    """

    def machine_image(self, inputs: Sequence[Any], order: Sequence[int] | None = None) -> Any: ...
