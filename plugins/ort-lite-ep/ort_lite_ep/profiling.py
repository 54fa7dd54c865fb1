"""Profiles: the events of a provider and of the kernels in its partitions, on onnxruntime's timeline."""

import os
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_void_p
from time import perf_counter_ns
from typing import Any

from ort_lite.provider import CURRENT, RECORDED, ExecutionProvider, ProfileEvent, StepEvents
from ort_lite_ep.c_api import CApi

_KERNEL = 2  # OrtProfilingEventCategory


class Profile:
    """The profile of a provider in one session. `offset`: nanoseconds since onnxruntime's profile began."""

    def __init__(self, provider: ExecutionProvider, offset: int) -> None:
        self._provider, self._offset, self._begin = provider, offset, perf_counter_ns()
        self.kernels: list[tuple[Any, ...]] = []
        provider.start_profiling()
        RECORDED.count(1)

    def end(self, api: CApi, container: int) -> None:
        """Add the events to an OrtProfilingEventsContainer."""
        RECORDED.count(-1)
        for event in self._provider.end_profiling():
            self._add(api, container, event)
        for name, begin, end, args, _, thread in self.kernels:
            self._add(api, container, ProfileEvent(name, begin, end, args, thread))

    def _add(self, api: CApi, container: int, event: ProfileEvent) -> None:
        texts = [[str(text).encode() for text in side] for side in (event.args.keys(), event.args.values())]
        keys, values = ((c_char_p * len(side))(*side) for side in texts)
        begin, length = (self._offset + event.begin - self._begin) // 1000, (event.end - event.begin) // 1000
        made, place = c_void_p(), (_KERNEL, os.getpid(), event.thread or -1)
        api.call("CreateProfilingEvent", *place, event.name.encode(), begin, length, keys, values, len(keys), byref(made))
        try:
            api.call("ProfilingEventsContainer_AddEvents", container, byref(made), 1)
        finally:
            api.other("ReleaseProfilingEvent", made)


class ProfiledPartition:
    """A partition while its session is profiled: kernels that it runs are recorded."""

    def __init__(self, partition: Any, profile: Profile, provider: str) -> None:
        self.partition, self._profile, self._provider = partition, profile, provider

    def compute(self, context: int, numbers: Sequence[int]) -> None:
        """Run the partition."""
        outer, CURRENT.events = CURRENT.events, StepEvents(self._profile.kernels, self._provider)
        try:
            self.partition.compute(context, numbers)
        finally:
            CURRENT.events = outer
