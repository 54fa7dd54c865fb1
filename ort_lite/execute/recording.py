"""Steps of devices that are still at work: partitions that record their completion, and steps that wait for others' work."""

from collections.abc import Sequence
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.execute.guard import Stateful
from ort_lite.execute.results import Wrapper, check_results
from ort_lite.execute.waiting import DeviceEvent, leave_wait, waits_on_device
from ort_lite.provider.ask import format_answer, name_errors, who
from ort_lite.provider.compiled import HasEvents
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CompiledPartition, ExecutionProvider, Partition


class RecordingPartition(Wrapper):
    """A partition on a device that records the completion of each call (see `HasEvents`).

    Its results are followed by the notification, and the run waits at its end. With `waits`, it waits at once instead.
    """

    def __init__(self, function: CompiledPartition, partition: Partition, compiled: HasEvents, waits: bool) -> None:
        self.function, self.waits = function, waits
        self._provider, self._outputs = who(partition.provider), len(partition.outputs)
        self._step = f"{partition.name} ({self._provider})"
        inner = function
        while isinstance(inner, Wrapper):
            inner = inner.function
        self._record = inner.record if isinstance(inner, Stateful) else compiled.record

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        results = check_results(self.function(inputs), self._outputs, self._step)
        with name_errors(f"{self._step}: record"):
            notification: Any = self._record()
        if not callable(getattr(notification, "wait_on_host", None)):
            came = format_answer(notification)
            raise ProviderError(f"{self._step}: record returned {came}; expected a notification with `wait_on_host`")
        event = DeviceEvent(self._step, self._provider, notification)
        if self.waits:
            event.wait(CURRENT.options)
            return results
        leave_wait(event)
        return [*results, event]


class After(Wrapper):
    """A step that first waits for the work of others: the events that follow its inputs.

    The queue of `waiter` waits if it can, otherwise the host does.
    """

    def __init__(self, function: CompiledPartition, count: int, waiter: ExecutionProvider | None = None) -> None:
        self.function, self._count, self._waiter = function, count, waiter

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        for event in inputs[len(inputs) - self._count :]:
            if not waits_on_device(self._waiter, event):
                event.wait(CURRENT.options)
        return self.function(inputs[: len(inputs) - self._count])
