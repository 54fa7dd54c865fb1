"""set_default_logger_callback: the function gets ort-lite's messages with onnxruntime's arguments."""

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import onnxruntime
import pytest

import ort_lite
from ort_lite import log
from ort_lite.errors import InvalidArgument
from tests.compat.test_packages import MODEL

Message = tuple[int, str, str, str, str]


@pytest.fixture(params=[ort_lite, onnxruntime], ids=["ort_lite", "onnxruntime"])
def api(request: pytest.FixtureRequest) -> Iterator[Any]:
    level = log.logger().level
    yield request.param
    request.param.set_default_logger_callback(None)
    onnxruntime.set_default_logger_severity(2)
    log.logger().setLevel(level)


def heard(api: Any, severity: int, options: Any = None) -> list[Message]:
    """The messages of a session."""
    messages: list[Message] = []
    api.set_default_logger_callback(lambda *given: messages.append(given), severity)
    api.InferenceSession(MODEL, options or api.SessionOptions(), providers=["CPUExecutionProvider"])
    api.set_default_logger_callback(None, severity)
    return messages


def test_arguments(api: Any) -> None:
    options = api.SessionOptions()
    options.log_severity_level, options.logid = 1, "mine"
    messages = heard(api, 2, options)
    assert messages
    for severity, category, logid, where, text in messages:
        assert (type(severity), category, logid, type(text)) == (int, "onnxruntime", "mine", str)
        file, _, rest = where.partition(":")
        line, _, function = rest.partition(" ")
        assert file.endswith((".py", ".cc")) and int(line) > 0 and function
        assert not text.startswith("mine")
    assert min(message[0] for message in messages) == 1
    assert [message for message in heard(api, 1) if message[2] == "mine"] == []


@pytest.mark.parametrize("severity", range(5))
def test_severities(api: Any, severity: int) -> None:
    assert all(message[0] >= severity for message in heard(api, severity))
    assert bool(heard(api, severity)) == (severity < 2)


def test_mistakes(api: Any) -> None:
    number: Any = 3
    for callback, severity in ((print, 5), (print, -1), (number, 2), (None, 9)):
        with pytest.raises(RuntimeError):
            api.set_default_logger_callback(callback, severity)
    with pytest.raises(TypeError):
        api.set_default_logger_callback(print, "a")
    with pytest.raises(InvalidArgument, match="got int, expected a function or None"):
        ort_lite.set_default_logger_callback(number)


def test_errors_of_the_function_are_reported(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append((report.exc_type, report.object)))

    def fail(*given: Any) -> None:
        raise ValueError

    options = api.SessionOptions()
    options.log_severity_level = 1
    api.set_default_logger_callback(fail)
    api.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    assert set(reports) == {(ValueError, fail)}


@pytest.fixture
def above() -> Iterator[list[str]]:
    """The messages that pass on to the root logger."""
    messages: list[str] = []

    class Above(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler, root, level = Above(), logging.getLogger(), log.logger().level
    root.addHandler(handler)
    yield messages
    root.removeHandler(handler)
    ort_lite.set_default_logger_callback(None)
    log.logger().setLevel(level)


def test_messages_go_to_the_function_alone_until_it_is_removed(above: list[str]) -> None:
    first: list[str] = []
    second: list[str] = []
    ort_lite.set_default_logger_callback(lambda *given: first.append(given[-1]))
    log.warn(-1, "one")
    ort_lite.set_default_logger_callback(lambda *given: second.append(given[-1]), 3)
    log.warn(-1, "two")
    log.warn(2, "three")
    ort_lite.set_default_logger_callback(None)
    log.warn(2, "four")
    assert (first, second, above) == (["one"], ["three"], ["four"])
    assert log.logger().level == logging.ERROR


def test_messages_of_the_function_itself_and_those_it_fails_for(above: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda report: None)
    told: list[str] = []

    def tell(severity: int, category: str, logid: str, where: str, message: str) -> None:
        told.append(message)
        log.warn(-1, f"about {message}")
        if message == "bad":
            raise ValueError(message)

    ort_lite.set_default_logger_callback(tell)
    log.warn(-1, "good")
    log.warn(-1, "bad")
    assert (told, above) == (["good", "bad"], ["about good", "about bad", "bad"])


def test_a_function_that_waits_does_not_stop_other_threads() -> None:
    level, arrived, free = log.logger().level, threading.Event(), threading.Event()

    def wait(severity: int, category: str, logid: str, where: str, message: str) -> None:
        if message == "first":
            arrived.set()
            assert free.wait(30)
        else:
            free.set()

    ort_lite.set_default_logger_callback(wait)
    try:
        thread = threading.Thread(target=log.warn, args=(-1, "first"))
        thread.start()
        assert arrived.wait(30)
        log.warn(-1, "second")
        thread.join(30)
        assert not thread.is_alive()
    finally:
        ort_lite.set_default_logger_callback(None)
        log.logger().setLevel(level)
