"""The effect of -v and -q on log messages, warnings and progress lines."""

import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from ort_lite import log
from ort_lite.log.progress_line import set_default_progress

_FORMAT = "%(levelname)s: %(message)s"
_ERROR = 3


@contextmanager
def use_verbosity(arguments: Namespace) -> Iterator[None]:
    """Log more (-v: INFO, -vv: VERBOSE) or only errors (-q) to standard error within the block. -q also ignores warnings
    and shows no progress.
    """
    if not arguments.verbose and not arguments.quiet:
        yield
        return
    import logging

    logger, handler = log.logger(), logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    level, propagate = logger.level, logger.propagate
    with warnings.catch_warnings():
        if arguments.quiet:
            warnings.simplefilter("ignore")
            set_default_progress(False)
        log.set_default_logger_severity(_ERROR if arguments.quiet else max(log.INFO + 1 - arguments.verbose, log.VERBOSE))
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield
        finally:
            set_default_progress(True)
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
