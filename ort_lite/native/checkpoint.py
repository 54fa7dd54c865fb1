"""Checkpoints: the points at which the creation of a session can end early.

Code that creates a session calls `checkpoint()` between two pieces of work: nodes, tensors, calls of a provider. The check of the
thread raises there if the load was cancelled or the creation timeout has passed. Providers and transforms whose own work takes long
call it too. Outside of a creation it does nothing. 50 ns.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Check = Callable[[str], None]
"""Called with the name of the current stage. Raises if the work must end."""


class _CurrentCheck(threading.local):
    check: Check | None = None
    stage: str = ""


_CURRENT = _CurrentCheck()


def checkpoint() -> None:
    """Raise what the check of this thread raises: ModelLoadCanceled or DeadlineExceeded."""
    check = _CURRENT.check
    if check is not None:
        check(_CURRENT.stage)


def begin_stage(stage: str) -> None:
    """Name the work that follows, for messages. This is a checkpoint too."""
    if _CURRENT.check is not None:
        _CURRENT.stage = stage
        checkpoint()


@contextmanager
def use_check(check: Check) -> Iterator[None]:
    """Make `check` the check of this thread inside the block. An outer one still holds: a provider may create a session of its own."""
    outer, stage = _CURRENT.check, _CURRENT.stage
    _CURRENT.check = check if outer is None else _both(outer, stage, check)
    try:
        yield
    finally:
        _CURRENT.check, _CURRENT.stage = outer, stage


def _both(outer: Check, stage: str, inner: Check) -> Check:
    def check(current: str) -> None:
        outer(stage)
        inner(current)

    return check
