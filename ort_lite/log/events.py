"""The events of a session: what its creation and its runs did, and when.

Each session has one `Stream`. Profiles, the creation report and the viewer subscribe to it. While nobody does, `subscribers` is empty.
A run tests that one attribute, takes its usual path, and creates no event.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import get_native_id
from time import perf_counter_ns
from typing import Any

from ort_lite.record import Record, field

RUN = "model_run"
"""The name of the event of kind Session that is a run."""


class Link(Record):
    """An earlier moment that an event depends on: nanoseconds and thread. `name` says which result leads from there to the event."""

    name: str
    moment: int
    thread: int


class Event(Record):
    """Something that took place. `begin` and `end` are nanoseconds of `time.perf_counter_ns`; `args` are shown with it.

    `thread` is `threading.get_native_id()` of the thread that did it, inside of whose step it is shown; 0: a device did it.
    `kind` is one of `ort_lite.execute.trace.KINDS`. `depth` counts the scopes around a scope. `links` lead to what it depends on.
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
    """Receives the events of a stream, in the threads where they take place."""

    def on_begin(self, name: str) -> None:
        """A scope begins. Events that are no scopes are reported at their end alone."""

    def on_end(self, event: Event) -> None:
        """An event is over. Inner scopes end before outer ones; kernels are reported when their run ends."""


Span = Callable[..., AbstractContextManager[dict[str, Any]]]
"""The type of `Stream.span`."""


class Stream:
    """The events of one session. Any thread may emit, subscribe and unsubscribe."""

    __slots__ = ("_depth", "lock", "subscribers")

    def __init__(self, lock: AbstractContextManager[Any] | None = None) -> None:
        """`lock` is held while subscribers change, by one thread many times. A session's is one that is free after a fork."""
        self.subscribers: tuple[Subscriber, ...] = ()
        self.lock = threading.RLock() if lock is None else lock
        self._depth = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Send events to a subscriber from now on."""
        with self.lock:
            self.subscribers = (*self.subscribers, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Do nothing if it is not subscribed."""
        with self.lock:
            self.subscribers = tuple(other for other in self.subscribers if other is not subscriber)

    def emit(self, event: Event) -> None:
        """Send an event to all subscribers."""
        for subscriber in self.subscribers:
            subscriber.on_end(event)

    @contextmanager
    def span(self, name: str, **args: Any) -> Iterator[dict[str, Any]]:
        """A scope of the session's creation, in one thread at a time. Gives a dict for the args that are known later.

        The kind is that of onnxruntime's profiles: Session for the creation and its stages, Creation for what is inside of them.
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
"""A span of a stream without subscribers."""
