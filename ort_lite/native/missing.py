"""Handling of missing kernels: whether they may and can be compiled, and the error if not."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from ort_lite.errors import InvalidArgument, KernelMissing
from ort_lite.native.spec import Spec

OPTION = "ort_lite.compile"
"""A session's config entry: what to do about kernels that are in no installed pack and not in the cache.

- wait: compile them while the session waits (the default)
- never: compile nothing. Unfused kernels replace a missing fused one, with bit-identical results; if one of those is missing too,
  KernelMissing names it
- background: like never, but indispensable kernels are compiled while the session waits, and the others in the background for the
  next session
"""
WAIT, NEVER, BACKGROUND = WAYS = ("wait", "never", "background")

_PACKAGES = ("numba", "llvmlite")
_PACK = "a kernel pack (docs/kernel-packs.md)"


@cache
def compiler_lacks() -> str:
    """Return which package the compiler lacks, or "". Cached, because lowering calls it for each program."""
    return _lacks()


def _lacks() -> str:
    """Return the first package that the compiler needs and that cannot be imported; "" if there is none."""
    return next((name for name in _PACKAGES if not _is_there(name)), "")


def _is_there(name: str) -> bool:
    try:
        return sys.modules[name] is not None if name in sys.modules else find_spec(name) is not None
    except (ImportError, ValueError):  # raised by import blockers
        return False


def check_compiler(specs: Sequence[Spec], folder: str, compile: str) -> None:
    """Raise KernelMissing if the specs, which are not compiled yet, may not or cannot be compiled."""
    lacks = _lacks()
    if compile != NEVER and not lacks:
        return
    which = f"kernel {specs[0].name}" + (f" and {len(specs) - 1} more" if len(specs) > 1 else "")
    where = f"{'are' if len(specs) > 1 else 'is'} neither in a kernel pack nor in the cache ({folder or 'no folder'})"
    if compile == NEVER:
        advice = f"run `ort-lite warmup` with the model first, install {_PACK}, or set {OPTION} to 'wait'"
        raise KernelMissing(f"{which} {where}, and {OPTION} is 'never': {advice}", tuple(specs))
    why = f"{OPTION} is {compile!r}, but {lacks}, which would compile, is not installed: install it, or {_PACK}"
    raise KernelMissing(f"{which} {where}; {why}", tuple(specs))


def check_option(compile: str) -> str:
    """Return `compile`. Raises InvalidArgument if it is not one of WAYS."""
    if compile not in WAYS:
        raise InvalidArgument(f"session config entry {OPTION} is {compile!r}; expected one of {', '.join(WAYS)}")
    return compile
