"""A provider that keeps everything, and, one at a time, defects to plant in it."""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from ctypes import memset
from functools import partial
from itertools import count
from typing import Any, ClassVar

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import ProviderError
from ort_lite.graph import Node
from ort_lite.memory.arenas import allocate_bytes
from ort_lite.memory.planning.requests import Memory as DeviceMemory
from ort_lite.provider import (
    CPU,
    Allocator,
    Capability,
    CompiledPartition,
    DataTransfer,
    Device,
    ExecutionProvider,
    GraphView,
    Partition,
    Rejection,
)

FUNCTIONS: dict[str, Any] = {
    "Abs": np.abs,
    "Add": np.add,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Sub": np.subtract,
}
ARITY = {"Add": 2, "Mul": 2, "Sub": 2}
OPERATORS = tuple(FUNCTIONS)


class BadProvider(ExecutionProvider):
    """Takes nodes of FUNCTIONS. `defect` is what is wrong with it; "" for nothing."""

    name: ClassVar[str] = "BadExecutionProvider"
    default: ClassVar[bool] = False
    types: ClassVar[tuple[str, ...]] = ("float32",)
    kept: ClassVar[list[Any]] = []
    runs: ClassVar[Iterator[int]] = count()
    shared: ClassVar[dict[str, Any]] = {}

    def __init__(self, defect: str = "", **options: Any) -> None:
        if options and defect == "raises whatever for options":
            raise TypeError(*options)
        if options and defect != "takes any option":
            raise ProviderError(f"{self.name} knows no option {', '.join(options)}")
        self.defect = defect
        self.memory = Memory(defect, self.device)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph.graph if self.defect == "claims what others have" else graph:
            if node.op_type not in FUNCTIONS and not (self.defect == "claims what it cannot run" and node.op_type == "Round"):
                if self.defect != "says nothing":
                    yield Rejection(node, "operator", "none of mine" if self.defect != "declines without a reason" else "")
            elif any(v is None or v.dtype not in self.types for v in node.inputs):
                yield Rejection(node, "type", f"takes {', '.join(self.types)}")
            elif node.version < 7:
                yield Rejection(node, "opset", "broadcasts from opset 7 on")
            elif self.defect == "answers otherwise every time" and time.perf_counter_ns() // 1000 % 2:
                yield Rejection(node, "mood", "not today")
            else:
                yield Capability([node])
        if self.defect == "changes the graph":
            for node in graph:
                node.name += "'"

    def memories(self) -> Sequence[DeviceMemory]:
        wrong = self.defect == "names its slow memory first"
        return (DeviceMemory("slow", None, 1e9), DeviceMemory("fast", 4096, 1e10)) if wrong else ()

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        made = [Compiled(partition, self) for partition in partitions]
        if self.defect == "keeps partitions alive":
            BadProvider.kept += made
        return made

    def allocator(self) -> Allocator:
        return self.memory

    def serialize(self, compiled: CompiledPartition) -> bytes | None:
        return b"program" if self.defect == "saves what it cannot load" else None

    def get_options(self) -> Any:
        return [self.defect] if self.defect == "gives options as a list" else {"defect": self.defect}


