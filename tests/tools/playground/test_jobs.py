"""What a playground works on: one thing at a time, ended where it is asked to, and never the end of the playground."""

import threading
import time
from typing import Any

import pytest

from ort_lite.errors import CompileError, OutOfMemory
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.progress import Reported, piece
from ort_lite.tools.playground.jobs import Busy, Jobs, PlaygroundJob


def finished(call: Any) -> PlaygroundJob:
    job = Jobs().start(call)
    assert job.thread is not None
    job.thread.join(10)
    return job


def raising(error: BaseException) -> Any:
    def call(job: PlaygroundJob) -> dict[str, Any]:
        raise error

    return call


def test_a_job_has_its_result() -> None:
    job = finished(lambda job: {"found": 1})
    assert (job.state, job.result) == ("done", {"found": 1})


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OutOfMemory("2 GB"), "OutOfMemory: 2 GB"),
        (FileNotFoundError("gone.onnx"), "FileNotFoundError: gone.onnx"),
        (MemoryError(), "MemoryError: the model takes more memory than there is."),
        (ZeroDivisionError("a provider's"), "ZeroDivisionError, which is no error of ort_lite's: a provider's"),
    ],
)
def test_what_goes_wrong_is_said(error: BaseException, said: str) -> None:
    job = finished(raising(error))
    assert (job.state, job.said) == ("failed", said)


def test_a_job_that_is_to_end_ends_before_its_next_step() -> None:
    begun, go = threading.Event(), threading.Event()

    def call(job: PlaygroundJob) -> dict[str, Any]:
        begun.set()
        go.wait(10)
        job.say("next")
        return {}

    jobs = Jobs()
    job = jobs.start(call)
    assert begun.wait(10)
    with pytest.raises(Busy, match="one thing at a time"):
        jobs.start(call)
    assert not jobs.close(0.01)
    go.set()
    assert jobs.close(10)
    assert job.state == "ended"


def test_a_job_that_is_ended_while_it_compiles_has_not_failed() -> None:
    """The provider's failure to compile is all that a session knows of the request."""

    def call(job: PlaygroundJob) -> dict[str, Any]:
        job.end()
        raise CompileError("CPUExecutionProvider could not compile a partition: Cancelled")

    assert finished(call).state == "ended"


def test_compiling_is_told_and_can_be_ended() -> None:
    def call(job: PlaygroundJob) -> dict[str, Any]:
        with piece(Reported()) as progress, progress.more(2):
            progress.advance()
            said.append(job.said)
            job.end()
            progress.advance()
        raise AssertionError("it goes on")

    said: list[str] = []
    assert finished(call).state == "ended"
    assert said == ["Compiling kernels: 1 of 2."]


def test_a_job_that_is_to_end_ends_at_the_next_checkpoint_of_a_creation() -> None:
    begun = threading.Event()

    def call(job: PlaygroundJob) -> dict[str, Any]:
        begun.set()
        while True:
            time.sleep(0.01)
            checkpoint()

    jobs = Jobs()
    job = jobs.start(call)
    assert begun.wait(10)
    assert jobs.close(10)
    assert (job.state, job.said) == ("ended", "Ended, as it was asked for.")
