"""The living instances of providers with a device: those that sessions use, and those that a class has once per options."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ort_lite.memory import locks
from ort_lite.provider.ask import ask
from ort_lite.provider.forks import is_lost
from ort_lite.provider.provider import CPU, Device, ExecutionProvider

_Texts = tuple[tuple[str, str], ...]
_Shared = weakref.WeakValueDictionary[tuple[type[ExecutionProvider], _Texts], ExecutionProvider]


class Instances:
    """The instances of this process, as long as somebody refers to them. Those that a fork has lost do not count."""

    def __init__(self) -> None:
        self._shared: _Shared = weakref.WeakValueDictionary()
        self._of_sessions: dict[Device, weakref.ref[ExecutionProvider]] = {}
        self._lock = locks.rlock()  # creating a provider may create others

    def share(
        self, cls: type[ExecutionProvider], options: Mapping[str, Any], make: Callable[[], ExecutionProvider]
    ) -> ExecutionProvider:
        """Return the living instance of the class with these options, compared as text, or the result of `make`.

        Options that are left out count as their defaults, which `get_options` tells: if the new instance has the same device and
        options as a living one, that one is returned.
        """
        key = cls, _texts(options)
        with self._lock:
            found = self._shared.get(key)
            if found is None or is_lost(found):
                made = make()
                known = ((raw, one) for raw, one in self._living(cls) if _alike(one, made, {*dict(raw), *options}))
                found = self._shared[key] = next((one for _, one in known), made)
            return found

    def _living(self, cls: type[ExecutionProvider]) -> Iterator[tuple[_Texts, ExecutionProvider]]:
        """Yield the instances of a class, with the options that users named; none for one that a user created."""
        given = [((), one) for reference in self._of_sessions.values() if type(one := reference()) is cls]
        named = [(raw, one) for (kind, raw), one in self._shared.items() if kind is cls]
        yield from ((raw, one) for raw, one in (*named, *given) if not is_lost(one))

    def enter(self, provider: ExecutionProvider) -> None:
        """Note an instance that a session uses."""
        if provider.device != CPU:
            with self._lock:
                self._of_sessions[provider.device] = weakref.ref(provider)

    def of_session(self, device: Device) -> ExecutionProvider | None:
        """Return the living instance on a device that a session used last."""
        reference = self._of_sessions.get(device)
        found = None if reference is None else reference()
        return None if found is None or is_lost(found) else found


def _texts(options: Mapping[str, Any]) -> _Texts:
    return tuple(sorted((name, str(value)) for name, value in options.items()))


def _alike(one: ExecutionProvider, other: ExecutionProvider, named: set[str]) -> bool:
    """Return True for instances on one device with equal options, if they report all those that users named."""
    first, second = ask(one, "get_options"), ask(other, "get_options")
    return one.device == other.device and named <= set(first) and _texts(first) == _texts(second)


INSTANCES = Instances()
"""Process-wide, as devices are."""
