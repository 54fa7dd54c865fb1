"""onnxruntime's set_default_logger_callback: a function that gets log messages instead of the standard error stream."""

import sys
import threading
from collections.abc import Callable
from logging import Handler, LogRecord
from types import SimpleNamespace
from typing import Any

from ort_lite import log
from ort_lite.errors import InvalidArgument

Callback = Callable[[int, str, str, str, str], Any]
CATEGORY = "onnxruntime"
"""The category of all messages, which is that of onnxruntime's own."""
_WARNING = 2


class _CallbackHandler(Handler):
    """Passes records to a function. It has no lock: threads may be in the function at once, and it may log."""

    def __init__(self, function: Callback, propagated: bool) -> None:
        """`propagated` is True if the logger passed its records on before."""
        super().__init__()
        self.function, self.propagated = function, propagated
        self._inside = threading.local()

    def createLock(self) -> None:
        """Create no lock."""
        self.lock = None

    def handle(self, record: LogRecord) -> bool:
        """Pass a record to the function. Messages of the function itself, and those it fails for, go where all went before."""
        if getattr(self._inside, "busy", False):
            self._pass_on(record)
            return True
        self._inside.busy = True
        try:
            logid = getattr(record, "logid", "")
            where = f"{record.filename}:{record.lineno} {record.funcName}"
            message = record.getMessage().removeprefix(f"{logid}: ") if logid else record.getMessage()
            self.function(log.severity_of(record.levelno), CATEGORY, logid, where, message)
        except Exception as error:  # noqa: BLE001  the user's code
            self._report(error)
            self._pass_on(record)
        finally:
            self._inside.busy = False
        return True

    def _report(self, error: Exception) -> None:
        sys.unraisablehook(
            SimpleNamespace(
                exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=self.function
            )
        )

    def _pass_on(self, record: LogRecord) -> None:
        parent = log.logger().parent
        if self.propagated and parent is not None:
            parent.callHandlers(record)


def set_default_logger_callback(callback: Callback | None, severity: int = _WARNING) -> None:
    """Pass log messages to `callback(severity, category, logid, code_location, message)` instead of the standard error stream.

    It is called on the thread of the message, and may be called by several threads at once. The severity becomes the logger's, as
    by `set_default_logger_severity`; those of session and run options apply as before. An error of the callback goes to
    `sys.unraisablehook`. With None, messages go where they went before, and the severity stays. Handlers that the program added
    to the logger "ort_lite" itself get messages in any case. Raises InvalidArgument for an unknown severity and for what is
    not a function.
    """
    log.check_severity(severity)
    if callback is not None and not callable(callback):
        raise InvalidArgument(f"set_default_logger_callback: got {type(callback).__name__}, expected a function or None")
    logger = log.logger()
    old = [handler for handler in logger.handlers if isinstance(handler, _CallbackHandler)]
    propagated = old[0].propagated if old else logger.propagate
    if callback is not None:
        logger.addHandler(_CallbackHandler(callback, propagated))
        log.set_default_logger_severity(severity)
    for handler in old:
        logger.removeHandler(handler)
    logger.propagate = propagated and callback is None
