"""The options of the run that the calling thread is in: how RunOptions reach compiled partitions and bodies.

They travel beside the calls, not as an argument, so that a CompiledPartition stays a function of its inputs, also inside whatever
wraps it. An executor sets them for the time of a run that has options; other runs pay nothing.
"""

import threading
from collections.abc import Callable
from typing import Any

from ort_lite.options.options import RunOptions


class _Current(threading.local):
    options: RunOptions | None = None
    watch: Callable[[Any], Any] | None = None
    """In a verified run: makes, of the Executable of a body, one whose steps are watched."""


CURRENT = _Current()


def run_options() -> RunOptions | None:
    """The RunOptions of the run that called this thread's partition; None: it has none. 50 ns.

    A partition that computes for long looks at `.terminate` now and then and raises RunTerminated, or has its own switch
    set by `RunOptions.on_terminate`.
    """
    return CURRENT.options
