"""Operators by their definition, where onnx.reference lacks them, is wrong, or has another version of them."""

from tests.generated.ports import normalization, pooling, recurrent, sequences, softmax, training, windows
from tests.generated.ports.registry import REFUSED, find_port
from tests.generated.ports.sequences import StackingLoop

__all__ = [
    "REFUSED",
    "StackingLoop",
    "find_port",
    "normalization",
    "pooling",
    "recurrent",
    "sequences",
    "softmax",
    "training",
    "windows",
]
