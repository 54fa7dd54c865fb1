"""Constants on the device, with their dimensions in the order that XLA's kernels expect."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite_xla.borders import inside

EMBEDDED = 256
"""The most bytes of a constant that is embedded in programs. Larger ones are operands, copied to the device once."""
CONVOLUTIONS = frozenset({"Conv", "FusedConv"})


class Weights:
    """The large constants of a partition. `arrays` are operands of every program; `restored` gives them their own shapes again."""

    def __init__(self, partition: Partition, device: jax.Device) -> None:
        self.values = [v for v in partition.constants if v.constant is not None and v.constant.nbytes > EMBEDDED]
        self._orders = [_order(value) if device.platform == "cpu" else None for value in self.values]
        with jax.enable_x64(True):
            self.arrays = [inside(_store(v, p), device) for v, p in zip(self.values, self._orders, strict=True)]
        self.addresses = frozenset(a.unsafe_buffer_pointer() for a in self.arrays if device.platform == "cpu")

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def restore(self, arrays: Sequence[Any]) -> list[Any]:
        """Return tracers of the constants from tracers of `arrays`. XLA cancels this transposition against its own."""
        return [
            array if order is None else jnp.transpose(array, np.argsort(order))
            for array, order in zip(arrays, self._orders, strict=True)
        ]


def _order(value: Value) -> tuple[int, ...] | None:
    """Return (kernel, in, out) for a constant that only convolutions use as weight: XLA on the CPU transposes others in every run."""
    rank = len(value.shape or ())
    if rank > 2 and all(node.op_type in CONVOLUTIONS and index == 1 for node, index in value.uses):
        return (*range(2, rank), 1, 0)
    return None


def _store(value: Value, order: tuple[int, ...] | None) -> Any:
    assert value.constant is not None, "a constant has an array"
    return value.constant if order is None else np.ascontiguousarray(value.constant.transpose(order))
