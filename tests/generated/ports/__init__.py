"""Operators by their definition, where onnx.reference lacks them, is wrong, or has another version of them."""

from tests.generated.ports import (
    deformable,
    experts,
    learned,
    normalization,
    pooling,
    quantization,
    recurrent,
    sequences,
    softmax,
    tensors,
    text,
    training,
    trees,
    windows,
)
from tests.generated.ports.registry import find_port
from tests.generated.ports.sequences import StackingLoop, StackingScan

__all__ = [
    "StackingLoop",
    "StackingScan",
    "deformable",
    "experts",
    "find_port",
    "learned",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "sequences",
    "softmax",
    "tensors",
    "text",
    "training",
    "trees",
    "windows",
]
