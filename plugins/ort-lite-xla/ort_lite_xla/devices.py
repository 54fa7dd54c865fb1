"""The devices that JAX finds on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ort_lite.errors import NoDevice

KINDS = ("cpu", "gpu", "tpu")
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""JAX's environment variable for allocating three quarters of a GPU's memory at the start, which is its default."""


def device_kind(kind: str) -> str:
    """Return the kind of an ort-lite Device for a kind of JAX device: "xla-cpu", "xla-gpu" or "xla-tpu"."""
    return f"xla-{kind}"


def devices(kind: str, preallocate: bool = False) -> list[Any]:
    """Return JAX's devices of a kind; none if JAX has no such platform here, or it does not start."""
    import jax

    try:
        with _preallocation(preallocate):
            return list(jax.devices(kind))
    except RuntimeError:
        return []


def find_device(who: str, kind: str, number: int, preallocate: bool) -> Any:
    """Return a JAX device. Raises NoDevice, listing the existing devices."""
    found = devices(kind, preallocate)
    if number >= len(found):
        existing = ", ".join(f"{each} {k}" for each in KINDS for k in range(len(devices(each))))
        raise NoDevice(f"{who}: no device {kind} {number}; there are {existing}")
    return found[number]


@contextmanager
def _preallocation(wanted: bool) -> Iterator[None]:
    """Tell JAX, which starts its devices all at once, how to allocate memory, unless the user's environment does."""
    if PREALLOCATE in os.environ:
        yield
        return
    os.environ[PREALLOCATE] = "true" if wanted else "false"
    try:
        yield
    finally:
        del os.environ[PREALLOCATE]
