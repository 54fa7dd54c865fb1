"""Constants on the device, with their dimensions in the order that XLA's kernels expect."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite_xla.contents import constants_of
from ort_lite_xla.executables import XlaSettings
from ort_lite_xla.trace import PRODUCTS
from ort_lite_xla.transfer import share

EMBEDDED = 256
"""The most bytes of a constant that is embedded in programs. Larger ones are operands, copied to the device once."""
CONVOLUTIONS = frozenset({"Conv", "FusedConv"})


class Weights:
    """The large constants of a partition. `arrays` are operands of every program; `restored` gives them their own shapes again."""

    def __init__(self, partition: Partition, settings: XlaSettings) -> None:
        device = settings.device
        self.values = [v for v in constants_of(partition) if v.constant is not None and v.constant.nbytes > EMBEDDED]
        self.orders = [_order(value) if device.platform == "cpu" else None for value in self.values]
        arrays = [_store(v, p) for v, p in zip(self.values, self.orders, strict=True)]
        if settings.precision == "bf16":
            arrays = [_round(value, array) for value, array in zip(self.values, arrays, strict=True)]
        self.arrays = [share(array, device) for array in arrays]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def restore(self, arrays: Sequence[Any]) -> list[Any]:
        """Return tracers of the constants from tracers of `arrays`. XLA cancels this transposition against its own."""
        return [
            array if order is None else jnp.transpose(array, np.argsort(order))
            for array, order in zip(arrays, self.orders, strict=True)
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


def _round(value: Value, array: Any) -> Any:
    """Return a float32 constant as bfloat16 if only products read it, which compute in that type then."""
    only = value.dtype == "float32" and all(node.op_type in PRODUCTS for node, _ in value.uses)
    return array.astype(jnp.bfloat16) if only else array
