"""RayExecutionProvider, which runs the nodes that the CPU provider supports, as a pipeline of sessions on Ray actors."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import ort_lite
from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.provider import (
    Capability,
    CompiledPartition,
    ExecutionProvider,
    GraphView,
    Overhead,
    Partition,
    Rejection,
    Resource,
    SessionOptions,
)
from ort_lite.provider.accelerators import count
from ort_lite.provider.export import partition_model
from ort_lite_ray.actors import Actors, check_ray
from ort_lite_ray.stages import stages
from ort_lite_ray.tensors import copy_out, write


class RayExecutionProvider(ExecutionProvider):
    """An execution provider that runs each partition in stages on Ray actors. Concurrent runs are in different stages.

    Options:

    actors: the most stages; 2 by default. All partitions of a session share them.
    memory: bytes of weights per actor, which Ray reserves for it; no limit by default.
    num_threads: threads per actor; 1 by default. Ray reserves as many of the cluster's processors.

    Raises ProviderError if `ray.init` was not called.
    """

    name: ClassVar[str] = "RayExecutionProvider"
    default: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self, actors: int | str = 2, memory: int | str | None = None, num_threads: int | str = 1, **unknown: Any
    ) -> None:
        super().__init__(**unknown)
        self._count, self._threads = count(self, "actors", actors), count(self, "num_threads", num_threads)
        self._memory = None if memory is None else count(self, "memory", memory)
        if not (self._count and self._threads):
            raise ProviderError(
                f"{self.name}: actors and num_threads are {self._count} and {self._threads}; expected 1 or more"
            )
        check_ray(self.name)
        self._cpu = ort_lite.CompositeProvider(["CPUExecutionProvider"])
        self._actors = Actors(self.name, self._count, self._threads, self._memory)

    def configure(self, options: SessionOptions) -> None:
        """Take the session options that the CPU provider uses."""
        self._cpu.configure(options)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that the CPU provider runs, without control flow and without values that are not tensors."""
        for answer in self._cpu.get_capability(graph):
            if isinstance(answer, Rejection):
                yield answer
                continue
            for node in answer.nodes:
                if node.subgraphs():
                    yield Rejection(node, "operator", "control flow stays with its bodies in this process")
                elif odd := [v for v in (*node.inputs, *node.outputs) if not _is_tensor(v)]:
                    yield Rejection(node, "type", f"{odd[0]} is no tensor")
                else:
                    yield Capability([node])

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition | Exception]:
        """Compile each partition to a pipeline. A partition that fails becomes the exception."""
        made: list[CompiledPartition | Exception] = []
        for partition in partitions:
            try:
                made.append(StagePipeline(partition, self._actors, self._memory))
            except Exception as error:  # noqa: BLE001  # loses this partition alone
                made.append(error)
        return made

    def available_resource(self) -> Resource | None:
        """Return the bytes of weights that the actors have room for together; None without a limit."""
        return None if self._memory is None else Resource(nbytes=self._memory * self._count)

    def overhead(self) -> Overhead:
        """Return the time of a launch: per stage, a call takes 0.2 ms on this host, and a millisecond through Ray."""
        import ray

        return Overhead(launch=(2e-4 if len(ray.nodes()) == 1 else 1e-3) * self._count)

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {"actors": self._count, "memory": self._memory, "num_threads": self._threads}


class StagePipeline:
    """A compiled partition: stages that run one after the other."""

    def __init__(self, partition: Partition, actors: Actors, memory: int | None) -> None:
        self._actors, self._inputs, self._outputs = actors, partition.inputs, partition.outputs
        self._stages = stages(partition, actors.count, memory)
        self._names = [f"{stage.name}_{id(self)}" for stage in self._stages]
        for place, (name, stage) in enumerate(zip(self._names, self._stages, strict=True)):
            actors.load(place, name, partition_model(stage))
        self._values = (*self._inputs, *(value for stage in self._stages for value in stage.outputs))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self._inputs, inputs, strict=True))
        return self._call(values) if self._actors.near(len(self._stages)) else self._submit(values)

    def _call(self, values: dict[Value, Any]) -> list[Any]:
        """Call the stages one by one. Results are in files of this host's memory until the run ends."""
        with self._actors.memory.run() as folder:
            paths = {value: None if folder is None else f"{folder}/{k}" for k, value in enumerate(self._values)}
            values = {value: write(array, paths[value]) for value, array in values.items()}
            for place, (name, stage) in enumerate(zip(self._names, self._stages, strict=True)):
                targets, given = [paths[value] for value in stage.outputs], [values[value] for value in stage.inputs]
                values.update(zip(stage.outputs, self._actors.call(place, name, targets, given), strict=True))
            return [copy_out(values[value]) for value in self._outputs]

    def _submit(self, values: dict[Value, Any]) -> list[Any]:
        """Submit all stages to Ray, which passes results on in its object store, and wait for the last one."""
        begun = []
        for place, (name, stage) in enumerate(zip(self._names, self._stages, strict=True)):
            made = self._actors.submit(place, name, len(stage.outputs), [values[value] for value in stage.inputs])
            begun.append(made[-1])
            values.update(zip(stage.outputs, made, strict=True))
        return [array.copy() for array in self._actors.get([values[value] for value in self._outputs], begun)]

    def facts(self) -> dict[str, int | str]:
        """Return the stages for `explain()`."""
        nodes = ", ".join(str(len(stage.nodes)) for stage in self._stages)
        return {"stages": len(self._stages), "nodes of stages": nodes, "python_steps": 0}


def _is_tensor(value: Value | None) -> bool:
    return value is None or isinstance(value.type, TensorType)
