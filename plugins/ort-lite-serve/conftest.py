"""Servers on the loopback interface, each in its own process."""

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
    """A running server. `http` and `grpc` are its addresses."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        script = Path(__file__).parent / "tests" / "serving.py"
        command = [sys.executable, str(script), json.dumps(given)]
        self._open = ExitStack()
        self.process = self._open.enter_context(child(command, stdout=subprocess.PIPE))
        assert self.process.stdout is not None
        self.grpc = self.process.stdout.readline().split()[-1]
        self.http = self.process.stdout.readline().split("//")[1].split("/")[0]

    def end(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def finish(self) -> None:
        """Wait until all requests are answered and the process has ended."""
        with self._open:
            assert self.process.wait(30) == 0


Start = Callable[..., Running]


@contextmanager
def _starts() -> Iterator[Start]:
    """Yield a function that starts a server for models, with limits and batching by name. Stop all servers at the end."""
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
    """Yield a function that starts a server for models, with limits and batching by name."""
    with _starts() as begin:
        yield begin


@pytest.fixture(scope="session")
def common_server() -> Iterator[Running]:
    """Yield one server for all tests that do not change it."""
    with _starts() as begin:
        yield begin("double", "texts", "fixed", "halves", limits={"request_bytes": 2_000_000, "json_bytes": 1_000_000})


@pytest.fixture(scope="session")
def hasty() -> Iterator[Running]:
    """Yield a server that waits half a second for a request, and as long for its answer."""
    with _starts() as begin:
        yield begin("double", limits={"seconds": 0.5})
