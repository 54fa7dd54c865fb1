"""The card's queue: a thread that does the card's work in the order in which it was submitted."""

import os
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import sleep


class CardWork:
    """Work in a queue, and the notification of its completion."""

    __slots__ = ("_after", "_call", "_done", "_error", "_process")

    def __init__(self, call: Callable[[], object], after: Sequence["CardWork"] = ()) -> None:
        self._call: Callable[[], object] | None = call
        self._after, self._done, self._process = after, threading.Event(), os.getpid()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work, once the work that it depends on is done. What it refers to is released before anybody is notified."""
        call, self._call = self._call, None
        try:
            for work in self._after:
                work.wait_on_host()
            if call is not None:
                call()
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            traceback.clear_frames(error.__traceback__)  # they refer to tensors
            self._error = error
        del call
        self._after = ()
        self._done.set()

    def wait_on_host(self) -> None:
        """Block until the work is done, and raise its error."""
        if not self._done.is_set() and os.getpid() != self._process:
            raise RuntimeError("the card works for the parent process; a forked child cannot wait for it")
        self._done.wait()
        if self._error is not None:
            raise self._error

    def is_done(self) -> bool:
        """Return True if the work is done or has failed."""
        return self._done.is_set()


class CardQueue:
    """The queue of a provider. Its thread starts with the first work and ends with the queue.

    `milliseconds` is the time that each kernel takes longer, as a slow card would.
    """

    def __init__(self, milliseconds: int = 0) -> None:
        self._seconds = milliseconds / 1000
        self._works: SimpleQueue[CardWork | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._process = 0

    def submit(self, call: Callable[[], object], after: Sequence[CardWork] = ()) -> CardWork:
        """Append work, which begins when earlier work of this queue, and `after` of others, is done. Does not wait."""
        work = CardWork(call, after)
        if self._process != os.getpid():
            self._start()
        self._works.put(work)
        return work

    def launch(self) -> None:
        """Wait as long as a kernel of a slow card takes."""
        if self._seconds:
            sleep(self._seconds)

    def drain(self) -> None:
        """Block until all work that was submitted is done. Errors are for those who wait for the work itself."""
        if self._process == os.getpid():
            self.submit(lambda: None).wait_on_host()

    def _start(self) -> None:
        with self._starting:
            if self._process != os.getpid():
                self._works = SimpleQueue()  # a forked child leaves its parent's work alone
                threading.Thread(target=_work, args=(self._works,), name="card", daemon=True).start()
                weakref.finalize(self, self._works.put, None).atexit = False
                self._process = os.getpid()


def _work(works: "SimpleQueue[CardWork | None]") -> None:
    while (work := works.get()) is not None:
        work.run()
        del work
