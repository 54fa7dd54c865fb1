"""The logger "ort_lite", with onnxruntime's severities: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.

`logging` is imported with the first message, which most sessions never have.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ort_lite.errors import InvalidArgument

INFO, WARNING = 1, 2
_LEVELS = (10, 20, 30, 40, 50)  # of the module logging


Span = Callable[..., AbstractContextManager[dict[str, Any]]]
"""Called around some work that a profile or a trace shows: with its name, and facts by keyword; gives a dict for those known later."""


@contextmanager
def no_span(name: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Nobody listens."""
    yield facts


def logger() -> Any:
    """The `logging.Logger`."""
    import logging

    return logging.getLogger("ort_lite")


def warn(severity: int, message: str) -> None:
    """Logs a warning unless `severity` (a session's log_severity_level, -1: the logger decides) is above it."""
    if severity <= WARNING:
        logger().warning("%s", message)


def info(severity: int, message: str) -> None:
    """As `warn`, for what a user may want to know and need not do anything about."""
    if severity <= INFO:
        logger().info("%s", message)


def set_default_logger_severity(severity: int) -> None:
    """Sets the level of the logger. Raises InvalidArgument outside 0 to 4."""
    if severity not in range(len(_LEVELS)):
        raise InvalidArgument(f"logger severity {severity!r}: expected 0 (verbose), 1, 2 (warning), 3 or 4 (fatal)")
    logger().setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted for compatibility: verbose messages have one level here. Raises InvalidArgument for a negative one."""
    if verbosity < 0:
        raise InvalidArgument(f"logger verbosity {verbosity!r}: expected 0 or more")
