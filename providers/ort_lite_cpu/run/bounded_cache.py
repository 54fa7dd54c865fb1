"""A cache for the next runs: bound shapes, programs lowered for shapes, deferred suffixes. Runs of many threads share it."""

from typing import Generic, TypeVar

from ort_lite.memory import locks

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """The newest `limit` values, by key, and never one more.

    The rule: `get` takes no lock, it is the dict's own and atomic; whoever changes the dict holds the lock. A value that a run
    has stays whole, whatever is forgotten meanwhile. Two runs that miss a key may both make its value; the first to keep it wins.
    """

    __slots__ = ("_limit", "_lock", "_values", "get")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = locks.lock()
        self._values: dict[K, V] = {}
        self.get = self._values.get  # of this dict for ever: `clear` empties it

    def __reduce__(self) -> "tuple[type[BoundedCache[K, V]], tuple[int]]":
        """Pickle as an empty cache."""
        return BoundedCache, (self._limit,)

    def keep(self, key: K, value: V, limit: int | None = None) -> V:
        """Store `value` for the key, unless another thread was faster, and return what is stored.

        The oldest entries give way first.
        """
        most = self._limit if limit is None else min(limit, self._limit)
        with self._lock:
            if key in self._values:
                return self._values[key]
            while self._values and len(self._values) >= most:
                del self._values[next(iter(self._values))]
            self._values[key] = value
        return value

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._values.clear()

    def values(self) -> list[V]:
        """Oldest first, at some moment during the call."""
        with self._lock:
            return list(self._values.values())

    def __len__(self) -> int:
        return len(self._values)
