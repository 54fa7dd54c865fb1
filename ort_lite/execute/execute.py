"""Stage 6: run a compiled graph. Steps run in order, and each value is dropped after its last reader. A run keeps its own state."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np

from ort_lite.errors import OrtLiteError, OutOfMemory, RuntimeException, format_error
from ort_lite.execute.results import Expected, ExpectedHost, check_results
from ort_lite.graph.graph import Value
from ort_lite.memory.sliced_copy import copy
from ort_lite.options.options import RunOptions
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CPU, CompiledPartition, Device, ExecutionProvider
from ort_lite.record import Record, field


class Step(Record):
    """A partition or a copy. Values are in numbered slots; no later step reads those in `dead`.

    `route` names the source and destination of a copy ("cpu:0 -> npu:0"). It is set on the step that waits for the copy to finish.
    """

    name: str
    provider: str
    function: CompiledPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dead: tuple[int, ...]
    route: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.provider})"


def call_step(step: Step, inputs: list[Any]) -> Sequence[Any]:
    """Call a step and return its results; an error names the step."""
    try:
        results = step.function(inputs)
    except OrtLiteError as error:
        _note(step, error)
        raise
    except Exception as error:
        raise _failure(step, error) from error
    if type(results) is list and len(results) == len(step.outputs):
        return results
    return check_results(results, len(step.outputs), str(step))


Call = Callable[[Step, list[Any]], Sequence[Any]]
"""`call_step` or a wrapper around it."""


class Executable(Record):
    """A compiled graph level. `run` takes one value per entry of `inputs`, in order, and returns one per entry of `outputs`.

    Slots 0 to len(inputs) - 1 hold the inputs. `result_slots` has the slot of each output, or its value if it is a constant.
    `outputs_may_alias` is True if an output may be an input, a constant or another output, or a list that holds one. If a single
    step computes everything (`direct`), it is called without slots; `picks` are the indices of the inputs that it reads, None for
    all of them. `notifications` are the slots that hold pending copies until a later step waits for them. `donated` are the
    inputs whose memory steps take over (see `ort_lite.execute.donation`).
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    slots: int
    result_slots: tuple[int | Any, ...]
    outputs_may_alias: bool
    direct: CompiledPartition | None = None
    picks: tuple[int, ...] | None = None
    notifications: tuple[int, ...] = ()
    donated: frozenset[Value] = frozenset()

    def run(self, inputs: Sequence[Any], options: RunOptions | None = None, call: Call = call_step) -> list[Any]:
        """Run all steps.

        Raises RuntimeException naming the partition and the provider, OutOfMemory if memory ran out there, and RunTerminated once
        `options.terminate` is set.
        """
        if self.direct is not None and options is None and call is call_step:
            return self._run_direct(inputs, self.direct)
        if options is None:
            return self._run_steps(inputs, None, call)
        outer, CURRENT.options = CURRENT.options, options
        try:
            return self._run_steps(inputs, options, call)
        finally:
            CURRENT.options = outer

    def run_without_aliases(self, inputs: Sequence[Any], options: RunOptions | None) -> list[Any]:
        """Run all steps, and copy outputs that alias an input, a constant or another output."""
        outputs = self.run(inputs, options)
        return copy_aliases(outputs, [*inputs, *self.constants]) if self.outputs_may_alias else outputs

    @property
    def constants(self) -> list[Any]:
        """The constants among the outputs."""
        return [value for value in self.result_slots if type(value) is not int]

    def _run_steps(self, inputs: Sequence[Any], options: RunOptions | None, call: Call) -> list[Any]:
        slots: list[Any] = [None] * self.slots
        slots[: len(inputs)] = inputs
        try:
            for step in self.steps:
                if options is not None and options.terminate:
                    raise options.termination(f"before {step.name}")
                given = [slots[k] for k in step.inputs]
                results = call(step, given)
                for k, result in zip(step.outputs, results, strict=True):
                    slots[k] = result
                for k in step.dead:
                    slots[k] = None
        except BaseException:
            wait_for([slots[k] for k in self.notifications], slots, options)
            raise
        return [slots[r] if type(r) is int else r for r in self.result_slots]

    def run_into(
        self, inputs: Sequence[Any], targets: Sequence[Any], bases: Mapping[int, Any] = MappingProxyType({})
    ) -> list[Any] | None:
        """Run into the arrays that `targets` has for outputs, if a single partition computes everything and has an `into`.

        Otherwise runs nothing and returns None. A partition with `growths` may get `bases` (see `DeclaresGrowth`).
        """
        direct: Any = self.direct
        if bases:
            return self._run_direct(inputs, direct.grow, targets, bases)
        into = getattr(direct, "into", None)
        return None if into is None else self._run_direct(inputs, into, targets)

    def _run_direct(self, inputs: Sequence[Any], function: Callable[..., Sequence[Any]], *given: Any) -> list[Any]:
        wanted = inputs if self.picks is None else [inputs[k] for k in self.picks]
        try:
            results = function(wanted, *given)
        except OrtLiteError as error:
            _note(self.steps[0], error)
            raise
        except Exception as error:
            raise _failure(self.steps[0], error) from error
        if type(results) is list and len(results) == len(self.outputs):
            return results
        return list(check_results(results, len(self.outputs), str(self.steps[0])))


