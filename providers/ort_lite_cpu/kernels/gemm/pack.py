"""Packed panels: the form in which the register tile reads the right operand of a matrix product.

Panel p holds columns p * width to (p + 1) * width of B, row after row, zeros where B has no more columns.
"""

import math

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import allocate_in_huge_pages
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, span
from ort_lite_cpu.kernels.once import run_once
from ort_lite_cpu.kernels.square import transpose_block
from ort_lite_cpu.run.kernels import Kernels


def panels(b: Array, width: int, kernels: Kernels) -> Array:
    """Return (..., K, N) as panels (..., ceil(N / width), K, width). O(size)."""
    *batch, k, n = b.shape
    if not batch and b.T.flags.c_contiguous:
        return np.asarray(filters(b.T[..., None], 1, width, kernels)[0])
    out = allocate_in_huge_pages((*batch, -(-n // width), k, width), b.dtype)
    in_panels(b, out)
    return out


def unpack(packed: Array, n: int) -> Array:
    """Return the (K, N) of which `panels` made `packed`, bit for bit. O(size)."""
    across, k, width = packed.shape
    return packed.transpose(1, 0, 2).reshape(k, across * width)[:, :n]


def filters(weight: Array, groups: int, width: int, kernels: Kernels) -> Array:
    """Return (O, C / groups, *kernel) as panels (groups, ceil(O / groups / width), taps * C / groups, width). O(size)."""
    outputs, (channels, *kernel) = weight.shape[0] // groups, weight.shape[1:]
    taps = math.prod(kernel)
    out = allocate_in_huge_pages((groups, -(-outputs // width), taps * channels, width), weight.dtype)
    sizes = {"groups": groups, "outputs": outputs, "channels": channels, "taps": taps, "width": width}

    def otherwise() -> None:
        lines = weight.reshape(groups, outputs, channels, taps).transpose(0, 3, 2, 1).reshape(groups, taps * channels, outputs)
        in_panels(lines, out)

    run_once(pack_filters, [np.ascontiguousarray(weight), out], kernels, otherwise, **sizes)
    return out


def in_panels(lines: Array, out: Array) -> None:
    """Write (..., k, n) as panels (..., ceil(n / width), k, width), the last one filled up with zeros. O(size)."""
    width = out.shape[-1]
    whole, rest = divmod(lines.shape[-1], width)
    out[..., :whole, :, :] = lines[..., : whole * width].reshape(*lines.shape[:-1], whole, width).swapaxes(-3, -2)
    if rest:
        out[..., whole, :, :rest] = lines[..., whole * width :]
        out[..., whole, :, rest:] = 0


@native
@extents(w="groups * outputs * channels * taps", out="groups * ceildiv(outputs, width) * taps * channels * width")
def pack_filters(
    w: Ptr, out: Ptr, groups: int, outputs: int, channels: int, taps: int, width: int, part: int, parts: int
) -> int:
    """out = filters(w, groups, width); outputs and channels are those of one group. Parts share panels."""
    across = (outputs + width - 1) // width
    depth = taps * channels
    for job in span(groups * across, part, parts):
        group, j = job // across, job % across * width
        count = min(outputs - j, width)
        for k in range(depth):
            target = (job * depth + k) * width
            source = ((group * outputs + j) * channels + k % channels) * taps + k // channels
            for i in range(count):
                out[target + i] = w[source + i * depth]
            for i in range(count, width):
                out[target + i] = like(out, 0)
    return OK


@native
def pack_panel(
    b: Ptr, ldb: int, transposed: Static, n: int, k: int, scale: float, out: Ptr, vectors: Static, lanes: Static
) -> None:
    """out (k, width) = scale * b (k, n), or (n, k) if transposed, rows `ldb` apart; n <= width = vectors * lanes."""
    factor, width = like(b, scale), vectors * lanes
    if n < width:
        for i in range(k * width):
            out[i] = like(b, 0)
    if transposed:
        transpose_block(b, ldb, out, width, n, k)
        if scale != 1.0:
            for i in range(k * width):
                out[i] = out[i] * factor
    elif n == width:
        for i in range(k):
            for j in range(width):
                out[i * width + j] = b[i * ldb + j] * factor
    else:
        for i in range(k):
            for j in range(n):
                out[i * width + j] = b[i * ldb + j] * factor
