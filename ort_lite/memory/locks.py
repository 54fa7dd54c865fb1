"""Locks that the child of a fork finds free, whoever of its parent's threads held them: nobody there would release them.

For state whose single steps are whole (a dict, a list), so that a thread which the fork took away in the middle leaves something
usable. Where that is not so, whoever forks has to wait: `before=` of `os.register_at_fork` acquires.
"""

import os
import threading
import weakref
from typing import Any

_ALL: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Those of this process, as long as they live."""


def lock() -> threading.Lock:
    """A new threading.Lock. 1 us."""
    made = threading.Lock()
    _ALL.add(made)
    return made


def rlock() -> "threading.RLock":
    """A new threading.RLock."""
    made = threading.RLock()
    _ALL.add(made)
    return made


def _free_all() -> None:
    for each in list(_ALL):
        each._at_fork_reinit()  # as the standard library's own locks are freed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
