"""A provider that keeps everything, and, one at a time, defects to plant in it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import ProviderError
from ort_lite.graph import Node
from ort_lite.memory.arenas import aligned_bytes
from ort_lite.provider import CPU, Allocator, Capability, Device, ExecutionProvider, GraphView, Partition, Rejection

FUNCTIONS: dict[str, Any] = {
    "Abs": np.abs, "Add": np.add, "Ceil": np.ceil, "Floor": np.floor, "Mul": np.multiply, "Neg": np.negative, "Sub": np.subtract,
}  # fmt: skip
ARITY = {"Add": 2, "Mul": 2, "Sub": 2}
OPERATORS = tuple(FUNCTIONS)


class BadProvider(ExecutionProvider):
    """Takes float32 nodes of FUNCTIONS. `defect` is what is wrong with it; "" for nothing."""

    name: ClassVar[str] = "BadExecutionProvider"
    default: ClassVar[bool] = False
    kept: ClassVar[list[Any]] = []
    shared: ClassVar[dict[str, Any]] = {}

    def __init__(self, defect: str = "", **options: Any) -> None:
        if options and defect != "takes any option":
            raise ProviderError(f"{self.name} knows no option {', '.join(options)}")
        self.defect = defect
        self.memory = Memory(defect)
        self.asked = 0

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        self.asked += 1
        for node in graph:
            if node.op_type not in FUNCTIONS and not (self.defect == "claims what it cannot run" and node.op_type == "Round"):
                if self.defect != "says nothing":
                    yield Rejection(node, "operator", "none of mine" if self.defect != "declines without a reason" else "")
            elif any(v is None or v.dtype != "float32" for v in node.inputs):
                yield Rejection(node, "type", "float32 alone")
            elif self.defect == "answers otherwise every time" and time.perf_counter_ns() // 1000 % 2:
                yield Rejection(node, "mood", "not today")
            else:
                yield Capability([node])
        if self.defect == "changes the graph":
            for node in graph:
                node.name += "'"

    def compile(self, partitions: Sequence[Partition]) -> list["Compiled"]:
        made = [Compiled(partition, self) for partition in partitions]
        if self.defect == "keeps partitions alive":
            BadProvider.kept += made
        return made

    def allocator(self) -> Allocator:
        return self.memory

    def get_options(self) -> Any:
        return [self.defect] if self.defect == "gives options as a list" else {"defect": self.defect}


class Compiled:
    """Runs its nodes one after the other."""

    def __init__(self, partition: Partition, provider: BadProvider) -> None:
        self.partition, self.provider, self.defect = partition, provider, provider.defect
        self.functions = [self._function(node) for node in partition.nodes]
        self.runs = 0
        self.broken = False
        self.results: list[Any] = []
        self.sizes: tuple[Any, ...] | None = None
        self.scratch: dict[str, Any] = {}
        if self.defect == "shares state between instances":
            BadProvider.shared["functions"] = self.functions

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
        values.update((value, value.constant) for value in self.partition.constants)
        store = self.scratch if self.defect == "keeps intermediates in itself" else {}
        for node, function in zip(self.partition.nodes, functions, strict=False):
            store["inputs"] = [values[value] for value in node.inputs]
            if self.defect == "keeps intermediates in itself":
                time.sleep(1e-4)
            values[node.outputs[0]] = np.asarray(function(*store["inputs"]))
        return self._after([values.get(value, inputs[0]) for value in self.partition.outputs], inputs)

    def _before(self, inputs: Sequence[Array]) -> Sequence[Array]:
        if self.defect == "writes to its input":
            inputs[0].flags.writeable = True
            inputs[0][...] = 1
        if self.defect == "fits the first shape alone":
            self.sizes = self.sizes or tuple(x.shape for x in inputs)
            if self.sizes != tuple(x.shape for x in inputs):
                raise ValueError("another shape")
        if self.defect == "cannot do empty tensors" and any(x.size == 0 for x in inputs):
            raise ValueError("empty")
        if self.defect == "stays broken":
            self.broken = self.broken or any(x.shape and x.shape[0] == 1 for x in inputs)
            if self.broken:
                raise ValueError("still broken")
        if self.defect == "counts its runs":
            self.runs += 1
        return inputs

    def _after(self, outputs: list[Any], inputs: Sequence[Array]) -> list[Any]:
        if self.defect == "is a little wrong":
            outputs = [y + np.float32(0.01) for y in outputs]
        if self.defect == "returns its input":
            outputs = [inputs[0] if y.shape == inputs[0].shape else y for y in outputs]
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

    device: Device = CPU

    def __init__(self, defect: str) -> None:
        self.defect = defect
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
        self.data = aligned_bytes(nbytes + skip)[skip:]
        self.nbytes, self.freed = nbytes, False

    @property
    def address(self) -> int:
        return int(self.data.__array_interface__["data"][0])


DEFECTS: dict[str, str] = {
    "takes any option": "contract",
    "gives options as a list": "contract",
    "says nothing": "capability",
    "declines without a reason": "capability",
    "answers otherwise every time": "capability",
    "changes the graph": "capability",
    "claims what it cannot run": "claims",
    "is a little wrong": "claims",
    "returns another type": "claims",
    "fits the first shape alone": "shapes",
    "cannot do empty tensors": "shapes",
    "makes vectors of numbers": "shapes",
    "mixes up its outputs": "groups",
    "writes to its input": "inputs_untouched",
    "returns its input": "outputs_owned",
    "returns the same array every time": "outputs_owned",
    "counts its runs": "statelessness",
    "keeps intermediates in itself": "threads",
    "shares state between instances": "instances",
    "keeps partitions alive": "release",
    "leaks": "allocator",
    "is not aligned": "allocator",
    "frees twice": "allocator",
    "stays broken": "errors",
}
"""Defect -> the check that finds it."""


def operators_of(defect: str) -> Iterable[str]:
    return (*OPERATORS, "Round") if defect == "claims what it cannot run" else OPERATORS
