"""Servers on the loopback, each in a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest


class Running:
    """`http` and `grpc` are addresses."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        script = Path(__file__).with_name("serving.py")
        command = [sys.executable, str(script), json.dumps(given)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.grpc = self.process.stdout.readline().split()[-1]
        self.http = self.process.stdout.readline().split("//")[1].split("/")[0]

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Until all is answered; then uvicorn hands the signal on."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert self.process.wait(30) == -signal.SIGTERM


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """What starts a server: models, and by name what limits and batching are to be. Ended behind the test."""
    made: list[Running] = []

    def begin(*models: str, **more: Mapping[str, Any]) -> Running:
        made.append(Running({"models": models, **more}))
        return made[-1]

    yield begin
    for one in made:
        one.end()
    for one in made:
        one.wait()


@pytest.fixture(scope="session")
def served() -> Iterator[Running]:
    """Three models, for all tests that change nothing."""
    running = Running({"models": ["double", "texts", "fixed"]})
    yield running
    running.end()
    running.wait()
