"""Notifications of work on a device: what `copy_async` of a transfer and `record` of a partition return."""

from typing import Protocol


class SyncNotification(Protocol):
    """The completion of work on a device."""

    def wait_on_host(self) -> None:
        """Block until the work is done. May be called any number of times, from any thread; raises the error of the work."""


class Polls(SyncNotification, Protocol):
    """A notification that knows if the work is done, so that the next run reports its error and forgets it without a wait."""

    def is_done(self) -> bool:
        """Return True if the work is done or has failed."""
