"""Operators by their definition, where onnx.reference lacks them, is wrong, or has another version of them."""

from tests.generated.ports import normalization, pooling, recurrent, softmax, training, windows
from tests.generated.ports.registry import find_port

__all__ = ["find_port", "normalization", "pooling", "recurrent", "softmax", "training", "windows"]
