"""BLAKE2b digests of 20 bytes, for keys and checks. Avoids `hashlib`, which also loads OpenSSL and takes 4 ms at each start."""

try:
    from _blake2 import blake2b
except ImportError:  # a private module of CPython
    from hashlib import blake2b

__all__ = ["SIZE", "blake2b", "digest"]

SIZE = 20


def digest(*parts: bytes | memoryview) -> bytes:
    """Return the digest of the concatenated parts."""
    made = blake2b(digest_size=SIZE)
    for part in parts:
        made.update(part)
    return made.digest()
