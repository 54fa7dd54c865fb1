"""ImageDecoder, as a Python step: Pillow decodes."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException
from ort_lite.graph import Node
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.copying import check
from ort_lite_cpu.registry import operator

BYTES = frozenset({"uint8"})
STRIP = 1 << 22
"""Pixels that are converted at a time."""


class _Bytes(io.BytesIO):
    """A file that a cancelled run cannot read on: Pillow decodes most formats by blocks of 64 KB."""

    def __init__(self, node: Node, data: bytes) -> None:
        super().__init__(data)
        self._node = node

    def read(self, size: int | None = -1, /) -> bytes:
        check(self._node)
        return super().read(size)


@operator("ImageDecoder", since=20, types=BYTES, python=True)
def image_decoder(op: NodeLowering) -> None:
    """The bytes of a file, (n,), -> (H, W, C). Needs the extra "image". Spec: ONNX ImageDecoder-20."""
    pixels = op.attr("pixel_format", "RGB")
    if pixels not in ("RGB", "BGR", "Grayscale"):
        raise op.reject(f"pixel_format {pixels}; there are RGB, BGR and Grayscale")

    def step(encoded: Array) -> Sequence[Array]:
        try:
            from PIL import Image
        except ImportError:
            advice = "decoding images needs Pillow: pip install pillow"
            raise RuntimeException(f"{op.node} (CPUExecutionProvider): {advice}").about(op.node) from None
        with Image.open(_Bytes(op.node, encoded.tobytes())) as image:
            return [_pixels(op.node, image, pixels)]

    op.python(step)


def _pixels(node: Node, image: Any, order: str) -> Array:
    """(H, W, C): decoded, and converted strip by strip."""
    image.load()
    width, height = image.size
    y = np.empty((height, width, 1 if order == "Grayscale" else 3), np.uint8)
    rows = max(STRIP // width, 1)
    for top in range(0, height, rows):
        check(node)
        bottom = min(top + rows, height)
        strip = np.asarray(image.crop((0, top, width, bottom)).convert("L" if order == "Grayscale" else "RGB"))
        y[top:bottom] = strip.reshape(y[top:bottom].shape)[:, :, :: -1 if order == "BGR" else 1]
    return y
