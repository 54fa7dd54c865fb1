"""Optional members of a compiled partition, each defined by a Protocol.

A class that has the methods has the ability; nothing is registered. ort_lite checks with `ort_lite.provider.abilities`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from ort_lite.graph.graph import Value
from ort_lite.provider.notifications import SyncNotification
from ort_lite.record import Record, field


class Holdings(TypedDict):
    """The memory of a partition: the `arrays` that it reads, packed weights included, and its data cached per shape."""

    arrays: list[Any]
    plans: int
    plan_bytes: int


class ComputesInto(Protocol):
    """A partition that can compute into memory of its caller.

    `targets` holds, for each output, None or a C-contiguous array that shares no memory with an input. The partition may
    compute such an output there and return the array itself if type and shape match. If it has `aliases`, the array of an output
    may also be that of its input (see `DeclaresAliases`).
    """

    def into(self, inputs: Sequence[Any], targets: Sequence[Any]) -> Sequence[Any]:
        """Run with outputs computed in `targets` where possible, and return all outputs."""


class ComputesIntoMemory(Protocol):
    """A partition on a device that computes into handles of its provider's `allocator()`.

    It is called instead of the partition itself. `memory` holds, for each output, a handle of as many bytes as the output has,
    or None if only the run tells its size. The partition computes such an output there and returns an object of its own that
    supports weak references; when that object is gone, the handle returns to the allocator. A partition with a state gets it as
    `state`.
    """

    def into_memory(self, inputs: Sequence[Any], memory: Sequence[Any], *state: Any) -> Sequence[Any]:
        """Run with outputs computed in `memory`, and return all outputs."""


class TakesDonations(Protocol):
    """A partition on a device that can compute into the memory of inputs that nobody reads afterwards.

    It then promises that what any of its calls returns shares no memory with another output, or with an input that was not
    donated. Donated are values that were made in the run, by a copy or by another such partition of the provider, and those of a
    RunState that nobody else holds.
    """

    def call_donating(self, inputs: Sequence[Any], donated: frozenset[int], *state: Any) -> Sequence[Any]:
        """Run and return all outputs. `donated` holds the positions of such inputs.

        It is called instead of the partition if an input is donated. An output may be the donated value itself. Otherwise it must
        keep the donated value alive as long as it uses its memory. A partition that has `into_memory` too is called so only for
        its `aliases`.
        """


class DeclaresAliases(Protocol):
    """A partition with outputs that it computes in place, in the memory of an input: the present and the past of a cache.

    If a user binds one OrtValue to both, or a RunState holds the input, no copy is made. On a device, the input is donated
    (`TakesDonations`). On the CPU, the array of the input is the target of the output (`ComputesInto`).
    """

    @property
    def aliases(self) -> Mapping[int, int]:
        """The position of the input in whose memory an output is computed if that input is donated, by the output's position."""


class DeclaresGrowth(Protocol):
    """A partition on the CPU with outputs that are an input followed by more rows: the present and the past of a cache that grows.

    If a RunState holds the input, ort-lite may keep it in a larger array that has room for more rows. No row is copied then.
    """

    @property
    def growths(self) -> Mapping[int, tuple[int, int]]:
        """The position of the input with which an output begins, and the axis of the rows, by the output's position."""

    def grow(self, inputs: Sequence[Any], targets: Sequence[Any], bases: Mapping[int, Any]) -> Sequence[Any]:
        """Run as `ComputesInto.into` does, and return all outputs.

        `bases` has C-contiguous arrays by the positions of outputs. The input of such an output is a view of the array, up to some row.
        The partition computes the output behind it and returns a longer view, or, if the array is too short, another array.
        It writes to no row of the input, unless that is one of its `aliases`.
        """


Replay = Callable[..., None]
"""A captured call. It is called as `replay(inputs, outputs, *state)`, with the values of the capture, and computes `outputs`."""


class Replays(Protocol):
    """A partition on a device that can record a call with all its addresses, and repeat it at a lower cost.

    Runs of an IOBinding in which all outputs on the device are bound to OrtValues keep their memory. The second run in which the
    inputs and outputs of the partition are the same values captures; later ones replay.
    """

    def capture(self, inputs: Sequence[Any], outputs: Sequence[Any], *state: Any) -> Replay:
        """Compute `outputs`, values that earlier calls returned or that users bound, and return a function that repeats it.

        The contents of the inputs may differ when the function is called, not their memory and shapes. The function keeps
        what it needs; it is dropped with the binding, or when another value is bound.
        """


class HasEvents(Protocol):
    """A partition on a device whose calls return before the device has finished.

    After each call, ort-lite asks in the same thread for a notification of its completion. A bound run then returns at once;
    `run` waits, and so does the first use of a result. An error that `wait_on_host` raises is reported with the name of the
    partition. A partition with a state gets it as `state`.
    """

    def record(self, *state: Any) -> SyncNotification:
        """Return the completion of this thread's last call."""