def wait_for(notifications: Sequence[Any], slots: Sequence[Any], options: RunOptions | None) -> None:
    """Wait for pending copies, so that a failed run leaves none that still uses its memory. Ignores their errors.

    If the run must end, a thread goes on waiting, and keeps the values in `slots` alive.
    """
    pending = [notification for notification in notifications if notification is not None]
    if not pending:
        return
    from ort_lite.execute.waiting import wait_for_device

    def wait(held: Sequence[Any] = tuple(slots)) -> None:
        for notification in pending:
            with suppress(Exception):
                notification.wait_on_host()

    with suppress(OrtLiteError):
        wait_for_device(wait, options, "its copies")


def _failure(step: Step, error: Exception) -> OrtLiteError:
    kind = OutOfMemory if isinstance(error, MemoryError) else RuntimeException
    return kind(f"{step} failed: {format_error(error)}").about(provider=step.provider)


def _note(step: Step, error: OrtLiteError) -> None:
    """Record on one of ort-lite's own errors which step raised it."""
    error.about(provider=step.provider)
    note = f"in {step}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def copy_aliases(outputs: list[Any], given: Sequence[Any], options: RunOptions | None = None) -> list[Any]:
    """Return the outputs, copying those that alias an input, a constant or another output.

    Lists are always copied, because their elements may be shared too. Raises RunTerminated between two slices if
    `options.terminate` is set.
    """
    seen = {id(value) for value in given}
    for k, value in enumerate(outputs):
        if id(value) in seen or isinstance(value, list):
            outputs[k] = deep_copy(value, options)
        seen.add(id(value))
    return outputs


def deep_copy(value: Any, options: RunOptions | None = None) -> Any:
    """Return a deep copy, arrays included. Raises RunTerminated between two slices if `options.terminate` is set."""

    def check() -> None:
        if options is not None and options.terminate:
            raise options.termination("while its results were copied")

    return _deep_copy(value, check)


def _deep_copy(value: Any, check: Callable[[], None]) -> Any:
    if isinstance(value, np.ndarray):
        return copy(value, check)
    if isinstance(value, list):
        check()
        return [_deep_copy(item, check) for item in value]
    if isinstance(value, dict):
        check()
        return {key: _deep_copy(item, check) for key, item in value.items()}
    return value


class CompiledBody(Record, frozen=False):
    """A nested graph for the provider that runs its control-flow node (see `ort_lite.provider.Body`)."""

    executable: Executable
    captures: tuple[Value, ...]
    expected: Expected | ExpectedHost | None = None
    """The checks of its arguments on the CPU, unless its provider is `exact`."""
    copies: "list[CompiledBody]" = field(default_factory=list)
    on_device: Mapping[Value, ExecutionProvider] = field(default_factory=dict)
    """The inputs, captures and outputs in the memory of the provider that calls the body."""

    @property
    def device(self) -> Device:
        """The device of its values, but for those on the host."""
        return next((provider.device for provider in self.on_device.values()), CPU)

    @property
    def host_inputs(self) -> frozenset[int]:
        """The positions of NumPy arrays among inputs and captures."""
        return frozenset(k for k, value in enumerate(self.executable.inputs) if value not in self.on_device)

    @property
    def host_outputs(self) -> frozenset[int]:
        """The positions of NumPy arrays among outputs."""
        return frozenset(k for k, value in enumerate(self.executable.outputs) if value not in self.on_device)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the body, in order."""
        return self.executable.steps

    @property
    def result_slots(self) -> tuple[int | Any, ...]:
        """The slot of each result, or its value if it is a constant."""
        return self.executable.result_slots

    def with_captures(self, captures: tuple[Value, ...]) -> "CompiledBody":
        """Return the same body for a copy of the enclosing graph, in which `captures` replace the captures of this one."""
        self.copies.append(self.replace(captures=captures, copies=[]))
        return self.copies[-1]

    def relink(self, executable: Executable) -> None:
        """Replace the executable of this body and of all its copies."""
        for body in (self, *self.copies):
            body.executable = executable

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]:
        watch = CURRENT.watch
        executable: Executable = self.executable if watch is None else watch(self.executable)
        given: Sequence[Any] = [*inputs, *captures]
        return executable.run(given if self.expected is None else self.expected(given), CURRENT.options)
