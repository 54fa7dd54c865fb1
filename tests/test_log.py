"""Messages: who hears them, at which level, and whose they are."""

import logging
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite import log

TEXT = '<ir_version: 8, opset_import: ["": 17]> main (float[3] x) => (float[3] y) { y = Neg(x) }'


def options(severity: int = -1, logid: str = "") -> ort_lite.SessionOptions:
    made = ort_lite.SessionOptions()
    made.log_severity_level, made.logid = severity, logid
    return made


def session(made: ort_lite.SessionOptions) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(onnx.parser.parse_model(TEXT), made, providers=["CPUExecutionProvider"])


LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]
SAYS: list[Any] = [log.verbose, log.info, log.warn]


@pytest.mark.parametrize("own", range(-1, 5))
@pytest.mark.parametrize("default", range(5))
def test_severities_are_levels_and_ones_own_goes_first(own: int, default: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(LEVELS[default], "ort_lite")
    caplog.handler.setLevel(logging.NOTSET)
    for severity, say in enumerate(SAYS):
        say(options(own), "said")
        heard = severity >= (default if own < 0 else own)
        assert log.hears(options(own), severity) == heard
        assert [record.levelno for record in caplog.records] == [LEVELS[severity]] * heard
        caplog.clear()


def test_messages_begin_with_the_logid_of_whose_they_are(caplog: pytest.LogCaptureFixture) -> None:
    made = options(logid="billing")
    made.add_session_config_entry("session.enable_quant_qdq_cleanup", "1")
    run = ort_lite.RunOptions()
    run.logid = "request 7"
    run.add_run_config_entry("qnn.htp_perf_mode", "burst")
    session(made).run(None, {"x": np.ones(3, np.float32)}, run)
    found = [(record.getMessage().partition(" config")[0], vars(record)["logid"]) for record in caplog.records]
    assert found == [("billing: session", "billing"), ("request 7: run", "request 7")]


def test_a_session_tells_what_it_is_and_how_it_was_made(caplog: pytest.LogCaptureFixture) -> None:
    session(options())
    assert caplog.messages == []
    session(options(1, "mine"))
    (message,) = caplog.messages
    assert message.startswith("mine: session made in ") and message.endswith(" ms; nodes: CPUExecutionProvider 1")
    caplog.clear()
    session(options(0))
    stages = {message.partition(":")[0] for message in caplog.messages}
    assert stages >= {"model_loading_array", "transform", "get_capability", "compile_partitions", "session_initialization"}
