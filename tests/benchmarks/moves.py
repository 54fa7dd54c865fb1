"""A tensor that goes to another process on this host and comes back, by several ways that need no server."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from statistics import median

import numpy as np
import numpy.typing as npt

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Bytes."""
SECONDS = 0.5
"""For each size and way."""

Tensor = npt.NDArray[np.float32]
Trip = Callable[[Tensor], Tensor]


def size_name(nbytes: int) -> str:
    return f"{nbytes // 1_000_000} MB" if nbytes >= 1_000_000 else f"{nbytes // 1_000} KB"


def tensor(nbytes: int) -> Tensor:
    return np.random.default_rng(0).random(nbytes // 4, np.float32)


@contextmanager
def copied() -> Iterator[Trip]:
    """Within the process: there and back are two copies."""
    yield lambda x: x.copy().copy()


@contextmanager
def piped() -> Iterator[Trip]:
    """Pickled through a pipe, by a spawned process that pickles it back."""
    with _other(_echo) as end:

        def trip(x: Tensor) -> Tensor:
            end.send(x)
            back: Tensor = end.recv()
            return back

        yield trip


@contextmanager
def shared() -> Iterator[Trip]:
    """Written into shared memory, which the other process copies out of and writes back to; a few bytes through a pipe say when."""
    memory = SharedMemory(create=True, size=2 * max(SIZES))
    with _other(_echo_shared, memory.name) as end:
        try:
            yield lambda x: _through(memory, end, x)
        finally:
            end.send(None)
            memory.close()
            memory.unlink()


def _through(memory: SharedMemory, end: Connection, x: Tensor) -> Tensor:
    room: Tensor = np.ndarray(x.shape, x.dtype, memory.buf)
    room[:] = x
    end.send(x.shape)
    end.recv()
    return room.copy()


WAYS = {"two copies in the process": copied, "pickle through a pipe": piped, "shared memory": shared}


def _echo(end: Connection) -> None:
    while (x := end.recv()) is not None:
        end.send(x)


def _echo_shared(end: Connection, name: str) -> None:
    memory = SharedMemory(name)
    while (shape := end.recv()) is not None:
        room: Tensor = np.ndarray(shape, np.float32, memory.buf)
        room[:] = room.copy()
        end.send(True)
        del room
    memory.close()


@contextmanager
def _other(target: Callable[..., None], *given: str) -> Iterator[Connection]:
    spawned = multiprocessing.get_context("spawn")
    here, there = spawned.Pipe()
    process = spawned.Process(target=target, args=(there, *given))
    process.start()
    try:
        yield here
    finally:
        if process.is_alive() and target is _echo:
            here.send(None)
        process.join()


def moved(trip: Trip, x: Tensor, seconds: float = SECONDS) -> float:
    """Seconds of a trip, the median. What comes back is compared, once."""
    assert np.array_equal(trip(x), x)
    times, end = list[float](), time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        trip(x)
        times.append(time.perf_counter() - begin)
    return median(times)
