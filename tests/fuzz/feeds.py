"""Feeds that are no feeds: one value of a feed replaced by another thing, or the feed itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array


class Sub(np.ndarray[Any, Any]):
    """A subclass that does nothing of its own."""


_DTYPES = "f2 f4 f8 i1 i4 i8 u1 u8 ? c8 c16 S3 U3 O M8[s] m8[s] V5 g f4,i4"
LONG = "y" * (1 << 20)


def other_dtype(rng: Random, x: Array) -> Any:
    return np.zeros(x.shape, rng.choice(_DTYPES.split()))


def other_rank(rng: Random, x: Array) -> Any:
    return rng.choice(
        (
            x[np.newaxis],
            x.reshape(-1),
            x[..., np.newaxis, np.newaxis],
            np.zeros((1,) * 30, x.dtype),
            x.reshape(-1)[:1].item() if x.size else 0,
        )
    )


def other_sizes(rng: Random, x: Array) -> Any:
    return np.zeros([rng.choice((0, 1, n, n + 1, 2 * n, 7)) for n in x.shape], x.dtype)


def other_byte_order(rng: Random, x: Array) -> Any:
    return x.astype(x.dtype.newbyteorder())


def negative_strides(rng: Random, x: Array) -> Any:
    return x[tuple(slice(None, None, -1) for _ in x.shape)]


def zero_strides(rng: Random, x: Array) -> Any:
    """All elements are one; some such arrays claim to be huge."""
    one = np.zeros((), x.dtype)
    shape = rng.choice((x.shape, tuple(n * 2 for n in x.shape), (1 << 40,), (0,) * x.ndim))
    return np.broadcast_to(one, shape)


def objects(rng: Random, x: Array) -> Any:
    made = np.empty(x.shape, object)
    made.fill(rng.choice((None, 1, "x", b"\xff", LONG, float("nan"), {}, made)))
    return made


def masked(rng: Random, x: Array) -> Any:
    return np.ma.masked_array(x, mask=rng.random() < 0.5)


def subclass(rng: Random, x: Array) -> Any:
    return rng.choice((x.view(Sub), np.asmatrix(x.reshape(1, -1)), np.rec.array(np.zeros(2, "f4,i4"))))


def read_only(rng: Random, x: Array) -> Any:
    made = x.copy()
    made.flags.writeable = False
    return made


def nested(rng: Random, x: Array) -> Any:
    return rng.choice((x.tolist(), [x.tolist()], [[1, 2], [3]], [1, "x"], [x, x], [], [[]], [None], (x,), [LONG], [{1: x}]))


def no_array(rng: Random, x: Array) -> Any:
    numbers: tuple[Any, ...] = (None, 1, 1.5, 2**80, range(3), iter([1]), ...)
    texts: tuple[Any, ...] = ("x", b"x", LONG, x.tobytes(), memoryview(b"ab"))
    others: tuple[Any, ...] = ({}, {"a": x}, object(), type, len)
    return rng.choice((*numbers, *texts, *others))


MUTATIONS: tuple[Callable[[Random, Array], Any], ...] = (
    *(other_dtype, other_rank, other_sizes, other_byte_order, negative_strides, zero_strides, objects, masked, subclass),
    *(read_only, nested, no_array),
)


def fed_wrongly(rng: Random, feeds: Mapping[str, Any]) -> tuple[Any, str]:
    """Another feed, and what is wrong with it; a few of these are good after all."""
    named = [name for name, value in feeds.items() if isinstance(value, np.ndarray)]
    if not named or rng.random() < 0.08:
        return _other_feed(rng, feeds)
    name, mutation = rng.choice(named), rng.choice(MUTATIONS)
    return {**feeds, name: mutation(rng, feeds[name])}, f"{name}: {mutation.__name__}"


def _other_feed(rng: Random, feeds: Mapping[str, Any]) -> tuple[Any, str]:
    """Names that there are not, or none, or no mapping at all."""
    first = next(iter(feeds), "in0")
    strange: tuple[Any, ...] = (
        *({}, None, [], 1, "x", [*feeds.values()], {**feeds, "more": 1}, {0: 1}, {None: 1}, {LONG: 1}, {b"in0": 1}),
        *({name: value for name, value in feeds.items() if name != first}, {**feeds, first + "\0": 1}, {**feeds, "": 1}),
    )
    return rng.choice(strange), "another feed"
