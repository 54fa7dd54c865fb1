"""A compiled partition: XLA programs, one per shape or bucket of shapes, compiled on first use."""

import threading
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite.provider.compiled import Holdings
from ort_lite.provider.plan_cache import PlanCache
from ort_lite.record import Record
from ort_lite_xla.aliases import find_aliases, usable_aliases
from ort_lite_xla.completion import Completion, InFlight, device_error
from ort_lite_xla.contents import collect_contents
from ort_lite_xla.executables import Counts, ExecutableStore, XlaSettings, lower
from ort_lite_xla.outline import outline
from ort_lite_xla.padding import Padding, input_sizes, padding, size_contents
from ort_lite_xla.trace import TracedValues, trace
from ort_lite_xla.transfer import Array, put
from ort_lite_xla.weights import Weights

EXACT = Padding({}, {}, ())
Shape = tuple[int, ...]


class XlaExecutable(NamedTuple):
    """An XLA program for one set of shapes. `compiled` is None if all outputs are known without one.

    `plan` has, for each output, its number among the program's results, or its contents if it is a host value.
    """

    compiled: Any
    plan: tuple[int | Array, ...]


class Border(NamedTuple):
    """A small program that pads the operands of another one, or cuts its results: the values at `places`."""

    places: tuple[int, ...]
    compiled: Any

    def __call__(self, values: list[Any]) -> None:
        """Replace the values at the places."""
        for k, made in zip(self.places, self.compiled(*[values[k] for k in self.places]), strict=True):
            values[k] = made


class HostBorder(NamedTuple):
    """The same on a device whose memory is the host's: a copy, which waits for the values. No length needs a program of its own."""

    places: tuple[int, ...]
    shapes: tuple[Shape, ...]
    device: jax.Device

    def __call__(self, values: list[Any]) -> None:
        """Replace the values at the places by ones of their shapes, with zeros behind the old ones."""
        for k, shape in zip(self.places, self.shapes, strict=True):
            with jax.transfer_guard_device_to_host("allow"):
                x = np.asarray(values[k])
            common = tuple(slice(min(size, wide)) for size, wide in zip(x.shape, shape, strict=True))
            made = np.zeros(shape, x.dtype)
            made[common] = x[common]
            values[k] = put(made, self.device)


class ShapeBinding(Record):
    """The binding of one set of shapes to an XlaExecutable, with the programs that pad its operands and cut its results.

    `sizes` has the true sizes of padded symbols, on the device. An output can be computed in each of the inputs `reusable`.
    """

    key: Hashable
    shapes: tuple[Shape, ...]
    plan: Padding
    sizes: jax.Array
    reusable: frozenset[int]
    ends: tuple[tuple[int | None, ...], ...] = ()
    pad: Border | HostBorder | None = None


