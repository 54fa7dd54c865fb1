"""Failures of a session that the next provider made good."""

from collections.abc import Iterator

from ort_lite import log


class Incidents:
    """Texts for `explain()`, each logged as a warning when it is reported."""

    def __init__(self, whose: log.Whose = log.WARNING) -> None:
        self._whose, self._texts = whose, list[str]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def report(self, text: str) -> None:
        """Log a warning, and keep its text."""
        self._texts.append(text)
        log.warn(self._whose, text)
