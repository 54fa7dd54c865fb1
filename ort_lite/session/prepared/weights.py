"""Digests of weights at the speed of memory: a universal hash with a secret key compresses them, BLAKE2b digests what is left.

Each entry has a key of its own, which only who may read the entry knows. For any two different blocks that were chosen without it,
both 64-bit sums are equal for one in 2**64 keys at most (NH with a shifted key, of UMAC, RFC 4418).
"""

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from os import urandom
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import address_of
from ort_lite.native.digest import digest
from ort_lite.native.lang import pointer_i64, wadd, wmul
from ort_lite.native.loader import load
from ort_lite.native.spec import Spec

WORDS = 512
"""The 64-bit words of a block."""
KEY_BYTES = 8 * (WORDS + 2)
_LOW = (1 << 32) - 1


def compress(data: int, blocks: int, key: int, sums: int) -> int:
    """Write two sums for each block of data: NH of its 32-bit words, with the key and with the key shifted by two words."""
    x, k, out = pointer_i64(data), pointer_i64(key), pointer_i64(sums)
    for block in range(blocks):
        first, second, base = 0, 0, block * WORDS
        for i in range(WORDS):
            word, left, right = x[base + i], k[i], k[i + 2]
            low, high = word & _LOW, (word >> 32) & _LOW
            first = wadd(first, wmul((low + (left & _LOW)) & _LOW, (high + ((left >> 32) & _LOW)) & _LOW))
            second = wadd(second, wmul((low + (right & _LOW)) & _LOW, (high + ((right >> 32) & _LOW)) & _LOW))
        out[2 * block] = first
        out[2 * block + 1] = second
    return 0


@cache
def _compress() -> Callable[..., int]:
    [address] = load([Spec.plain(compress, "i64(i64,i64,i64,i64)")])
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(address)


class Digests:
    """Digests of arrays under one key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Create a key, unless one is given."""
        self.key = urandom(KEY_BYTES) if key is None else key

    @cached_property
    def _words(self) -> Any:
        return np.frombuffer(self.key, np.int64).copy()

    def __call__(self, array: Array) -> bytes:
        """Return the digest of the bytes of a contiguous array."""
        data = array.reshape(-1).view(np.uint8)
        blocks = len(data) // (8 * WORDS)
        sums = np.empty(2 * blocks, np.int64)
        if blocks:
            whole = data if not address_of(data) % 8 else data.copy()
            _compress()(address_of(whole), blocks, address_of(self._words), address_of(sums))
        return digest(self.key[:64], sums.data, data[blocks * 8 * WORDS :].data)
