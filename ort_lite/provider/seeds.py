"""The process-wide seed of random operators without an attribute `seed`, as in onnxruntime."""

import threading

_lock = threading.Lock()
_seed: list[int] = []  # empty until a seed is set


def set_seed(seed: int) -> None:
    """Set the seed: sessions created from now on draw the same random numbers for the same model and seed.

    Existing sessions are not affected, and an operator's own attribute `seed` takes precedence. Without a seed, no two sessions
    draw the same numbers. Raises TypeError unless the seed is an integer.
    """
    if not isinstance(seed, int):
        raise TypeError(f"the seed is {seed!r}, expected an integer")
    with _lock:
        _seed[:] = [seed]


def seed() -> int | None:
    """Return the seed set by `set_seed`; None if there is none."""
    with _lock:
        return _seed[0] if _seed else None
