"""Providers that share a model out at random. All have the CPU provider's kernels, one a memory of its own; one takes bodies whole."""

import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

import ort_lite
from ort_lite.graph import Node, Value
from ort_lite.provider import (
    CPU,
    Capability,
    CompiledPartition,
    DataTransfer,
    Device,
    ExecutionProvider,
    GraphView,
    Partition,
    Rejection,
)
from ort_lite.provider.export import partition_model
from ort_lite_cpu.provider import CPUExecutionProvider
from tests.provider.numpy_provider import Box, BoxTransfer
from tests.provider.texts import plain


class Share(CPUExecutionProvider):
    """Takes a share of the nodes, by their names: pairs as one unit, some of them apart from its others, some in company alone."""

    name: ClassVar[str] = "ShareExecutionProvider"
    exact: ClassVar[bool] = False

    def __init__(self, seed: int, share: float, units: str = "one", fuses: bool = False) -> None:
        super().__init__(threads=1, fusion=False)
        self.seed, self.share, self.units, self.fuses = seed, share, units, fuses

    def takes(self, node: Node) -> bool:
        return self._draw(node) < self.share

    def _draw(self, node: Node, salt: str = "") -> float:
        return crc32(f"{self.seed} {salt} {node.name}".encode()) / 2**32

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        answers = list(super().get_capability(graph))
        wanted = {node for answer in answers if isinstance(answer, Capability) for node in answer.nodes if self.takes(node)}
        for answer in answers:
            if isinstance(answer, Capability):
                (node,) = answer.nodes
                yield self.unit(node, wanted) if node in wanted else Rejection(node, "choice", "not wanted")
            else:
                yield answer

    def unit(self, node: Node, wanted: Collection[Node]) -> Capability:
        """With the producer of its first input, where that is at hand: units may overlap or close a cycle."""
        first = node.inputs[0] if node.inputs else None
        before = first.producer if first is not None else None
        if self.units == "pairs" and before is not None and before in wanted:
            return Capability([before, node])
        return Capability(node, merge=not self.apart(node), minimum=3 if self.units == "company" else 1)

    def apart(self, node: Node) -> bool:
        """Whether the node is a unit that is not joined with others."""
        return self.units == "apart" and self._draw(node, "apart") < 0.3

    def fusions(self) -> Sequence[str]:
        return ("all",) if self.fuses else ()


class OtherShare(Share):
    name = "OtherExecutionProvider"


class Boxed(Share):
    """Its values are Boxes, which nothing but its transfer and its own partitions can open; some at random are on the host."""

    name = "BoxedExecutionProvider"

    def __init__(self, seed: int, share: float, units: str = "one", fuses: bool = False, card: int = 0) -> None:
        super().__init__(seed, share, units, fuses)
        self.device = Device("box", card)

    def data_transfer(self) -> DataTransfer:
        return AnyTransfer(self.device)

    def host_values(self, partition: Partition) -> list[Value]:
        values = (*partition.inputs, *partition.outputs)
        return [
            value for value in values if crc32(f"{self.seed} host {value.name} {partition.nodes[0].name}".encode()) % 3 == 0
        ]

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        inside = [
            partition.replace(bodies={graph: BoxedBody(body, self.device) for graph, body in partition.bodies.items()})
            for partition in partitions
        ]
        return [OnBox(*pair, self.device) for pair in zip(super().compile(inside), partitions, strict=True)]


class AnyTransfer(BoxTransfer):
    """Sequences, too."""

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        assert source == CPU or isinstance(value, Box)
        return Box(destination, copied(value)) if source == CPU else copied(value.open(source))


class OnBox:
    def __init__(self, compiled: CompiledPartition, partition: Partition, device: Device) -> None:
        self._compiled, self._device = compiled, device
        self._inputs = [value in partition.host_values for value in partition.inputs]
        self._outputs = [value in partition.host_values for value in partition.outputs]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        results = self._compiled([opened(x, on_host, self._device) for x, on_host in zip(inputs, self._inputs, strict=True)])
        return [boxed(y, on_host, self._device) for y, on_host in zip(results, self._outputs, strict=True)]


class BoxedBody:
    """A body for kernels that know arrays alone. It fails if a value is not where the body says."""

    def __init__(self, body: Any, device: Device) -> None:
        self._body, self._device = body, device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]:
        body, device = self._body, self._device
        assert body.device in (CPU, device)
        given = [boxed(x, k in body.host_inputs, device) for k, x in enumerate((*inputs, *captures))]
        results = body(given[: len(inputs)], given[len(inputs) :])
        return [opened(y, k in body.host_outputs, device) for k, y in enumerate(results)]


def boxed(x: Any, on_host: bool, device: Device) -> Any:
    return x if x is None or on_host else Box(device, x)


def opened(x: Any, on_host: bool, device: Device) -> Any:
    assert x is None or isinstance(x, Box) != on_host, f"{'a Box' if on_host else 'an array'} in the place of the other"
    return x if x is None or on_host else x.open(device)


class Whole(Share):
    """Takes control flow with everything inside, and runs what it takes as a model of its own."""

    name = "WholeExecutionProvider"

    def unit(self, node: Node, wanted: Collection[Node]) -> Capability:
        return Capability(node, whole=True)

    def apart(self, node: Node) -> bool:
        return False

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [Exported(partition) for partition in partitions]


class Exported:
    def __init__(self, partition: Partition) -> None:
        model = partition_model(partition)
        self._inputs, self._outputs = model.inputs, model.outputs
        self._session = session(model.data, plain(), [])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self._session.run(list(self._outputs), dict(zip(self._inputs, inputs, strict=True)))


def copied(value: Any) -> Any:
    return [copied(element) for element in value] if isinstance(value, list) else np.array(value)


def session(
    model: bytes, options: ort_lite.SessionOptions, providers: Sequence[ExecutionProvider]
) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(model, options, providers=entries(providers))


def entries(providers: Sequence[ExecutionProvider]) -> list[Any]:
    """And the CPU provider. Who cannot compile what it took has a fault: nobody comes to its rescue."""
    strict = [(provider, {"on_compile_error": "raise"}) for provider in providers]
    return [*strict, CPUExecutionProvider(threads=1, fusion=False)]


def providers_for(seed: int, fuses: bool) -> list[Share]:
    """One to three besides the CPU provider."""
    rng = random.Random(seed)
    made: list[Share] = []
    for kind in rng.sample(("share", "other", "box 0", "box 1", "whole"), 1 + seed % 3):
        share, units = rng.choice((0.2, 0.5, 0.8)), rng.choice(("one", "pairs", "apart", "company"))
        if kind.startswith("box"):
            made.append(Boxed(rng.randrange(1000), share, units, fuses, int(kind[-1])))
        else:
            of = {"share": Share, "other": OtherShare, "whole": Whole}[kind]
            made.append(of(rng.randrange(1000), share, units, fuses and kind != "whole"))
    return made
