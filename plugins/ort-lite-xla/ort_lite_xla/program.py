"""A compiled partition: XLA programs, one per shape or bucket of shapes, compiled on first use."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite.record import Record
from ort_lite_xla.borders import Array, cut, inside, outside, pad
from ort_lite_xla.contents import collect_contents
from ort_lite_xla.padding import Padding, input_sizes, padding, size_contents
from ort_lite_xla.trace import TracedValues, trace
from ort_lite_xla.weights import Weights

T = TypeVar("T")
EXACT = Padding({}, {}, ())
OPTIONS = {"xla_allow_excess_precision": False}
"""Round 16-bit results after every operator, not where it suits XLA."""
DETERMINISTIC = {"xla_gpu_exclude_nondeterministic_ops": True}
"""Without this, GPUs add values scattered to one position in the order in which they arrive."""


class XlaSettings(Record):
    """The provider options that programs depend on."""

    device: jax.Device
    matmul_precision: str
    buckets: bool
    cached_shapes: int
    vendor: bool = False
    deterministic: bool = False


class ProgramCache(Generic[T]):
    """A cache of the most recently used results of `make`.

    If several threads need a new key, one of them makes it and the others wait.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self.made = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result for a key. Raises the errors of `make`; failures are not cached."""
        with self._lock:
            future = self._found.get(key)
            mine = future is None
            if future is None:
                future = self._found[key] = Future()
                while len(self._found) > self._capacity:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._found.get(key) is future:
                        del self._found[key]
                future.set_exception(error)
                raise
            with self._lock:
                self.made += 1
        return future.result()


class XlaExecutable(Record):
    """An XLA program for one set of shapes. `compiled` is None if all outputs are known without one.

    `plan` has, for each output, its number among the program's results, or its known contents.
    """

    compiled: Any
    plan: tuple[int | Array, ...]


class ShapeBinding(Record):
    """The binding of one set of shapes to an XlaExecutable: the padded shapes, and the sizes that outputs are cut to.

    `sizes` has the true sizes, on the device.
    """

    key: Hashable
    shapes: tuple[tuple[int, ...], ...]
    plan: Padding
    ends: tuple[tuple[int | None, ...], ...]
    sizes: jax.Array


class XlaProgram:
    """A compiled partition. Thread-safe."""

    def __init__(self, partition: Partition, settings: XlaSettings) -> None:
        self._partition, self._settings = partition, settings
        self._needed = collect_contents(partition.nodes)
        self._static = [k for k, value in enumerate(partition.inputs) if value in self._needed]
        self._weights = Weights(partition, settings.device)
        self.absorbed = [value for value in self._weights.values if value not in self._needed]
        self._told = size_contents(partition) if settings.buckets else {}
        self._bound: ProgramCache[ShapeBinding] = ProgramCache(4 * settings.cached_shapes)
        self._executables: ProgramCache[XlaExecutable] = ProgramCache(settings.cached_shapes)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        shapes = tuple([x.shape for x in inputs])
        statics = tuple([inputs[k].tobytes() for k in self._static])
        bound = self._bound.get((shapes, statics), lambda: self._bind(shapes, statics))
        executable = self._executables.get(bound.key, lambda: self._compile(bound, inputs))
        return self._run(executable, bound, inputs)

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`. A run is one call of XLA, so "python_steps" is absent."""
        return {
            "device": str(self._settings.device),
            "executables": len(self._executables),
            "compilations": self._executables.made,
            "constant_bytes": self._weights.nbytes,
            **_memory(self._settings.device),
        }

    # Binding

    def _bind(self, shapes: tuple[tuple[int, ...], ...], statics: tuple[bytes, ...]) -> ShapeBinding:
        """Choose buckets for these shapes."""
        values = self._partition.inputs
        sizes = input_sizes(values, shapes) if self._settings.buckets and not statics else None
        plan = EXACT if sizes is None else padding(self._partition, self._told, sizes)
        if sizes is None or not plan.buckets:
            return ShapeBinding((shapes, statics), shapes, EXACT, (), self._on_device([]))
        wide = tuple([_widen(value, shape, plan) for value, shape in zip(values, shapes, strict=True)])
        ends = tuple(tuple(None if name is None else sizes[name] for name in names) for names in plan.outputs)
        return ShapeBinding(("bucket", wide), wide, plan, ends, self._on_device([sizes[name] for name in plan.buckets]))

    def _on_device(self, sizes: list[int]) -> jax.Array:
        return inside(np.array(sizes, np.int32), self._settings.device)

    def _compile(self, bound: ShapeBinding, inputs: Sequence[Array]) -> XlaExecutable:
        """Lower the nodes for these shapes and compile the result. Takes seconds."""
        plan = bound.plan
        static = {self._partition.inputs[k]: np.array(inputs[k]) for k in self._static}
        outcome: list[int | Array] = []

        def function(weights: Sequence[Any], data: Sequence[Any], sizes: Any) -> list[Any]:
            outcome.clear()
            results: list[Any] = []
            for value in self._trace(weights, data, sizes, static, plan):
                outcome.append(value if isinstance(value, np.ndarray) else len(results))
                results += [] if isinstance(value, np.ndarray) else [value]
            return results

        place = SingleDeviceSharding(self._settings.device)
        wanted = [jax.ShapeDtypeStruct(s, x.dtype, sharding=place) for s, x in zip(bound.shapes, inputs, strict=True)]
        weights = [jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=place) for w in self._weights.arrays]
        sizes = jax.ShapeDtypeStruct((len(plan.buckets),), np.int32, sharding=place)
        with jax.enable_x64(True), jax.default_matmul_precision(self._settings.matmul_precision):
            lowered = jax.jit(function, keep_unused=True).lower(weights, wanted, sizes)
            options = OPTIONS | DETERMINISTIC if self._settings.deterministic else OPTIONS
            executable = lowered.compile(options) if any(isinstance(found, int) for found in outcome) else None
        return XlaExecutable(executable, tuple(outcome))

    def _trace(
        self, weights: Sequence[Any], data: Sequence[Any], sizes: Any, static: dict[Value, Array], plan: Padding
    ) -> list[Any]:
        """Return the outputs: tracers, or arrays if they are known."""
        partition = self._partition
        tracers = dict(zip((*self._weights.values, *partition.inputs), (*self._weights.restore(weights), *data), strict=True))
        values = TracedValues(dict(static), tracers, {name: sizes[k] for k, name in enumerate(plan.buckets)})
        trace(partition.nodes, values, self._needed, plan.guards, partition.provider.name, self._settings.vendor)
        return [values.data[v] if v in values.data else values.known[v] for v in partition.outputs]

    # Running

    def _run(self, executable: XlaExecutable, bound: ShapeBinding, inputs: Sequence[Array]) -> list[Array]:
        results: list[Array] = []
        if executable.compiled is not None:
            with jax.enable_x64(True), _allow_copies():
                wide = [pad(x, shape) for x, shape in zip(inputs, bound.shapes, strict=True)]
                taken = {x.ctypes.data for x in wide} | self._weights.addresses
                # JAX copies NumPy operands to the device faster than device_put does.
                results = outside(executable.compiled(self._weights.arrays, wide, bound.sizes), taken)
        found = [results[part] if isinstance(part, int) else part.copy() for part in executable.plan]
        return [cut(x, ends) for x, ends in zip(found, bound.ends, strict=True)] if bound.ends else found


@contextmanager
def _allow_copies() -> Iterator[None]:
    """Allow the copies of a run inside a transfer guard that the caller set. `jax.transfer_guard` takes three times as long."""
    with jax.transfer_guard_host_to_device("allow"), jax.transfer_guard_device_to_host("allow"):
        yield


def _memory(device: jax.Device) -> dict[str, int]:
    """Return the bytes that the process uses on the device, now and at most; nothing if JAX does not count them, as on the CPU."""
    counted = device.memory_stats() or {}
    names = {"device_bytes": "bytes_in_use", "device_peak_bytes": "peak_bytes_in_use"}
    return {ours: counted[theirs] for ours, theirs in names.items() if theirs in counted}


def _widen(value: Value, shape: tuple[int, ...], plan: Padding) -> tuple[int, ...]:
    """Return the shape with padded symbols at their buckets."""
    assert value.shape is not None, "input_sizes saw it"
    return tuple(plan.buckets.get(str(dim), size) for dim, size in zip(value.shape, shape, strict=True))