class TellsFacts(Protocol):
    """A partition with facts for `InferenceSession.explain()`. "python_steps" is summed over partitions."""

    def facts(self) -> Mapping[str, int | str]:
        """Return names with numbers or short texts."""


class CandidateCost(Record):
    """The predicted cost of a kernel that can compute a node: microseconds of one thread."""

    kernel: float
    moves: float = 0.0
    """The changes of layout around the kernel."""

    @property
    def total(self) -> float:
        """The kernel and the changes of layout together."""
        return self.kernel + self.moves

    def times(self, count: int) -> "CandidateCost":
        """Return the cost of so many calls."""
        return CandidateCost(self.kernel * count, self.moves * count)


class KernelChoice(Record):
    """The kernels that compute a node, and the candidates that were compared."""

    kernels: tuple[str, ...]
    taken: str
    """The name of the candidate that computes the node. Where there is no choice, those of its kernels, with "+" between them."""
    costs: Mapping[str, CandidateCost]
    """The predicted cost of each candidate that fits, by its name.

    Open dimensions count as 256, or where a node has no choice of kernels as what they were in the last run.
    """
    rejected: Mapping[str, str] = field(default_factory=dict)
    """The reason why each of the others does not fit."""
    instruction: str = ""
    """The instruction that multiplies in its kernels, by its name in `ort_lite.native.instructions`, or "" if unknown."""

    @property
    def predicted(self) -> float:
        """The predicted microseconds of one thread in the kernels."""
        return self.costs[self.taken].kernel

    @property
    def runner_up(self) -> str:
        """The cheapest of the candidates that were not taken, or "" if no other fits."""
        return min((name for name in self.costs if name != self.taken), key=lambda name: self.costs[name].total, default="")


class TellsKernels(Protocol):
    """A partition with the kernels of its nodes, for `InferenceSession.explain(kernels=True)`."""

    def kernels(self) -> Mapping[str, KernelChoice]:
        """Return the choice for each node, by the node's name."""


class HoldsMemory(Protocol):
    """A partition with figures for `InferenceSession.memory()`."""

    def memory(self) -> Holdings:
        """Return the memory that the partition holds."""


class Trims(Protocol):
    """A partition that can release data cached per shape."""

    def trim(self) -> None:
        """Free what the next run can compute again."""


class PreparesCalls(Protocol):
    """A partition that can create ahead of runs what only some of them need."""

    def prepare_calls(self) -> None:
        """Create what runs of other branches and loops would create."""


class PlansMemory(Protocol):
    """A partition whose printed memory plan `ort-lite dump --stage plan` shows after a run."""

    def memory_plan(self) -> Any:
        """Return the MemoryPlan of the shapes of the last run."""


class HasState(Protocol):
    """A partition that is called as `compiled(inputs, state)`.

    A session creates one state before its first run, or one per thread if the provider's `concurrency` is "per-thread".
    """

    def create_state(self) -> Any:
        """Create what a call needs besides its inputs."""


class ReleasesState(HasState, Protocol):
    """A partition whose states must be released. Called when the session is closed or collected and no run is in flight."""

    def release_state(self, state: Any) -> None:
        """Release what `create_state` created."""


class ConsumesConstants(Protocol):
    """A partition that no longer reads the arrays of some constants because it holds them in a form of its own.

    A session drops the array of a constant that all its readers have consumed.
    """

    @property
    def absorbed(self) -> Sequence[Value]:
        """The values of `partition.constants` whose arrays the partition no longer needs."""


class Restores(ConsumesConstants, Protocol):
    """A partition that can recreate the arrays of constants that it consumed, bit for bit, as long as it lives.

    Such a constant remains available to everyone, including the partition itself.
    """

    def restorer(self, value: Value) -> Callable[[], Any]:
        """Return a function that recreates the array of a consumed constant."""


class KnowsUnread(Protocol):
    """A partition that can tell which arrays it will not read again. A session drops those that are in a file as they are."""

    def unread(self, constants: Iterable[Value]) -> Collection[Value]:
        """Return the constants whose arrays no run reads again, whatever its shapes."""


class DefersCompile(Protocol):
    """A `nested` partition that delays work until it is known if the provider of the surrounding node will call it.

    `complete` is called once after all partitions of a session are compiled, the outer ones first. If it raises an error about
    shapes, contents or memory (Fail, InvalidArgument, InvalidGraph, MemoryError), session creation goes on because the body may
    never run; calling the partition then raises the error.
    """

    def complete(self) -> None:
        """Do the delayed work. Raises the errors of `compile`."""


class HasMachineImage(Protocol):
    """A partition that `ort_lite.tools.machine` can step through: instructions over one piece of memory."""

    def machine_image(self, inputs: Sequence[Any], order: Sequence[int] | None = None) -> Any:
        """Return the instructions and the memory for these inputs."""
