"""Locks that are free in a forked child, even if a thread of the parent, which does not exist there, held them.

They suit state that each single step leaves consistent (a dict, a list), so that it stays usable if the fork happens between steps.
Other state needs a fork to wait: acquire its lock in `before=` of `os.register_at_fork`.
"""

import os
import threading
import weakref
from typing import Any

_ALL: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""The live locks of this process."""


def lock() -> threading.Lock:
    """Return a new threading.Lock. Takes 1 us."""
    made = threading.Lock()
    _ALL.add(made)
    return made


def rlock() -> "threading.RLock":
    """Return a new threading.RLock."""
    made = threading.RLock()
    _ALL.add(made)
    return made


def _free_all() -> None:
    for each in list(_ALL):
        each._at_fork_reinit()  # as the standard library does for its own locks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
