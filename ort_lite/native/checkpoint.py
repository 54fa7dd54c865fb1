"""Checkpoints: the points at which the creation of a session can end early.

Code that creates a session calls `checkpoint()` between units of work: nodes, tensors, calls of a provider. The check of the
current thread raises there if the load was cancelled or the creation timeout has passed. Providers and transforms whose work takes
long call it too. Outside of session creation it does nothing. 50 ns.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Check = Callable[[str], None]
"""A function that takes the name of the current stage and raises if the work must end."""


class _CurrentCheck(threading.local):
    check: Check | None = None
    stage: str = ""


_CURRENT = _CurrentCheck()


def checkpoint() -> None:
    """Run the check of this thread, which may raise ModelLoadCanceled or DeadlineExceeded."""
    check = _CURRENT.check
    if check is not None:
        check(_CURRENT.stage)


def begin_stage(stage: str) -> None:
    """Set the name of the stage, for messages. Also a checkpoint."""
    if _CURRENT.check is not None:
        _CURRENT.stage = stage
        checkpoint()


@contextmanager
def use_check(check: Check) -> Iterator[None]:
    """Use `check` as the check of this thread within the block.

    An outer check stays in effect, since a provider may create a session of its own.
    """
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