class Compiled:
    """Runs its nodes one after the other."""

    def __init__(self, partition: Partition, provider: BadProvider) -> None:
        self.partition, self.provider, self.defect = partition, provider, provider.defect
        self.functions = [self._function(node) for node in partition.nodes]
        self.runs, self.process = 0, os.getpid()
        self.broken = self.inside = False
        self.seen: set[int] = set()
        self.results: list[Any] = []
        self.sizes: tuple[Any, ...] | None = None
        self.scratch: dict[str, Any] = {}
        self.cache: dict[Any, bytearray] = {}
        if self.defect == "shares state between instances":
            BadProvider.shared["functions"] = self.functions
        if self.defect == "keeps a workspace for ever":
            provider.memory.allocate(64)

    def _function(self, node: Node) -> Any:
        return FUNCTIONS[node.op_type]  # KeyError for what it cannot run

    def __call__(self, inputs: Sequence[Array]) -> list[Any]:
        handle = self.provider.memory.allocate(64)
        try:
            return self._run(inputs)
        finally:
            if self.defect != "leaks":
                self.provider.memory.free(handle)

    def _run(self, inputs: Sequence[Array]) -> list[Any]:
        inputs = self._before(inputs)
        functions = BadProvider.shared["functions"] if self.defect == "shares state between instances" else self.functions
        values: dict[Any, Any] = dict(zip(self.partition.inputs, inputs, strict=True))
        if self.defect != "forgets constants":
            values.update((value, value.constant) for value in self.partition.constants)
        store = self.scratch if self.defect == "keeps intermediates in itself" else {}
        for node, function in zip(self.partition.nodes, functions, strict=False):
            store["inputs"] = [values[value] for value in node.inputs]
            if self.defect == "keeps intermediates in itself":
                time.sleep(1e-4)
            values[node.outputs[0]] = np.asarray(self._computed(function, *store["inputs"]))
        return self._after([values.get(value, inputs[0]) for value in self.partition.outputs], inputs)

    def _computed(self, function: Any, *arrays: Array) -> Any:
        if (
            self.defect == "broadcasts one way"
            and len(arrays) > 1
            and np.broadcast_shapes(*(x.shape for x in arrays)) != arrays[0].shape
        ):
            raise ValueError("the second operand is larger")
        if self.defect == "computes in place" and arrays[0].flags.writeable:
            arrays[0][...] = function(*arrays)
            return arrays[0]
        result = function(*arrays)
        return np.nan_to_num(result) if self.defect == "has no NaN" else result

    def _before(self, inputs: Sequence[Array]) -> Sequence[Array]:
        if self.defect == "writes to its input":
            inputs[0].flags.writeable = True
            inputs[0][...] = 1
        if self.defect == "writes to a constant":
            for array in (value.constant for value in self.partition.constants):
                assert array is not None
                memset(array.ctypes.data, 0, array.nbytes)
        if self.defect == "fits the first shape alone":
            self.sizes = self.sizes or tuple(x.shape for x in inputs)
            if self.sizes != tuple(x.shape for x in inputs):
                raise ValueError("another shape")
        if self.defect == "remembers widths by length":
            for x in inputs:
                if x.ndim > 1 and self.scratch.setdefault(f"{x.ndim}, {x.shape[0]}", x.shape) != x.shape:
                    raise ValueError("another width")
        if self.defect == "keeps something for each shape":
            self.cache.setdefault(tuple(x.shape for x in inputs), bytearray(500))
        if self.defect == "is locked by an error":
            if self.broken:
                raise ValueError("locked")
            self.broken = len(inputs) > 1 and inputs[0].shape[-1:] != inputs[1].shape[-1:]
        if self.defect == "cannot do empty tensors" and any(x.size == 0 for x in inputs):
            raise ValueError("empty")
        if self.defect == "stays broken":
            self.broken = self.broken or any(x.shape and x.shape[0] == 1 for x in inputs)
            if self.broken:
                raise ValueError("still broken")
        if self.defect == "waits in a forked child" and os.getpid() != self.process:
            signal.pause()
        if self.defect == "forgets its memory at a fork" and os.getpid() != self.process:
            return [np.zeros_like(x) for x in inputs]
        if self.defect == "counts its runs":
            self.runs += 1
        if self.defect == "remembers what came":
            self.seen.add(int(inputs[0].__array_interface__["data"][0]))
        if self.defect == "wants to write to its inputs" and not all(x.flags.writeable for x in inputs):
            raise ValueError("read-only")
        if self.defect in ("is serial and does not say so", "waits for itself"):
            if self.inside and self.defect == "waits for itself":
                time.sleep(3)
            elif self.inside:
                raise RuntimeError("somebody else is in here")
            self.inside = True
            time.sleep(1e-4)
            self.inside = False
        return inputs

    def _after(self, outputs: list[Any], inputs: Sequence[Array]) -> list[Any]:
        if self.defect == "is a little wrong":
            outputs = [y + np.float32(0.01) for y in outputs]
        if self.defect == "rolls dice" and next(BadProvider.runs) % 2:
            outputs = [np.nextafter(y, np.float32(np.inf)) for y in outputs]
        if self.defect == "keeps every result":
            BadProvider.kept.append([y.copy() for y in outputs])
        if self.defect == "returns the same array every time":
            if len(self.results) != len(outputs) or any(a.shape != b.shape for a, b in zip(self.results, outputs, strict=True)):
                self.results = [y.copy() for y in outputs]
            for kept, y in zip(self.results, outputs, strict=True):
                kept[...] = y
            outputs = self.results
        if self.defect == "makes vectors of numbers":
            outputs = [y.reshape(1) if y.ndim == 0 else y for y in outputs]
        if self.defect == "mixes up its outputs":
            outputs = outputs[::-1]
        if self.defect == "returns another type":
            outputs = [y.astype(np.float64) for y in outputs]
        return outputs


class Memory:
    """An allocator of aligned bytes that counts."""

    def __init__(self, defect: str, device: Device) -> None:
        self.defect, self.device = defect, device
        self.bytes_in_use = 0

    def allocate(self, nbytes: int) -> "Block":
        self.bytes_in_use += nbytes
        return Block(nbytes, 8 if self.defect == "is not aligned" else 0)

    def free(self, handle: "Block") -> None:
        if handle.freed and self.defect != "frees twice":
            raise ProviderError("freed already")
        handle.freed = True
        self.bytes_in_use -= handle.nbytes


