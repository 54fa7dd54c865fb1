"""Events of XLA's own profiler: the operations that a device ran, at the times of its clock."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax

from ort_lite.errors import ProviderError
from ort_lite.provider import ProfileEvent

CLOCK = "ort-lite: clock"
"""An event of the host at a known time, which relates XLA's clock to `time.perf_counter_ns`."""


class DeviceRecording:
    """A recording of all devices of this process, from its creation to `events`. JAX allows one at a time."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="ort-lite-xla-")
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = 1, 0
        try:
            jax.profiler.start_trace(self._folder.name, profiler_options=options)
        except RuntimeError as error:
            self._folder.cleanup()
            raise ProviderError(
                f"JAX's profiler did not start; end the other recording of this process first: {error}"
            ) from error
        self._began = time.perf_counter_ns()
        with jax.profiler.TraceAnnotation(CLOCK):
            pass

    def events(self) -> list[ProfileEvent]:
        """End the recording, and return the operations in order."""
        with self._folder as folder:
            jax.profiler.stop_trace()
            found = [event for path in Path(folder).rglob("*.xplane.pb") for event in _read_events(path)]
        zero = self._began - next((int(event.start_ns) for event in found if event.name == CLOCK), 0)
        made = [_event(event, zero) for event in found if "hlo_op" in dict(event.stats)]
        return sorted(made, key=lambda event: event.begin)


def _read_events(path: Path) -> Iterator[Any]:
    data = jax.profiler.ProfileData.from_file(str(path))
    return (event for plane in data.planes for line in plane.lines for event in line.events)


def _event(event: Any, zero: int) -> ProfileEvent:
    stats = dict(event.stats)
    begin = zero + int(event.start_ns)
    args = {"module": str(stats.get("hlo_module", "")), "device": int(stats.get("device_ordinal", 0))}
    return ProfileEvent(event.name, begin, begin + int(event.duration_ns), args, 0)
