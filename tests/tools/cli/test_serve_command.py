"""`ort-lite serve`, which another distribution does: how it is found, what it is given, and what is said where it is not installed."""

from typing import Any

import pytest

from ort_lite.__main__ import main
from ort_lite.tools.cli import serve_command


class Entry:
    """An entry point of a server that serves nothing."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def load(self) -> Any:
        return lambda *given: self.given.extend(given)


def test_where_no_server_is_installed_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve_command, "entry_points", lambda **_: ())
    assert main(["serve", "model.onnx"]) == 2
    assert capsys.readouterr().err == (
        "ort-lite serve: InvalidArgument: the server is a package of its own: in a clone of ort-lite, "
        "pip install ./plugins/ort-lite-serve\n"
    )


def test_the_server_gets_the_arguments_and_what_opens_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry()
    monkeypatch.setattr(
        serve_command,
        "entry_points",
        lambda **asked: [entry] if asked == {"group": "ort_lite.commands", "name": "serve"} else (),
    )
    model = "examples/digits/digits_cnn.onnx"
    assert main(["serve", model, "--max-batch", "8", "--providers", "CPUExecutionProvider"]) == 0
    arguments, open_session, _ = entry.given
    assert (arguments.models, arguments.max_batch, arguments.host) == ([model], 8, "127.0.0.1")
    assert open_session(model).get_providers() == ["CPUExecutionProvider"]
