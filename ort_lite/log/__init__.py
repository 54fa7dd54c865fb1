"""The logger "ort_lite", with onnxruntime's severities.

0 verbose, 1 info, 2 warning, 3 error and 4 fatal are DEBUG, INFO, WARNING, ERROR and CRITICAL of `logging`. The
`log_severity_level` of a session or run overrides the logger's level; -1 leaves it in effect. Messages of a session or run with a
`logid` start with it, and their records have it as `logid`. The first message imports `logging`, which most sessions never need.
"""

import sys
from bisect import bisect_right
from typing import Any, Protocol

from ort_lite.errors import InvalidArgument, InvalidType

VERBOSE, INFO, WARNING = 0, 1, 2
_LEVELS = (10, 20, 30, 40, 50)  # of the module logging


def logger() -> Any:
    """Return the `logging.Logger`."""
    import logging

    return logging.getLogger("ort_lite")


class Options(Protocol):
    """The options of sessions and runs that affect log messages."""

    log_severity_level: int
    logid: str


Whose = Options | int
"""The origin of a message: options, or just a severity."""


def warn(whose: Whose, message: str) -> None:
    """Log a warning, unless the severity of `whose` is above it."""
    _say(whose, WARNING, message)


def info(whose: Whose, message: str) -> None:
    """Log something that users may want to know but need not act on."""
    _say(whose, INFO, message)


def verbose(whose: Whose, message: str) -> None:
    """Log something that helps to find a cause."""
    _say(whose, VERBOSE, message)


def hears(whose: Whose, severity: int) -> bool:
    """Return True if a message of this severity would be logged, so that callers can skip building it. 0.2 us."""
    own = whose if isinstance(whose, int) else whose.log_severity_level
    if own >= 0:
        return own <= severity
    return "logging" in sys.modules and bool(logger().isEnabledFor(_LEVELS[severity]))


def _say(whose: Whose, severity: int, message: str) -> None:
    own, logid = (whose, "") if isinstance(whose, int) else (whose.log_severity_level, whose.logid)
    if own > severity:
        return
    level, to, text = _LEVELS[severity], logger(), f"{logid}: {message}" if logid else message
    if to.isEnabledFor(level):
        to.log(level, "%s", text, extra={"logid": logid}, stacklevel=3)
    elif own >= 0:  # bypasses the logger's level
        path, line, function, _ = to.findCaller(stacklevel=3)
        to.handle(to.makeRecord(to.name, level, path, line, "%s", (text,), None, function, {"logid": logid}))


def severity_of(level: int) -> int:
    """Return onnxruntime's severity of a level of `logging`."""
    return max(0, bisect_right(_LEVELS, level) - 1)


def set_default_logger_severity(severity: int) -> None:
    """Set the level of the logger. Raises InvalidArgument outside 0 to 4."""
    check_severity(severity)
    logger().setLevel(_LEVELS[severity])


def check_severity(severity: int) -> None:
    """Raise InvalidArgument for a severity outside 0 to 4."""
    if severity not in range(len(_LEVELS)):
        given: Any = severity
        kind = InvalidArgument if isinstance(given, int) else InvalidType
        raise kind(f"logger severity {severity!r}: expected 0 (verbose), 1, 2 (warning), 3 or 4 (fatal)")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing, for compatibility: verbose messages have only one level here. Raises InvalidArgument if negative."""
    if verbosity < 0:
        raise InvalidArgument(f"logger verbosity {verbosity!r}: expected 0 or more")
