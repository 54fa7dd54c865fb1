"""MurmurHash3 of com.microsoft: 32 bits of each element, all elements of one length at a time."""

from collections.abc import Sequence

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import STRING, operator
from ort_lite_cpu.run.pace import CHEAP, Pace

NUMBERS = frozenset({"float32", "float64", "int32", "int64", "uint32", "uint64"})
_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


@operator("MurmurHash3", domain="com.microsoft", types=STRING, python=True)
@operator("MurmurHash3", domain="com.microsoft", types=NUMBERS)
def murmur_hash(op: NodeLowering) -> None:
    """Hash the bytes of numbers, and of texts as UTF-8. O(bytes). Spec: onnxruntime MurmurHash3-1, MurmurHash3_x86_32."""
    seed = np.uint32(op.attr("seed", 0) % 2**32)
    dtype, pace = op.info().dtype, op.pace
    assert dtype is not None
    result = to_numpy(dtype)

    def step(x: Array) -> Sequence[Array]:
        hashes, flat = np.empty(x.size, np.uint32), np.ascontiguousarray(x).reshape(-1)
        if x.dtype == object:
            at = 0
            for block in pace.texts(pace.elements(x)):
                hashes[at : at + len(block)] = _of_texts(pace, block, seed)
                at += len(block)
        else:
            for part in pace.slices(x.size, CHEAP):
                hashes[part] = _of_rows(pace, flat[part].reshape(-1, 1).view(np.uint8), seed)
        return [hashes.view(result).reshape(x.shape)]

    op.python(step)


def _of_texts(pace: Pace, texts: list[str], seed: np.uint32) -> Array:
    """Hash texts of any lengths: those of one length are the rows of a matrix."""
    coded = [text.encode() for text in texts]
    lengths = np.array([len(text) for text in coded], np.int64)
    order = np.argsort(lengths, kind="stable")
    hashes = np.empty(len(coded), np.uint32)
    for places in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = lengths[places[0]]
        rows = np.frombuffer(b"".join([coded[k] for k in places.tolist()]), np.uint8).reshape(len(places), length)
        hashes[places] = _of_rows(pace, rows, seed)
    return hashes


def _of_rows(pace: Pace, rows: Array, seed: np.uint32) -> Array:
    """Hash each row of bytes (n, length), uint32; sums and products are taken modulo 2**32."""
    count, length = rows.shape
    whole = length // 4 * 4
    h = np.full(count, seed, np.uint32)
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4")
    for part in pace.slices(words.shape[1], 1 << 10):
        for k in range(words.shape[1])[part]:
            h ^= _mix(words[:, k].astype(np.uint32))
            h = _turn(h, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if whole < length:
        rest = np.zeros((count, 4), np.uint8)
        rest[:, : length - whole] = rows[:, whole:]
        h ^= _mix(rest.view("<u4")[:, 0].astype(np.uint32))
    h ^= np.uint32(length % 2**32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    return np.asarray(h ^ (h >> np.uint32(16)))


def _mix(words: Array) -> Array:
    return np.asarray(_turn(words * _FIRST, 15) * _SECOND)


def _turn(words: Array, bits: int) -> Array:
    """Return x rotated to the left."""
    return np.asarray((words << np.uint32(bits)) | (words >> np.uint32(32 - bits)))
