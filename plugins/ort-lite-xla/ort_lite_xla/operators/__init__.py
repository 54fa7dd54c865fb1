"""The lowerings, one family of operators per module. Importing this package fills `ort_lite_xla.registry.TABLE`."""

from ort_lite_xla.operators import (
    activations,
    binary,
    conv,
    elementwise,
    gather,
    matmul,
    normalization,
    parts,
    pooling,
    quantization,
    recurrent,
    reductions,
    resize,
    shape,
)

__all__ = [
    "activations",
    "binary",
    "conv",
    "elementwise",
    "gather",
    "matmul",
    "normalization",
    "parts",
    "pooling",
    "quantization",
    "recurrent",
    "reductions",
    "resize",
    "shape",
]