class Block:
    def __init__(self, nbytes: int, skip: int) -> None:
        self.data = allocate_bytes(nbytes + skip)[skip:]
        self.nbytes, self.freed = nbytes, False

    @property
    def address(self) -> int:
        return int(self.data.__array_interface__["data"][0])


class BadDeviceProvider(BadProvider):
    """Its values are Boxes."""

    name: ClassVar[str] = "BadDeviceExecutionProvider"
    types: ClassVar[tuple[str, ...]] = ("float32", "int16")
    device = Device("bad")

    def __init__(self, defect: str = "", device_id: int | str = 0, **options: Any) -> None:
        if not str(device_id).isdecimal() or int(device_id) > 3:
            raise ProviderError(f"{self.name}: device_id is {device_id!r}; expected 0 to 3")
        self.device_id = int(device_id)
        self.device = Device("bad", 0 if defect == "is always on the first device" else self.device_id)
        super().__init__(defect, **options)

    def get_options(self) -> Any:
        return {"defect": self.defect, "device_id": self.device_id}

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        made = [partial(_boxed, Compiled(partition, self)) for partition in partitions]
        return [Recorded(one) for one in made] if self.defect == "notifies the caller alone" else made

    def data_transfer(self) -> DataTransfer | None:
        return None if self.defect == "has no transfer" else BoxTransfer(self.defect, self.device)


class Recorded:
    """Its notification can be waited for by the thread that called."""

    def __init__(self, call: Any) -> None:
        self.call, self.thread = call, 0

    def __call__(self, inputs: Sequence["Box"]) -> list["Box"]:
        self.thread = threading.get_ident()
        made: list[Box] = self.call(inputs)
        return made

    def record(self) -> "Recorded":
        return self

    def wait_on_host(self) -> None:
        if threading.get_ident() != self.thread:
            raise ValueError("this thread has no event")


def _boxed(compiled: Compiled, inputs: Sequence["Box"]) -> list["Box"]:
    made = [Box(y) for y in compiled([x.array for x in inputs])]
    if compiled.defect == "computes in its input":
        inputs[0].array = made[0].array
    return made


class Box:
    def __init__(self, array: Array) -> None:
        self.array = array


class BoxTransfer:
    def __init__(self, defect: str, device: Device) -> None:
        self.defect, self.device = defect, device

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, self.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        if source == CPU:
            return Box(value if self.defect == "gives no copy" else np.array(value))
        array = np.array(value.array)
        if self.defect == "loses a type" and array.dtype == np.int16:
            array = array.astype(np.int32)
        if self.defect == "makes vectors of numbers on the way":
            array = np.ascontiguousarray(array)
        return array


DEFECTS: dict[str, str] = {
    "takes any option": "contract",
    "gives options as a list": "contract",
    "says nothing": "capability",
    "declines without a reason": "capability",
    "answers otherwise every time": "capability",
    "changes the graph": "capability",
    "claims what others have": "capability",
    "claims what it cannot run": "claims",
    "is a little wrong": "claims",
    "returns another type": "claims",
    "forgets constants": "constants",
    "fits the first shape alone": "shapes",
    "cannot do empty tensors": "shapes",
    "makes vectors of numbers": "shapes",
    "mixes up its outputs": "groups",
    "writes to its input": "inputs_untouched",
    "writes to a constant": "inputs_untouched",
    "wants to write to its inputs": "claims",
    "returns the same array every time": "outputs_owned",
    "counts its runs": "statelessness",
    "remembers what came": "statelessness",
    "rolls dice": "statelessness",
    "keeps intermediates in itself": "threads",
    "is serial and does not say so": "threads",
    "waits in a forked child": "forks",
    "forgets its memory at a fork": "forks",
    "shares state between instances": "instances",
    "keeps partitions alive": "release",
    "keeps every result": "release",
    "leaks": "allocator",
    "keeps a workspace for ever": "allocator",
    "is not aligned": "allocator",
    "frees twice": "allocator",
    "stays broken": "errors",
    "raises whatever for options": "settings",
    "broadcasts one way": "attributes",
    "has no NaN": "numbers",
    "computes in place": "graphs",
    "remembers widths by length": "sizes",
    "keeps something for each shape": "caches",
    "names its slow memory first": "memories",
    "saves what it cannot load": "saved",
    "is locked by an error": "interrupted",
}
"""Defect -> the check that finds it."""

DEVICE_DEFECTS = {
    "has no transfer": "transfer",
    "loses a type": "transfer",
    "makes vectors of numbers on the way": "transfer",
    "gives no copy": "transfer",
    "computes in its input": "handles",
    "notifies the caller alone": "events",
    "is always on the first device": "devices",
}
"""As above, of the provider with a device."""


def operators_of(defect: str) -> Iterable[str]:
    """Few, so that the tests are quick."""
    return ("Abs", "Add", "Neg", *(["Round"] if defect == "claims what it cannot run" else []))
