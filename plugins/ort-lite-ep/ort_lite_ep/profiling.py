"""Profiles: the events of a provider and of the kernels in its partitions, on onnxruntime's timeline."""

import os
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_void_p
from time import perf_counter_ns
from typing import Any

from ort_lite.provider import CURRENT, RECORDED, ExecutionProvider, ProfileEvent, StepEvents
from ort_lite_ep.c_api import CApi

_KERNEL = 2  # OrtProfilingEventCategory


class _Profile:
    """A profile of onnxruntime. `offset`: nanoseconds since it began."""

    def __init__(self, offset: int) -> None:
        self._offset, self._begin = offset, perf_counter_ns()
        self.kernels: list[tuple[Any, ...]] = []

    def add(self, api: CApi, container: int, event: ProfileEvent) -> None:
        """Add an event to an OrtProfilingEventsContainer."""
        texts = [[str(text).encode() for text in side] for side in (event.args.keys(), event.args.values())]
        keys, values = ((c_char_p * len(side))(*side) for side in texts)
        begin, length = (self._offset + event.begin - self._begin) // 1000, (event.end - event.begin) // 1000
        made, place = c_void_p(), (_KERNEL, os.getpid(), event.thread or -1)
        api.call("CreateProfilingEvent", *place, event.name.encode(), begin, length, keys, values, len(keys), byref(made))
        try:
            api.call("ProfilingEventsContainer_AddEvents", container, byref(made), 1)
        finally:
            api.other("ReleaseProfilingEvent", made)


class Profiles:
    """The profiles of a session that are under way: that of the session, and those of single runs."""

    def __init__(self, provider: ExecutionProvider) -> None:
        self._provider = provider
        self._active: dict[int, _Profile] = {}

    def __bool__(self) -> bool:
        return bool(self._active)

    def start(self, profiler: int, offset: int) -> None:
        """Start the profile of an OrtEpProfilerImpl. The provider's own events go to the last one that ends."""
        profile = _Profile(offset)  # reads the clock before anything that takes time
        if not self._active:
            self._provider.start_profiling()
            RECORDED.count(1)
        self._active[profiler] = profile

    def end(self, api: CApi, profiler: int, container: int) -> None:
        """Add the events of a profile to an OrtProfilingEventsContainer."""
        profile = self._active.pop(profiler)
        for name, begin, end, args, _, thread in profile.kernels:
            profile.add(api, container, ProfileEvent(name, begin, end, args, thread))
        if not self._active:
            RECORDED.count(-1)
            for event in self._provider.end_profiling():
                profile.add(api, container, event)

    def close(self) -> None:
        """Drop profiles that nobody ended, as those of a session whose creation failed."""
        if self._active:
            self._active.clear()
            RECORDED.count(-1)

    def record(self, kernels: Sequence[tuple[Any, ...]]) -> None:
        """Add kernels that a partition ran."""
        for profile in list(self._active.values()):
            profile.kernels.extend(kernels)


class ProfiledPartition:
    """A partition while its session is profiled: kernels that it runs are recorded."""

    def __init__(self, partition: Any, profiles: Profiles, provider: str) -> None:
        self.partition, self._profiles, self._provider = partition, profiles, provider

    def compute(self, context: int, described: bytes) -> None:
        """Run the partition."""
        kernels = list[tuple[Any, ...]]()
        outer, CURRENT.events = CURRENT.events, StepEvents(kernels, self._provider)
        try:
            self.partition.compute(context, described)
        finally:
            CURRENT.events = outer
            self._profiles.record(kernels)
