"""ImageDecoder, as a Python step: Pillow decodes."""

import io
from collections.abc import Sequence

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import operator

BYTES = frozenset({"uint8"})
LARGE = 1 << 22
"""Pixels, and bytes of a file, from which on a run does not wait for Pillow once it is cancelled."""


@operator("ImageDecoder", since=20, types=BYTES, python=True)
def image_decoder(op: NodeLowering) -> None:
    """Decode the bytes of a file, (n,), to (H, W, C). Needs the extra "image". Spec: ONNX ImageDecoder-20."""
    pixels = op.attr("pixel_format", "RGB")
    if pixels not in ("RGB", "BGR", "Grayscale"):
        raise op.reject(f"pixel_format {pixels}; there are RGB, BGR and Grayscale")

    pace, node = op.pace, op.node

    def step(encoded: Array) -> Sequence[Array]:
        try:
            from PIL import Image
        except ImportError:
            advice = "decoding images needs Pillow: pip install pillow"
            raise RuntimeException(f"{node} (CPUExecutionProvider): {advice}").about(node) from None

        def decode(most: int | None = None) -> Array | None:
            with Image.open(io.BytesIO(encoded.data)) as image:
                if most is not None and image.width * image.height > most:
                    return None
                return np.array(image.convert("L" if pixels == "Grayscale" else "RGB"))

        decoded = decode(LARGE) if encoded.size <= LARGE else None
        if decoded is None:
            decoded = pace.beside(decode)
        assert decoded is not None
        if pixels == "Grayscale":
            return [decoded[:, :, None]]
        return [decoded[:, :, ::-1] if pixels == "BGR" else decoded]

    op.python(step)
