"""Servers on the loopback, each in a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import child


class Running:
    """`http` and `grpc` are addresses."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        script = Path(__file__).parent / "tests" / "serving.py"
        command = [sys.executable, str(script), json.dumps(given)]
        self._open = ExitStack()
        self.process = self._open.enter_context(child(command, stdout=subprocess.PIPE))
        assert self.process.stdout is not None
        self.grpc = self.process.stdout.readline().split()[-1]
        self.http = self.process.stdout.readline().split("//")[1].split("/")[0]

    def end(self) -> None:
        """Stop the server with SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def finish(self) -> None:
        """Until all is answered."""
        with self._open:
            assert self.process.wait(30) == 0


Start = Callable[..., Running]


@contextmanager
def _starts() -> Iterator[Start]:
    """Yield a function that starts a server for models, with limits and batching by name. All are stopped at the end."""
    made: list[Running] = []

    def begin(*models: str, **more: Mapping[str, Any]) -> Running:
        made.append(Running({"models": models, **more}))
        return made[-1]

    yield begin
    for one in made:
        one.end()
    for one in made:
        one.finish()


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts servers."""
    with _starts() as begin:
        yield begin


@pytest.fixture(scope="session")
def served() -> Iterator[Running]:
    """Serve one server for all tests that change nothing."""
    with _starts() as begin:
        yield begin("double", "texts", "fixed", "halves", limits={"request_bytes": 2_000_000, "json_bytes": 1_000_000})


@pytest.fixture(scope="session")
def hasty() -> Iterator[Running]:
    """One that waits half a second for a request, and as long for its answer."""
    with _starts() as begin:
        yield begin("double", limits={"seconds": 0.5})
