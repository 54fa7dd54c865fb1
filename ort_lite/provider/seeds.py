"""The seed of random numbers that no attribute `seed` steers: one for the process, as onnxruntime has it."""

import threading

_lock = threading.Lock()
_seed: list[int] = []  # empty until somebody sets one


def set_seed(seed: int) -> None:
    """Sessions that are made from now on draw the same random numbers for the same model and seed; those that there are go on.

    An operator's own attribute `seed` goes before. Without a seed no two sessions draw the same. Raises TypeError for no integer.
    """
    if not isinstance(seed, int):
        raise TypeError(f"the seed is {seed!r}, expected an integer")
    with _lock:
        _seed[:] = [seed]


def seed() -> int | None:
    """Return the seed that `set_seed` set last; None if there is none."""
    with _lock:
        return _seed[0] if _seed else None
