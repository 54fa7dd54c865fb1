"""BLAKE2b of 20 bytes, for keys and checks. Not through `hashlib`, which loads OpenSSL too: 4 ms of every start."""

try:
    from _blake2 import blake2b
except ImportError:  # a private module of CPython
    from hashlib import blake2b

__all__ = ["SIZE", "blake2b", "digest"]

SIZE = 20


def digest(*parts: bytes | memoryview) -> bytes:
    """Return the digest of the parts, one after the other."""
    made = blake2b(digest_size=SIZE)
    for part in parts:
        made.update(part)
    return made.digest()
