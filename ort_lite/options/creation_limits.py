"""Limits on session creation: the timeout and the load cancellation flag, checked by every checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from ort_lite.errors import DeadlineExceeded, ModelLoadCanceled
from ort_lite.native.checkpoint import begin_stage, use_check
from ort_lite.options.options import SessionOptions


@contextmanager
def creating(options: SessionOptions) -> Iterator[None]:
    """Limit the session creation in this block and thread. `options.creation_timeout` starts here.

    Checkpoints inside raise ModelLoadCanceled or DeadlineExceeded; both name the stage.
    """
    timeout, flag = options.creation_timeout, options.load_cancellation
    end = monotonic() + timeout if timeout else 0.0

    def check(stage: str) -> None:
        if flag.raised:
            raise ModelLoadCanceled(
                f"SessionOptions.set_load_cancellation_flag cancelled the creation of the session (stage: {stage})"
            )
        if end and monotonic() >= end:
            raise DeadlineExceeded(
                f"creating the session took longer than its creation_timeout of {timeout:g} s, and was ended (stage: {stage})"
            )

    with use_check(check):
        begin_stage("load")
        yield
