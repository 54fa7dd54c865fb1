"""Kernels that are not there: whether they may be compiled, and can be; what to say where not."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from ort_lite.errors import InvalidArgument, KernelMissing
from ort_lite.native.spec import Spec

OPTION = "ort_lite.compile"
"""A session's config entry: what to do about kernels that came with no installation and that no session compiled before.

wait        they are compiled, and the session waits (the default)
never       nothing is compiled: what was fused runs one operator after the other through kernels that are there, with the same
            bits; where one of those is missing too, KernelMissing names it
background  as never, but kernels that cannot be done without are compiled, and waited for; the others for the next session, beside
            this one
"""
WAIT, NEVER, BACKGROUND = WAYS = ("wait", "never", "background")

_PACKAGES = ("numba", "llvmlite")
_PACK = "a kernel pack (docs/kernel-packs.md)"


@cache
def compiler_lacks() -> str:
    """Return what the process lacked for a compiler when it first asked, or "": lowering asks for each program."""
    return _lacks()


def _lacks() -> str:
    """The first package that a compiler needs and that cannot be imported."""
    return next((name for name in _PACKAGES if not _is_there(name)), "")


def _is_there(name: str) -> bool:
    try:
        return sys.modules[name] is not None if name in sys.modules else find_spec(name) is not None
    except (ImportError, ValueError):  # of what keeps others from importing it
        return False


def check_compiler(specs: Sequence[Spec], folder: str, compile: str) -> None:
    """Raises KernelMissing where the specs, which nobody compiled before, may not be compiled or cannot be."""
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
    """Raises InvalidArgument for what is none of WAYS."""
    if compile not in WAYS:
        raise InvalidArgument(f"session config entry {OPTION} is {compile!r}; expected one of {', '.join(WAYS)}")
    return compile
