"""The events of a session: what happened during its creation and its runs, and when.

Each session has one `Stream`, to which profiles, the creation report and the viewer subscribe. Without subscribers, a run tests one
attribute and creates no events.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import get_native_id
from time import perf_counter_ns
from typing import Any

from ort_lite.record import Record, field

RUN = "model_run"
"""The name of the Session event of a run."""


class Link(Record):
    """An earlier time that an event depends on, in nanoseconds, and its thread. `name` describes the dependency."""

    name: str
    moment: int
    thread: int


class Event(Record):
    """An activity with begin and end in nanoseconds of `time.perf_counter_ns`. `args` are displayed with it.

    `thread` is the `threading.get_native_id()` of the thread that did it, 0 for a device. `kind` is one of
    `ort_lite.execute.trace.KINDS`. `depth` counts the enclosing scopes of a scope. `links` lead to what it depends on.
    """

    name: str
    begin: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    thread: int = 0
    kind: str = "Kernel"
    depth: int = 0
    links: tuple[Link, ...] = ()


class Subscriber:
    """Receives the events of a stream, on the threads where they happen."""

    def on_begin(self, name: str) -> None:
        """Handle the begin of a scope. Other events are reported only when they end."""

    def on_end(self, event: Event) -> None:
        """Handle the end of an event. Inner scopes end before outer ones; kernels are reported when their run ends."""


Span = Callable[..., AbstractContextManager[dict[str, Any]]]
"""The type of `Stream.span`."""


class Stream:
    """The events of one session. Any thread may emit, subscribe and unsubscribe."""

    __slots__ = ("_depth", "lock", "subscribers")

    def __init__(self, lock: AbstractContextManager[Any] | None = None) -> None:
        """`lock` is held while subscribers change and must be reentrant. A session passes one that is free after a fork."""
        self.subscribers: tuple[Subscriber, ...] = ()
        self.lock = threading.RLock() if lock is None else lock
        self._depth = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Send events to a subscriber from now on."""
        with self.lock:
            self.subscribers = (*self.subscribers, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop sending events to a subscriber. Does nothing if it is not subscribed."""
        with self.lock:
            self.subscribers = tuple(other for other in self.subscribers if other is not subscriber)

    def emit(self, event: Event) -> None:
        """Send an event to all subscribers."""
        for subscriber in self.subscribers:
            subscriber.on_end(event)

    @contextmanager
    def span(self, name: str, **args: Any) -> Iterator[dict[str, Any]]:
        """Open a scope of the session's creation, on one thread at a time. Yields a dict for args that are known later.

        Kinds are those of onnxruntime's profiles: Session for the creation and its stages, Creation for scopes inside them.
        """
        subscribers = self.subscribers
        if not subscribers:
            yield args
            return
        for subscriber in subscribers:
            subscriber.on_begin(name)
        depth, begin = self._depth, perf_counter_ns()
        self._depth += 1
        try:
            yield args
        finally:
            self._depth = depth
            kind = "Session" if depth < 2 else "Creation"
            event = Event(name, begin, perf_counter_ns(), args, get_native_id(), kind, depth)
            for subscriber in subscribers:
                subscriber.on_end(event)


no_span: Span = Stream().span
"""The `span` of a stream without subscribers."""