class XlaProgram:
    """A compiled partition. Its values are JAX arrays on the device, except its host values. Thread-safe."""

    def __init__(self, partition: Partition, settings: XlaSettings, store: ExecutableStore, in_flight: InFlight) -> None:
        self._partition, self._settings, self._store, self._in_flight = partition, settings, store, in_flight
        host = partition.host_values
        self._needed = collect_contents(partition.nodes)
        self._static = [k for k, value in enumerate(partition.inputs) if value in host]
        self._given = [k for k, value in enumerate(partition.inputs) if value not in host]
        self._weights = Weights(partition, settings)
        self.absorbed = [value for value in self._weights.values if value not in self._needed]
        self.aliases = find_aliases(partition)
        self._told = size_contents(partition) if settings.buckets else {}
        self._outline = outline(partition, frozenset(self.absorbed))
        self._bound: PlanCache[ShapeBinding] = PlanCache(4 * settings.cached_shapes)
        self._cuts: PlanCache[Border | HostBorder | None] = PlanCache(4 * settings.cached_shapes)
        self._executables: PlanCache[XlaExecutable] = PlanCache(settings.cached_shapes)
        self._counts, self._border_counts = Counts(), Counts()
        self._last = threading.local()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.call_donating(inputs, frozenset())

    def call_donating(self, inputs: Sequence[Any], donated: frozenset[int]) -> list[Any]:
        """Run. The program may compute an output in the memory of a donated input if both have the same type and shape."""
        shapes = tuple([x.shape for x in inputs])
        statics = tuple([inputs[k].tobytes() for k in self._static])
        bound = self._bound.get((shapes, statics), lambda: self._bind(shapes, statics, inputs))
        taken = self._useful(donated, bound) if donated else ()
        executable = self._executables.get((bound.key, taken), lambda: self._compile(bound, inputs, taken))
        return self._run(executable, bound, [inputs[k] for k in self._given])

    def record(self) -> Completion:
        """Return the completion of this thread's last call."""
        completion: Completion = self._last.completion
        return completion

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`. A run is one call of XLA, so "python_steps" is absent."""
        return {
            "device": str(self._settings.device),
            "executables": len(self._executables),
            "compilations": self._counts.compilations,
            "border_compilations": self._border_counts.compilations,
            "loaded": self._counts.loaded + self._border_counts.loaded,
            "constant_bytes": self._weights.nbytes,
            **_memory(self._settings.device),
        }

    def memory(self) -> Holdings:
        """Return the number of executables. The constants are in the device's memory, which `facts` counts."""
        return self._executables.memory()

    def trim(self) -> None:
        """Forget all executables. The next run loads them again."""
        for cache in (self._bound, self._cuts, self._executables):
            cache.trim()

    # Binding

    def _bind(self, shapes: tuple[Shape, ...], statics: tuple[bytes, ...], inputs: Sequence[Any]) -> ShapeBinding:
        """Choose buckets for these shapes."""
        values, buckets = self._partition.inputs, self._settings.buckets and not statics
        sizes = input_sizes(values, shapes) or {}
        plan = padding(self._partition, self._told, sizes) if buckets else EXACT
        wide = tuple([_widen(value, shape, plan) for value, shape in zip(values, shapes, strict=True)])
        reusable = usable_aliases(self._partition, self.aliases, shapes, sizes, plan)
        if not plan.buckets:
            return ShapeBinding((shapes, statics), shapes, EXACT, self._on_device([]), reusable)
        ends = tuple(tuple(None if name is None else sizes[name] for name in names) for names in plan.outputs)
        given = [(inputs[k], wide[k]) for k in self._given]
        pad = self._border("pad", _pad, [x for x, _ in given], [shape for _, shape in given])
        sizes_there = self._on_device([sizes[name] for name in plan.buckets])
        return ShapeBinding(("bucket", wide, tuple(plan.buckets)), wide, plan, sizes_there, reusable, ends, pad)

    def _on_device(self, sizes: list[int]) -> jax.Array:
        return put(np.array(sizes, np.int32), self._settings.device)

    def _border(self, name: str, change: Any, values: Sequence[Any], shapes: Sequence[Shape]) -> Border | HostBorder | None:
        """Return what pads or cuts the values whose shapes differ; None if there are none."""
        places = tuple(k for k, (x, shape) in enumerate(zip(values, shapes, strict=True)) if x.shape != shape)
        if not places:
            return None
        if self._settings.device.platform == "cpu":
            return HostBorder(places, tuple(shapes[k] for k in places), self._settings.device)
        operands = [values[k] for k in places]
        wanted = [shapes[k] for k in places]
        key = (name, [(x.shape, str(x.dtype)) for x in operands], wanted)
        function = partial(_each, change, wanted)
        compiled, _ = self._store.get(self._border_counts, key, lambda: (lower(function, operands, self._settings), None))
        return Border(places, compiled)

    def _useful(self, donated: frozenset[int], bound: ShapeBinding) -> tuple[int, ...]:
        """Return which donated inputs, among those on the device, an output can be computed in."""
        return tuple(sorted(self._given.index(k) for k in donated & bound.reusable))

    # Compiling

    def _compile(self, bound: ShapeBinding, inputs: Sequence[Any], donated: tuple[int, ...]) -> XlaExecutable:
        """Lower the nodes for these shapes and compile the result, or load what an earlier process compiled. May take seconds."""
        plan = bound.plan
        static = {self._partition.inputs[k]: np.array(inputs[k]) for k in self._static}
        data = [jax.ShapeDtypeStruct(bound.shapes[k], inputs[k].dtype) for k in self._given]
        known: list[Array | None] = []

        def function(weights: Sequence[Any], sizes: Any, *data: Any) -> list[Any]:
            known.clear()
            results = self._trace(weights, data, sizes, static, plan)
            known.extend(x if isinstance(x, np.ndarray) else None for x in results)
            return [x for x in results if not isinstance(x, np.ndarray)]

        def make() -> tuple[Any, list[Array | None]]:
            places = [k + 2 for k in donated]
            return lower(function, (self._weights.arrays, bound.sizes, *data), self._settings, places), known

        if all(value in self._partition.host_values for value in self._partition.outputs):
            make()
            return XlaExecutable(None, tuple(x for x in known if x is not None))
        guards = [(k, plan.guards[node]) for k, node in enumerate(self._partition.nodes) if node in plan.guards]
        shapes = [(x.shape, str(x.dtype)) for x in (*self._weights.arrays, *data)]
        contents = [(str(x.dtype), x.shape, x.tobytes()) for x in static.values()]
        key = (self._outline, shapes, self._weights.orders, contents, donated, list(plan.buckets.items()), guards)
        compiled, found = self._store.get(self._counts, key, make)
        numbers = iter(range(len(found)))
        return XlaExecutable(compiled, tuple(next(numbers) if x is None else x for x in found))

    def _trace(
        self, weights: Sequence[Any], data: Sequence[Any], sizes: Any, static: Mapping[Value, Array], plan: Padding
    ) -> list[Any]:
        """Return the outputs: tracers, or arrays for host values."""
        partition = self._partition
        given = [partition.inputs[k] for k in self._given]
        tracers = dict(zip((*self._weights.values, *given), (*self._weights.restore(weights), *data), strict=True))
        values = TracedValues(dict(static), tracers, {name: sizes[k] for k, name in enumerate(plan.buckets)})
        rounds = self._settings.precision == "bf16"
        trace(partition.nodes, values, self._needed, plan.guards, partition.provider.name, self._settings.vendor, rounds)
        return [values.contents(v) if v in partition.host_values else values.tracer(v) for v in partition.outputs]

    # Running

    def _run(self, executable: XlaExecutable, bound: ShapeBinding, given: list[Any]) -> list[Any]:
        results: list[Any] = []
        if executable.compiled is not None:
            device = self._settings.device
            try:
                with jax.enable_x64(True):
                    if bound.pad is not None:
                        bound.pad(given)
                    results = executable.compiled(self._weights.arrays, bound.sizes, *given)
                    if bound.ends:
                        self._cut(executable, bound, results)
            except jax.errors.JaxRuntimeError as error:
                raise device_error(self._partition.name, device, error) from error
            self._last.completion = Completion(self._partition.name, device, results)
            self._in_flight.add(self._last.completion)
        else:
            self._last.completion = Completion(self._partition.name, self._settings.device, ())
        return [results[part] if isinstance(part, int) else part.copy() for part in executable.plan]

    def _cut(self, executable: XlaExecutable, bound: ShapeBinding, results: list[Any]) -> None:
        cut = self._cuts.get(
            (bound.key, bound.ends), lambda: self._border("cut", _cut, results, _cut_shapes(executable, bound, results))
        )
        if cut is not None:
            cut(results)


def _cut_shapes(executable: XlaExecutable, bound: ShapeBinding, results: Sequence[Any]) -> list[Shape]:
    ends = [ends for ends, part in zip(bound.ends, executable.plan, strict=True) if isinstance(part, int)]
    return [
        tuple(n if end is None else end for n, end in zip(x.shape, e, strict=True)) for x, e in zip(results, ends, strict=True)
    ]


def _pad(x: Any, shape: Shape) -> Any:
    return jnp.pad(x, [(0, wide - size) for size, wide in zip(x.shape, shape, strict=True)])


def _cut(x: Any, shape: Shape) -> Any:
    return x[tuple(map(slice, shape))]


def _each(change: Any, shapes: Sequence[Shape], *values: Any) -> list[Any]:
    return [change(x, shape) for x, shape in zip(values, shapes, strict=True)]


def _memory(device: jax.Device) -> dict[str, int]:
    """Return the bytes that the process uses on the device, now and at most; nothing if JAX does not count them, as on the CPU."""
    counted = device.memory_stats() or {}
    names = {"device_bytes": "bytes_in_use", "device_peak_bytes": "peak_bytes_in_use"}
    return {ours: counted[theirs] for ours, theirs in names.items() if theirs in counted}


def _widen(value: Value, shape: Shape, plan: Padding) -> Shape:
    """Return the shape with padded symbols at their buckets."""
    return tuple(plan.buckets.get(str(dim), size) for dim, size in zip(value.shape or shape, shape, strict=True))
