"""The memory of a binding between runs, so that partitions capture a call once and replay it (see `Replays`)."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.execute.donation import Lending, lending_of
from ort_lite.execute.execute import Call, Executable, Step, call_step
from ort_lite.execute.results import MemberCall, Wrapper
from ort_lite.provider.ask import format_answer
from ort_lite.provider.compiled import Replay
from ort_lite.provider.provider import CompiledPartition
from ort_lite.record import Record


class _LastCall(Record, frozen=False, eq=False):
    """The values of the last call of a partition and, once it is captured, the step that replays it."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    step: Step | None = None

    def allows(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Return True if the values are the same objects, with the same shapes and addresses. Before a capture, only inputs count."""
        return _same(self.inputs, inputs) and (self.step is None or _same(self.outputs, outputs))


def _same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return len(before) == len(now) and all(x is y for x, y in zip(before, now, strict=True))


class KeptMemory:
    """The values that stay between the runs of one binding, which one thread uses at a time.

    `bound` has the values on devices that outputs are bound to in the next run, by name. A partition whose output is returned
    without being bound makes a new value in each run, and does not replay.
    """

    bound: Mapping[str, Any]

    def __init__(self) -> None:
        self._executable: Executable | None = None
        self._last: dict[str, _LastCall] = {}
        self._targets: dict[int, Any] = {}
        self._returned: set[int] = set()

    def calls(self, executable: Executable, names: Sequence[str]) -> Call:
        """Return the function that calls the steps of a run, whose outputs are `names`. Forgets the memory of another executable."""
        if executable is not self._executable:
            self._executable = executable
            self._last.clear()
        bound = self.bound
        pairs = [(slot, name) for slot, name in zip(executable.result_slots, names, strict=True) if type(slot) is int]
        self._returned = {slot for slot, _ in pairs}
        self._targets = {slot: bound[name] for slot, name in pairs if name in bound}
        return self._call

    def targets(self) -> set[int]:
        """Return the ids of the values that outputs are bound to."""
        return set(map(id, self._targets.values()))

    def _call(self, step: Step, inputs: list[Any]) -> Sequence[Any]:
        lending = lending_of(step.function)
        if lending is None or not lending.replays:
            return call_step(step, inputs)
        own = inputs[: len(lending.partition.inputs)]
        last = self._last.pop(step.name, None)
        outputs = None if last is None else self._outputs(step, lending, own, last)
        if last is None or outputs is None or not last.allows(own, outputs):
            results = call_step(step, inputs)
            self._last[step.name] = _LastCall(own, results[: len(lending.partition.outputs)])
            return results
        if last.step is None:
            last.outputs = outputs
            last.step = step.replace(function=_replace(step.function, lending, _Repeated(lending, own, outputs)))
        results = call_step(last.step, inputs)
        self._last[step.name] = last
        return results

    def _outputs(self, step: Step, lending: Lending, own: Sequence[Any], last: _LastCall) -> list[Any] | None:
        """Return the values to compute; None if one is new in each run, or is an input that the partition may not write to."""
        found = []
        for k, slot in enumerate(step.outputs[: len(lending.partition.outputs)]):
            if slot in self._returned and slot not in self._targets:
                return None
            found.append(self._targets[slot] if slot in self._targets else last.outputs[k])
            place = next((x for x, value in enumerate(own) if value is found[k]), None)
            if place is not None and lending.aliases.get(k) != place:
                return None
        return found


def _replace(function: Any, lending: Lending, by: CompiledPartition) -> CompiledPartition:
    """Return the function of a step with another partition in its wrappers."""
    if function is lending:
        return by
    made = copy(function)
    made.function = _replace(function.function, lending, by)
    found: CompiledPartition = made
    return found


class _Repeated(Wrapper):
    """A call that is captured the first time and replayed later, behind the guards of the partition."""

    def __init__(self, lending: Lending, inputs: Sequence[Any], outputs: list[Any]) -> None:
        self.function, self._lending, self._inputs, self._outputs = lending.function, lending, inputs, outputs
        self._replay: Replay | None = None

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        call: Any = MemberCall(self._compute, inputs)  # the guards pass it on to `with_members`
        return self.function(call)

    def _compute(self, inputs: Sequence[Any], *state: Any) -> list[Any]:
        if self._replay is not None:
            self._replay(self._inputs, self._outputs, *state)
            return self._outputs
        found: Any = self._lending.compiled.capture(self._inputs, self._outputs, *state)
        if not callable(found):
            raise ProviderError(f"{self._lending.who}: capture returned {format_answer(found)}; expected a function")
        self._replay = found
        return self._outputs
