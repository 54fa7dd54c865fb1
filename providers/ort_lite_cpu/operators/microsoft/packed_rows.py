"""GatherPacked of com.microsoft: rows of a table that is stored in one of ggml's formats of blocks.

A block has scales, which are floats of 16 bits, and codes of 2 to 8 bits for 32, 64 or 256 numbers.
Source: ggml's formats, as onnxruntime reads them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_onnx, to_numpy
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import operator

NONLINEAR = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
"""The numbers of the codes of IQ4_NL and IQ4_XS."""


def _floats(blocks: Array, start: int) -> Array:
    """Return the float16 at a byte of each block, as (blocks, 1) of float32."""
    found: Array = blocks[:, start : start + 2].copy().view(np.float16).astype(np.float32)
    return found


def _fields(data: Array, bits: int, run: int) -> Array:
    """Return codes of (blocks, bytes): those in the low bits of `run` bytes, then those in the next bits, and so on."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    blocks, nbytes = data.shape
    runs = data.reshape(blocks, nbytes // run, 1, run) >> shifts & ((1 << bits) - 1)
    found: Array = runs.reshape(blocks, nbytes * 8 // bits).astype(np.int32)
    return found


def _q4_0(blocks: Array) -> Array:
    numbers: Array = _floats(blocks, 0) * (_fields(blocks[:, 2:], 4, 16) - 8)
    return numbers


def _q5_0(blocks: Array) -> Array:
    high = np.unpackbits(blocks[:, 2:6], axis=-1, bitorder="little").astype(np.int32)
    numbers: Array = _floats(blocks, 0) * ((_fields(blocks[:, 6:], 4, 16) | high << 4) - 16)
    return numbers


def _q8_0(blocks: Array) -> Array:
    numbers: Array = _floats(blocks, 0) * blocks[:, 2:].view(np.int8)
    return numbers


def _q2_0(blocks: Array) -> Array:
    numbers: Array = _floats(blocks, 0) * (_fields(blocks[:, 2:], 2, 1) - 1)
    return numbers


def _q5_k(blocks: Array) -> Array:
    """Eight runs of 32 codes of 5 bits, each with a scale and an offset of 6 bits, which share 12 bytes."""
    low, middle, high = np.split(blocks[:, 4:16], 3, axis=-1)
    scales = np.concatenate([low & 63, high & 15 | low >> 2 & 48], -1)
    offsets = np.concatenate([middle & 63, high >> 4 | middle >> 2 & 48], -1)
    codes = (_fields(blocks[:, 48:], 4, 32) | _fields(blocks[:, 16:48], 1, 32) << 4).reshape(-1, 8, 32)
    scale, offset = _floats(blocks, 0) * scales, _floats(blocks, 2) * offsets
    found: Array = scale[..., None] * codes - offset[..., None]
    return found


def _q6_k(blocks: Array) -> Array:
    """Sixteen runs of 16 codes of 6 bits, each with a scale of 8 bits."""
    codes = (_fields(blocks[:, :128], 4, 64) | _fields(blocks[:, 128:192], 2, 32) << 4) - 32
    scales = _floats(blocks, 208) * blocks[:, 192:208].view(np.int8)
    found: Array = scales[..., None] * codes.reshape(-1, 16, 16)
    return found


def _iq4_nl(blocks: Array) -> Array:
    return _floats(blocks, 0) * NONLINEAR[_fields(blocks[:, 2:], 4, 16)]


def _iq4_xs(blocks: Array) -> Array:
    """Eight runs of 32 codes, each with a scale of 6 bits, of which 4 and 2 are stored apart."""
    scales = (_fields(blocks[:, 4:8], 4, 1) | _fields(blocks[:, 2:4], 2, 1) << 4) - 32
    codes = _fields(blocks[:, 8:], 4, 16).reshape(-1, 8, 32)
    found: Array = (_floats(blocks, 0) * scales)[..., None] * NONLINEAR[codes]
    return found


def _float32(blocks: Array) -> Array:
    return blocks.view(np.float32)


def _float16(blocks: Array) -> Array:
    return blocks.view(np.float16).astype(np.float32)


def _bfloat16(blocks: Array) -> Array:
    return (blocks.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


FORMATS: dict[int, tuple[int, int, Callable[[Array], Array]]] = {
    0: (1, 4, _float32),
    1: (1, 2, _float16),
    2: (32, 18, _q4_0),
    6: (32, 22, _q5_0),
    8: (32, 34, _q8_0),
    13: (256, 176, _q5_k),
    14: (256, 210, _q6_k),
    20: (32, 18, _iq4_nl),
    23: (256, 136, _iq4_xs),
    30: (1, 2, _bfloat16),
    42: (64, 18, _q2_0),
}
"""packed_type -> (the numbers of a block, its bytes, a function from (blocks, bytes) to the numbers)."""


@operator("GatherPacked", domain="com.microsoft", types=frozenset({"uint8"}))
def gather_packed(op: NodeLowering) -> None:
    """Run as a Python step, which dequantizes the gathered rows. Indices beyond the table select row 0.

    Spec: onnxruntime GatherPacked-1, without the formats that need code books (16, 17, 18 and 22).
    """
    kind, columns = op.attr("packed_type"), op.attr("K")
    if kind not in FORMATS:
        raise op.reject(f"packed_type {kind}, takes {', '.join(map(str, FORMATS))}")
    count, nbytes, unpack = FORMATS[kind]
    if columns < 1 or columns % count:
        raise op.reject(f"K {columns}, takes multiples of {count} with packed_type {kind}")
    width = columns // count * nbytes
    op.agree(op.raw(0).shape[1:], (width,), f"rows of packed_type {kind} and K {columns} do not fit")
    dtype = to_numpy(from_onnx(op.attr("output_dtype", 16)))

    def gather(data: Array, indices: Array) -> list[Any]:
        inside = (indices >= 0) & (indices < len(data))
        if indices.size and not len(data):
            raise ValueError("there is no row to gather")
        rows = data[np.where(inside, indices, 0)]
        return [unpack(rows.reshape(indices.size * width // nbytes, nbytes)).astype(dtype).reshape(*indices.shape, columns)]

    op.python(gather)
