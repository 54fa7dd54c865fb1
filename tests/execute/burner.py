"""A device for tests of donation: what it gets donated is destroyed, so that a later read of it fails."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import ort_lite
from ort_lite.graph import Node
from ort_lite.provider import CPU, Capability, Device, Partition
from tests.load.models import proto
from tests.provider.numpy_provider import NumpyProvider, evaluate
from tests.provider.texts import plain


class Fuel:
    """A value on the burner."""

    def __init__(self, array: Any) -> None:
        self.shape, self.nbytes = array.shape, array.nbytes
        self._array = array

    def array(self) -> Any:
        assert self._array is not None, "a value was read after it was donated"
        return self._array

    def burn(self) -> None:
        self._array = None


class BurnerTransfer:
    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, Burner.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        return Fuel(np.array(value)) if source == CPU else value.array().copy()

    def overwrite(self, value: Any, source: Device, destination: Device, target: Fuel) -> None:
        target.array()[...] = value if source == CPU else value.array()


class Burner(NumpyProvider):
    """Runs each node in a partition of its own. `donated` has the positions of the donated inputs by operator, in order."""

    name: ClassVar[str] = "BurnerExecutionProvider"
    device = Device("burner")

    def __init__(self, takes: Callable[[Node], bool] = lambda node: True, aliases: Mapping[int, int] | None = None) -> None:
        super().__init__(takes, group=lambda node: Capability([node], merge=False))
        self.aliases = aliases
        self.donated: list[tuple[str, list[int]]] = []

    def data_transfer(self) -> BurnerTransfer:
        return BurnerTransfer()

    def compile(self, partitions: Sequence[Partition]) -> Any:
        return [Burning(partition, self) for partition in partitions]


class Burning:
    """A partition on the burner."""

    returns_input = False

    def __init__(self, partition: Partition, burner: Burner) -> None:
        self.partition, self._burner = partition, burner
        if burner.aliases is not None:
            self.aliases = burner.aliases

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self._burner.donated.append((self.partition.nodes[0].op_type, []))
        return list(inputs[:1]) if self.returns_input else self._compute(inputs)

    def call_donating(self, inputs: Sequence[Any], donated: frozenset[int]) -> list[Any]:
        self._burner.donated.append((self.partition.nodes[0].op_type, sorted(donated)))
        results = self._compute(inputs)
        for k in donated:
            inputs[k].burn()
        return results

    def _compute(self, inputs: Sequence[Any]) -> list[Any]:
        arrays = [None if x is None else x.array() for x in inputs]
        return [None if y is None else Fuel(np.array(y)) for y in evaluate(self.partition, arrays)]


def session(text: str, *providers: Any, options: Any = None, **more: Any) -> ort_lite.InferenceSession:
    """Return a session without optimizations."""
    return ort_lite.InferenceSession(proto(text), options or plain(), providers=[*providers, "CPUExecutionProvider"], **more)
