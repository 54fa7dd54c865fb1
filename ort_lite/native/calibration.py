"""Factors of predicted costs that were measured on this machine: kept with the kernel cache, read when a session is made.

`ort-lite bench --calibrate` writes them. Without the file, predictions use the constants that are shipped.
"""

import functools
from collections.abc import Mapping

from ort_lite.native import cache
from ort_lite.native.cpu import Target
from ort_lite.native.digest import digest


def read_factors(target: Target) -> dict[str, float]:
    """Return the factors by name of kernel or candidate; empty if there are none for the target."""
    body = cache.read(cache.directory(), _key(target.triple, target.features))
    rows = [] if body is None else [line.split() for line in body.decode("ascii").splitlines()]
    return {name: float(factor) for name, factor in rows}


def write_factors(target: Target, factors: Mapping[str, float]) -> bool:
    """Store factors in the place of those that are there. If the folder is not writable, log a warning and return False."""
    body = "".join(f"{name} {factor:.4g}\n" for name, factor in sorted(factors.items()))
    return cache.write(cache.directory(), _key(target.triple, target.features), body.encode("ascii"))


@functools.cache
def _key(triple: str, features: str) -> str:
    return f"costs-{digest(f'{triple} {features}'.encode()).hex()}"
