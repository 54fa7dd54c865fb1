"""Compiled kernels of a provider on disk, for later processes."""

from ort_lite.native import store


class KernelStore:
    """The kernels that one version of a provider compiled, in the folder of prepared programs. Thread-safe, and shared by processes.

    `provider` is the provider's name. `version` says what its kernels depend on besides their keys, such as the version of the
    plugin, and the device and its driver. Kernels of another version, or of another version of ort-lite, are not found. The
    folder's size is limited, so the least recently used ones are removed. See docs/kernel-cache.md.
    """

    def __init__(self, provider: str, version: str) -> None:
        self._prefix = repr((provider, version)).encode()

    def read(self, key: bytes) -> bytes | None:
        """Return what was written for a key; None if there is nothing, it is damaged, or another user could have written it.

        A key is the source code of a kernel, or whatever else it was compiled from. 50 us.
        """
        return store.read(self._key(key))

    def write(self, key: bytes, data: bytes) -> bool:
        """Store what was compiled for a key. Return False, after a warning, if the folder cannot be used or `data` is too large.

        One kernel may have 64 MiB. 1 ms, and 5 us for each file in the folder.
        """
        return store.write(self._key(key), data)

    def _key(self, key: bytes) -> str:
        return store.key_of(b"kernel of a provider", b"%d " % len(self._prefix), self._prefix, key)
