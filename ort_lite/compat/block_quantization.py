"""Block quantization of matrices: native functions that onnxruntime's `quantization` package calls.

A block is up to `block_size` consecutive weights of one column that share a scale and a zero point. All functions write into
arrays of the caller and raise InvalidArgument if these have another size or type. O(weights).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ort_lite.errors import InvalidArgument

_Array = NDArray[np.generic]
_Floats = NDArray[np.float32]
_Quantize = Callable[[_Array, _Array, _Array, _Array, int, int, int, bool], None]

# Midpoints between neighbors of the sixteen NF4 values (weight / largest magnitude of its block), in rising order.
_NF4_BELOW = (-0.8480964, -0.61063293, -0.45999527, -0.33967943, -0.2346074, -0.13791173, -0.045525018)
_NF4_ABOVE = (0.03979015, 0.12025525, 0.20352125, 0.29201377, 0.38931254, 0.50166342, 0.64278692, 0.86147842)
_NF4 = np.array(_NF4_BELOW + _NF4_ABOVE, np.float32)
# The same for FP4 magnitudes, whose codes are not in rising order; the fourth bit is the sign.
_FP4 = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333], np.float32)
_FP4_CODES = np.array([0b000, 0b001, 0b110, 0b111, 0b100, 0b101, 0b010, 0b011], np.uint8)
_NF4_TYPE = 1


def _operator_form(bits: int) -> _Quantize:
    """Return the function that quantizes weights for MatMulNBits."""

    def quantize(
        dst: _Array, src: _Array, scale: _Array, zero_points: _Array, block_size: int, n: int, k: int, is_symmetric: bool
    ) -> None:
        """Quantize `src` (k, n) to unsigned codes for MatMulNBits.

        `dst` is (n, blocks, bytes per block) with the first code in the lowest bits, `scale` is (n, blocks), and `zero_points`
        is (n, bytes per row). `zero_points` is not written if quantization is symmetric.
        """
        blocks = _blocks(src, block_size, n, k)
        scales, zeros = _parameters(blocks, bits, is_symmetric)
        scales = scales.astype(scale.dtype).astype(np.float32)
        nearest = _nearest(blocks * _inverse(scales)[:, None] + zeros[:, None].astype(np.float32))
        codes = np.clip(nearest, 0, 2**bits - 1).astype(np.uint8)
        codes[_beyond(codes.shape, block_size, k)] = 0
        _write("dst", dst, _pack(codes.transpose(2, 0, 1), bits, 0))
        _write("scale", scale, scales.T)
        if not is_symmetric:
            _write("zero_points", zero_points, _pack(zeros.T.astype(np.uint8), bits, 2 ** (bits - 1)))

    return quantize


quantize_matmul_2bits = _operator_form(2)
quantize_matmul_4bits = _operator_form(4)
quantize_matmul_8bits = _operator_form(8)


def quantize_qdq_matmul_4bits(
    dst: _Array, src: _Array, scale: _Array, zero_points: _Array, block_size: int, n: int, k: int, is_symmetric: bool
) -> bool:
    """Quantize `src` (k, n) to 4-bit codes for DequantizeLinear. Return True if the codes are signed.

    Codes are signed if quantization is symmetric. `dst` is (k, n), `scale` is (blocks, n), and `zero_points` is (blocks, n)
    with the type of the codes; it is not written if quantization is symmetric.
    """
    blocks = _blocks(src, block_size, n, k)
    scales, zeros = _parameters(blocks, 4, is_symmetric)
    scales = scales.astype(scale.dtype).astype(np.float32)
    least, zeros = (-8, zeros - 8) if is_symmetric else (0, zeros)
    codes = _nearest(blocks * _inverse(scales)[:, None]) + zeros[:, None]
    codes = np.clip(codes, least, least + 15).reshape(-1, n)[:k]
    _write("dst", dst, _pack(codes.astype(np.uint8).ravel() & 15, 4, 0))
    _write("scale", scale, scales)
    if not is_symmetric:
        _write("zero_points", zero_points, _pack(zeros.astype(np.uint8).ravel(), 4, 0))
    return is_symmetric


def quantize_matmul_bnb4(dst: _Array, src: _Array, absmax: _Array, block_size: int, quant_type: int, n: int, k: int) -> None:
    """Quantize `src` (n, k) to codes of bitsandbytes: FP4 (`quant_type` 0) or NF4 (1).

    Blocks follow row order and may span rows. `dst` holds two codes per byte, the first in the high bits; `absmax` holds the
    largest magnitude of each block. Raises InvalidArgument for another type or size.
    """
    if quant_type not in (0, _NF4_TYPE):
        raise InvalidArgument(f"quant_type is {quant_type}; expected 0 (FP4) or 1 (NF4)")
    flat = np.ascontiguousarray(src, np.float32).ravel()
    if flat.size != n * k:
        raise InvalidArgument(f"src has {flat.size} elements; expected n * k = {n} * {k}")
    blocks = np.zeros((-(-flat.size // block_size), block_size), np.float32)
    blocks.ravel()[: flat.size] = flat
    largest = np.abs(blocks).max(axis=1, initial=0)
    scaled = (blocks * _inverse(largest)[:, None]).ravel()[: flat.size + flat.size % 2]
    if quant_type == _NF4_TYPE:
        codes = np.searchsorted(_NF4, scaled).astype(np.uint8)
    else:
        codes = _FP4_CODES[np.searchsorted(_FP4, np.abs(scaled))] + np.where(scaled < 0, 8, 0).astype(np.uint8)
    _write("dst", dst, codes[0::2] << 4 | codes[1::2])
    _write("absmax", absmax, largest)


def _blocks(src: _Array, block_size: int, n: int, k: int) -> _Floats:
    """Return the first k rows of `src` as float32 (blocks, block_size, n), padded with zeros."""
    if src.size < n * k or block_size < 1:
        raise InvalidArgument(
            f"src has {src.size} elements, blocks {block_size}; expected k * n = {k} * {n} or more, and 1 or more"
        )
    count = -(-k // block_size)
    blocks = np.zeros((count * block_size, n), np.float32)
    blocks[:k] = np.asarray(src, np.float32).ravel()[: k * n].reshape(k, n)
    return blocks.reshape(count, block_size, n)


def _beyond(shape: tuple[int, ...], block_size: int, k: int) -> NDArray[np.bool_]:
    """Return the padded positions of the blocks as a mask (blocks, block_size, n)."""
    rows = np.arange(shape[0] * block_size).reshape(shape[0], block_size, 1)
    return np.broadcast_to(rows >= k, shape)


def _parameters(blocks: _Floats, bits: int, symmetric: bool) -> tuple[_Floats, NDArray[np.int32]]:
    """Return scales and zero points (blocks, n).

    Symmetric: the end of the range with the larger magnitude becomes the least code.
    """
    least, most = np.minimum(blocks.min(axis=1), 0), np.maximum(blocks.max(axis=1), 0)
    if symmetric:
        far = np.where(np.abs(most) > np.abs(least), most, least)
        scales = -far / np.float32(2 ** (bits - 1))
        return scales, np.full(scales.shape, 2 ** (bits - 1), np.int32)
    scales = (most - least) / np.float32(2**bits - 1)
    zeros = -least / np.where(scales == 0, np.float32(1), scales)
    return scales, np.clip(_nearest(zeros), 0, 2**bits - 1)


def _inverse(scales: _Floats) -> _Floats:
    """Return 1 / scale, or 0 for a scale of 0."""
    return np.where(scales == 0, np.float32(0), np.float32(1) / np.where(scales == 0, np.float32(1), scales))


def _nearest(values: _Floats) -> NDArray[np.int32]:
    """Round to whole numbers, halves away from zero."""
    whole = np.trunc(values)
    away = np.abs(values - whole) >= 0.5
    return (whole + np.where(away, np.copysign(np.float32(1), values), 0)).astype(np.int32)


def _pack(codes: NDArray[np.uint8], bits: int, fill: int) -> NDArray[np.uint8]:
    """Pack codes along the last axis into bytes, the first in the lowest bits, padded with `fill`."""
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)], constant_values=fill)
    lanes = codes.reshape(*codes.shape[:-1], -1, per_byte)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(lanes << shifts, axis=-1)
    return packed


def _write(name: str, array: _Array, values: _Array) -> None:
    """Copy values into the caller's array, whatever its shape."""
    if array.size != values.size or (array.dtype != np.uint8) != (values.dtype != np.uint8):
        raise InvalidArgument(f"{name} has {array.size} elements of {array.dtype}; expected {values.size} of {values.dtype}")
    array[...] = values.reshape(array.shape).astype(array.dtype)
