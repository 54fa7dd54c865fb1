"""RayExecutionProvider: takes what the CPU provider takes; a partition becomes a pipeline of sessions, each on an actor of Ray's."""

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
from ort_lite_ray.actors import Actors
from ort_lite_ray.stages import stages
from ort_lite_ray.tensors import taken, write


class RayExecutionProvider(ExecutionProvider):
    """Options:

    actors: how many stages there are at most; 2 by default. All partitions of a session share them.
    memory: bytes of weights that each has room for, which Ray reserves for it too; none: no limit.
    num_threads: of each; 1 by default. As many of the cluster's processors are reserved.

    Runs in several threads are in several stages at once. Raises ProviderError where `ray.init` was not called.
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
        _check_ray(self.name)
        self._cpu = ort_lite.CompositeProvider(["CPUExecutionProvider"])
        self._actors = Actors(self.name, self._count, self._threads, self._memory)

    def configure(self, options: SessionOptions) -> None:
        self._cpu.configure(options)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
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
        made: list[CompiledPartition | Exception] = []
        for partition in partitions:
            try:
                made.append(Pipeline(partition, self._actors, self._memory))
            except Exception as error:  # noqa: BLE001  # loses this partition alone
                made.append(error)
        return made

    def available_resource(self) -> Resource | None:
        return None if self._memory is None else Resource(nbytes=self._memory * self._count)

    def overhead(self) -> Overhead:
        """A call and its answer take a millisecond for each stage."""
        return Overhead(launch=1e-3 * self._count)

    def get_options(self) -> dict[str, Any]:
        return {"actors": self._count, "memory": self._memory, "num_threads": self._threads}


class Pipeline:
    """A compiled partition: what a stage makes stays in Ray's object store until the stages that read it have it."""

    def __init__(self, partition: Partition, actors: Actors, memory: int | None) -> None:
        self._actors, self._inputs, self._outputs = actors, partition.inputs, partition.outputs
        self._stages = stages(partition, actors.count, memory)
        self._names = [f"{stage.name}_{id(self)}" for stage in self._stages]
        for place, (name, stage) in enumerate(zip(self._names, self._stages, strict=True)):
            actors.load(place, name, partition_model(stage))
        self._values = (*self._inputs, *(value for stage in self._stages for value in stage.outputs))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        memory = self._actors.memory
        folder, begun = memory.begin(), list[Any]()
        try:
            values = self._submit(inputs, folder, begun)
            found = self._actors.get([values[value] for value in self._outputs], begun)
            results = [taken(value) for value in found]
        except BaseException:
            memory.lose(folder, begun)
            raise
        memory.end(folder)
        return results

    def _submit(self, inputs: Sequence[Any], folder: str | None, begun: list[Any]) -> dict[Value, Any]:
        """What is given to stages, and references to what they will make; of each stage one is added to `begun`."""
        paths = self._paths(folder)
        given = zip(self._inputs, inputs, strict=True)
        values = {value: write(array, paths[value]) if value in paths else array for value, array in given}
        for place, (name, stage) in enumerate(zip(self._names, self._stages, strict=True)):
            targets = [paths.get(value) for value in stage.outputs]
            made = self._actors.submit(place, name, targets, [values[value] for value in stage.inputs])
            begun.append(made[-1])
            values.update(zip(stage.outputs, made, strict=True))
        return values

    def _paths(self, folder: str | None) -> dict[Value, str]:
        """Where to write what only actors of this host read and write; the rest goes by Ray's object store."""
        if folder is None:
            return {}
        elsewhere = [stage for place, stage in enumerate(self._stages) if not self._actors.near(place)]
        far = {value for stage in elsewhere for value in (*stage.inputs, *stage.outputs)}
        return {value: f"{folder}/{k}" for k, value in enumerate(self._values) if value not in far}

    def facts(self) -> dict[str, int | str]:
        nodes = ", ".join(str(len(stage.nodes)) for stage in self._stages)
        return {"stages": len(self._stages), "nodes of stages": nodes, "python_steps": 0}


def _is_tensor(value: Value | None) -> bool:
    return value is None or isinstance(value.type, TensorType)


def _check_ray(name: str) -> None:
    import ray

    if not ray.is_initialized():
        raise ProviderError(f"{name}: Ray is not running in this process; expected ray.init() before the session").about(
            provider=name
        )
